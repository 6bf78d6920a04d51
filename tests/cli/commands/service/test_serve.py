"""`cmsfs serve`."""

import contextlib
import json
import resource
import signal
import socket
import stat
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.conftest import ServiceClient
from tests.support import sample_documents


def _token(server, **form: str) -> dict[str, object]:
    form = form or {
        "grant_type": "client_credentials",
        "client_id": server.credentials["client_id"],
        "client_secret": server.credentials["client_secret"],
        "box_subject_type": "user",
        "box_subject_id": server.credentials["user_id"],
    }
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{server.url}/oauth2/token", body, timeout=20) as answer:
        found: dict[str, object] = json.loads(answer.read())
        return found


def test_it_serves_to_who_has_the_credentials(server):
    token = _token(server)["access_token"]
    request = urllib.request.Request(
        f"{server.url}/2.0/users/me", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.loads(answer.read())["id"] == server.credentials["user_id"]


def test_its_credentials_are_for_this_user_alone(server):
    assert stat.S_IMODE((server.data / "credentials.json").stat().st_mode) == 0o600


def test_a_signal_ends_it_in_good_order(server):
    _token(server)
    assert server.stop() == 0


@pytest.mark.parametrize("address", ["nine", "host:", ":70000", "10.0.0.1:x"])
def test_an_address_for_metrics_is_checked(tmp_path, cmsfs, address):
    done = cmsfs("serve", "--data", tmp_path / "data", "--metrics", address)
    assert done.returncode == 2
    assert "--metrics takes a port" in done.stderr


def test_a_port_in_use_is_told(tmp_path, cmsfs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cmsfs("serve", "--data", tmp_path / "data", "--port", str(port))
        again = cmsfs("serve", "--data", tmp_path / "data", "--port", "0", "--metrics", str(port))
    assert again.returncode == 1
    assert f"Metrics cannot be served at 127.0.0.1 port {port}" in again.stderr
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"cmsfs: Port {port} of 127.0.0.1 is in use; choose another with --port.\n"


def test_an_address_of_another_machine_is_told(tmp_path, cmsfs):
    done = cmsfs("serve", "--data", tmp_path / "data", "--host", "192.0.2.1", "--insecure")
    assert done.returncode == 1
    assert done.stderr.startswith("cmsfs: 192.0.2.1 ")
    assert done.stderr.count("\n") == 1


def test_a_certificate_that_is_none_is_told(tmp_path, cmsfs):
    file = tmp_path / "cert.pem"
    file.write_text("nothing")
    done = cmsfs("serve", "--data", tmp_path / "data", "--port", "0", "--tls-cert", file, "--tls-key", file)
    assert done.returncode == 1
    assert done.stderr.startswith(f"cmsfs: The certificate {file} or its key cannot be used")
    assert done.stderr.count("\n") == 1


def test_a_certificate_needs_its_key(tmp_path, cmsfs):
    done = cmsfs("serve", "--data", tmp_path / "data", "--tls-cert", tmp_path / "cert.pem")
    assert done.returncode == 2
    assert "--tls-cert and --tls-key must be given together." in done.stderr


def test_data_that_cannot_be_kept_is_told(tmp_path, cmsfs):
    file = tmp_path / "file"
    file.touch()
    done = cmsfs("serve", "--data", file / "data")
    assert done.returncode == 1
    assert done.stderr.startswith(f"cmsfs: {file}/data cannot hold the service's data")
    assert done.stderr.count("\n") == 1


def test_an_enterprise_of_ones_own(tmp_path, cmsfs, serving):
    file = tmp_path / "enterprise.toml"
    file.write_text(
        '[enterprise]\nname = "Own"\n[[users]]\nlogin = "a@example.com"\nname = "A"\nrole = "admin"\n'
        '[[apps]]\nclient_id = "own"\nclient_secret = { file = "secret" }\nname = "Own"\n'
        'service_user = "a@example.com"\n'
    )
    (tmp_path / "secret").write_text("of my own\n")
    server = serving("--enterprise-file", file)
    assert server.ready_info.keys() == {"url", "enterprise_id", "user_ids"}
    assert server.ready_info["enterprise_id"] == "1"
    assert server.ready_info["user_ids"].keys() == {"a@example.com"}
    assert server.ready_info["user_ids"]["a@example.com"].isdigit()
    form = {
        "grant_type": "client_credentials",
        "client_id": "own",
        "client_secret": "of my own",
        "box_subject_type": "enterprise",
        "box_subject_id": "1",
    }
    assert _token(server, **form)["access_token"]
    assert server.stop() == 0
    # Later the file is not needed: nothing of the sample is made, and the application's secret stays.
    server = serving(data=server.data)
    assert server.ready_info.keys() == {"url"}
    assert _token(server, **form)["access_token"]
    assert not (server.data / "credentials.json").exists()
    assert server.stop() == 0


def test_a_mistake_in_an_enterprise_file_is_told(tmp_path, cmsfs):
    file = tmp_path / "enterprise.toml"
    file.write_text('[enterprise]\nnmae = "Own"\n')
    done = cmsfs("serve", "--data", tmp_path / "data", "--enterprise-file", file)
    assert done.returncode == 2
    assert done.stderr == f"cmsfs: {file}: enterprise.nmae is not known; did you mean name?\n"


@pytest.mark.parametrize("url", ["files.example.com", "https://u:p@x/base"])
def test_a_public_url_is_an_origin(tmp_path, cmsfs, url):
    done = cmsfs("serve", "--data", tmp_path / "data", "--public-url", url)
    assert done.returncode == 2
    assert done.stderr.startswith("cmsfs: --public-url takes a scheme, a host")
    assert done.stderr.count("\n") == 1


def test_limits_are_off_unless_asked_for(serving):
    for options, expected in (((), {200}), (("--rate-limits",), {200, 429})):
        server = serving(*options)
        headers = {"authorization": f"Bearer {_token(server)['access_token']}"}
        request = urllib.request.Request(f"{server.url}/2.0/search?query=x", headers=headers)

        def ask(_: int, request: urllib.request.Request = request) -> int:
            try:
                return urllib.request.urlopen(request, timeout=60).status
            except urllib.error.HTTPError as error:
                assert int(error.headers["Retry-After"]) >= 1
                return error.code

        # All at once: on a machine that is slow, one after the other is within any limit.
        with ThreadPoolExecutor(40) as pool:
            assert set(pool.map(ask, range(40))) == expected
        server.stop()


def test_a_second_signal_ends_it_at_once(server):
    # An upload that never ends.
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as stream:
        stream.sendall(
            b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        )
        assert b"100" in stream.recv(100)
        server.process.send_signal(signal.SIGINT)
        # The listener goes when the first signal has been heard.
        with pytest.raises(OSError):
            while True:
                socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))).close()
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=5) == 128 + signal.SIGINT


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "files.example.com"])
def test_beyond_this_machine_it_wants_a_certificate(tmp_path, cmsfs, host):
    done = cmsfs("serve", "--data", tmp_path / "data", "--host", host)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cmsfs: Without TLS, tokens and files are sent to {host} in plain text")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_folder_is_served_once(server, cmsfs):
    done = cmsfs("serve", "--data", server.data, "--port", "0")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"cmsfs: {server.data} is being served already, by process {server.process.pid}; end that, or choose "
        "another --data.\n"
    )
    _token(server)


