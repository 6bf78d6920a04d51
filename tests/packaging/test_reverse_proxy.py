"""The example of a reverse proxy, in a real nginx before a real service."""

import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.certificates import self_signed
from tests.support.patience import until
from tests.support.server_process import ServerProcess

EXAMPLE = Path(__file__).parents[2] / "packaging" / "nginx.example.conf"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx here"),
]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of the service, by way of nginx; logged in as Ada."""
    port = _free_port()
    certificate, key = self_signed(tmp_path)
    service = ServerProcess(tmp_path / "data", "--public-url", f"https://127.0.0.1:{port}")
    service.start()
    site = EXAMPLE.read_text()
    for example, here in {
        "server 127.0.0.1:8472;": f"server 127.0.0.1:{service.port};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl/files.example.com/chain.pem": str(certificate),
        "/etc/ssl/files.example.com/key.pem": str(key),
    }.items():
        assert site.count(example) == 1
        site = site.replace(example, here)
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"{'user root;' if os.getuid() == 0 else ''}\ndaemon off;\npid {tmp_path}/pid;\n"
        f"events {{}}\nhttp {{\n{places}{site}}}\n"
    )
    command: list[str | Path] = [
        "nginx",
        "-e",
        tmp_path / "error.log",
        "-p",
        tmp_path,
        "-c",
        tmp_path / "nginx.conf",
    ]
    nginx = subprocess.Popen(command)
    try:
        until(lambda: _answers(port))
        trust = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, timeout=60) as client:
            known = service.credentials
            form = {
                "grant_type": "client_credentials",
                "client_id": known["client_id"],
                "client_secret": known["client_secret"],
                "box_subject_type": "user",
                "box_subject_id": known["user_id"],
            }
            token = client.post("/oauth2/token", data=form).json()["access_token"]
            client.headers["authorization"] = f"Bearer {token}"
            yield client
    finally:
        nginx.terminate()
        assert nginx.wait(30) == 0
        assert service.stop() == 0


def _upload(client: httpx.Client, name: str, data: bytes) -> str:
    attributes = json.dumps({"name": name, "parent": {"id": "0"}})
    sent = client.post(
        "/api/2.0/files/content", data={"attributes": attributes}, files={"file": (name, data)}
    )
    assert sent.status_code == 201, sent.text
    found: str = sent.json()["entries"][0]["id"]
    return found


def test_files_pass_and_events_wake_behind_nginx(behind: httpx.Client) -> None:
    data = os.urandom(20_000_000)
    file = _upload(behind, "large", data)
    got = behind.get(f"/2.0/files/{file}/content", follow_redirects=True)
    assert hashlib.sha1(got.content).digest() == hashlib.sha1(data).digest()
    part = behind.get(
        f"/2.0/files/{file}/content", headers={"range": "bytes=1000-1999"}, follow_redirects=True
    )
    assert (part.status_code, part.content) == (206, data[1000:2000])

    (waiting,) = behind.request("OPTIONS", "/2.0/events").json()["entries"]
    assert waiting["url"].startswith(str(behind.base_url).rstrip("/"))
    position = behind.get("/2.0/events?stream_position=now").json()["next_stream_position"]
    told = []
    asker = threading.Thread(
        target=lambda: told.append(behind.get(waiting["url"], params={"stream_position": position}).json())
    )
    asker.start()
    _upload(behind, "news", b"news")
    asker.join(60)
    assert [one["message"] for one in told] == ["new_change"]
