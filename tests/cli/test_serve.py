"""`cmsfs serve`."""

import json
import socket
import stat
import urllib.error
import urllib.parse
import urllib.request


def _token(server, **changed: str) -> dict[str, object]:
    form = {
        "grant_type": "client_credentials",
        "client_id": server.credentials["client_id"],
        "client_secret": server.credentials["client_secret"],
        "box_subject_type": "user",
        "box_subject_id": server.credentials["user_id"],
    } | changed
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


def test_a_port_in_use_is_told(tmp_path, cmsfs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cmsfs("serve", "--data", tmp_path / "data", "--port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"cmsfs: Port {port} of 127.0.0.1 is in use; choose another with --port.\n"


def test_an_address_of_another_machine_is_told(tmp_path, cmsfs):
    done = cmsfs("serve", "--data", tmp_path / "data", "--host", "192.0.2.1")
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
    assert "--tls-cert and --tls-key go together." in done.stderr


def test_data_that_cannot_be_kept_is_told(tmp_path, cmsfs):
    file = tmp_path / "file"
    file.touch()
    done = cmsfs("serve", "--data", file / "data")
    assert done.returncode == 1
    assert done.stderr.startswith(f"cmsfs: {file}/data cannot hold the service's data")
    assert done.stderr.count("\n") == 1