HALF = b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"


@contextlib.contextmanager
def _half_sent(server, number):
    """So many requests whose bodies do not come."""
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
            one = stack.enter_context(socket.create_connection(address, timeout=20))
            one.sendall(HALF)
        yield


def _status(server):
    try:
        return urllib.request.urlopen(f"{server.url}/2.0/users/me", timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def test_without_descriptors_it_says_so_and_goes_on(serving, tmp_path):
    log = tmp_path / "log"
    server = serving(log=log)
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, hard))
    with _half_sent(server, 80):
        assert _status(server) == 503
    deadline = time.monotonic() + 20
    while _status(server) != 401:
        assert time.monotonic() < deadline
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, hard))
    assert server.stop() == 0
    said = log.read_text()
    assert "connections are refused: the descriptors of this process are used up" in said
    assert "Traceback" not in said


def _slow_page() -> bytes:
    """A PDF that its reader needs many seconds for."""
    text = sample_documents.pdf("x")
    start, end = text.index(b"<< /Length"), text.index(b"endstream")
    packed = zlib.compress(b"BT /F1 1 Tf " + b"(x) Tj " * 3_000_000 + b"ET", 9)
    return (
        text[:start]
        + b"<< /Filter /FlateDecode /Length %d >>\nstream\n" % len(packed)
        + packed
        + b"\n"
        + text[end:]
    )


@pytest.mark.long
@pytest.mark.parametrize("busy", ["bodies", "worker", "both"])
def test_signal_stops_server_in_time(server, busy):
    headers = {"authorization": f"Bearer {_token(server)['access_token']}"}
    if busy != "bodies":
        body, more = ServiceClient.form({"name": "slow.pdf", "parent": {"id": "0"}}, _slow_page())
        address = f"{server.url}/api/2.0/files/content"
        asked = urllib.request.Request(address, body, headers=headers | more)
        assert urllib.request.urlopen(asked, timeout=20).status == 201
        tasks = Path(f"/proc/{server.process.pid}/task")
        deadline = time.monotonic() + 20
        while not any(one.read_text() for one in tasks.glob("*/children")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with _half_sent(server, 0 if busy == "worker" else 300):
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=12) == 0
