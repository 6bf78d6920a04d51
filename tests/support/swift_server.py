"""A second S3 server for tests: OpenStack Swift with its middleware s3api, from the system's packages.

It runs one of each of Swift's servers on one folder: account, container, object, and the proxy with the S3
API.
"""

import hashlib
import hmac
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.support.s3_server import BUCKET

KEYS = {"AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": "testing"}
SECONDS = 120.0

_STORES = ("account", "container", "object")
_PIPELINE = (
    *("catch_errors", "gatekeeper", "proxy-logging", "cache", "listing_formats", "s3api", "tempauth"),
    *("copy", "bulk", "slo", "dlo"),
)
_NAMES = {"proxy-logging": "proxy_logging", "cache": "memcache"}
_SETTINGS = {
    # There is none, and it does without.
    "cache": "memcache_servers = 127.0.0.1:1",
    "s3api": "location = us-east-1",
    "tempauth": "user_test_tester = testing .admin",
}


def lacks() -> str | None:
    """Return why no such server can run here; None if it can."""
    for name in (*_STORES, "proxy"):
        if shutil.which(f"swift-{name}-server") is None:
            return "Swift is not installed (swift-proxy, swift-account, swift-container, swift-object)"
    return None


class SwiftServer:
    """Create it with `running`.  `stop` kills it, `start` serves the same objects again."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self._folder = folder
        self._ports = ports
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"http://127.0.0.1:{ports['proxy']}"

    @property
    def environment(self) -> dict[str, str]:
        return KEYS | {"AWS_ENDPOINT_URL": self.url}

    def make(self) -> None:
        (self._folder / "devices" / "one").mkdir(parents=True)
        policy = "[storage-policy:0]\nname = one\ndefault = yes\n"
        (self._folder / "swift.conf").write_text(f"[swift-hash]\nswift_hash_path_suffix = tests\n{policy}")
        for name in _STORES:
            builder = str(self._folder / f"{name}.builder")
            place = f"r1z1-127.0.0.1:{self._ports[name]}/one"
            for command in (("create", "4", "1", "0"), ("add", place, "1"), ("rebalance",)):
                done = ["swift-ring-builder", builder, *command]
                subprocess.run(done, check=True, stdout=subprocess.DEVNULL, env=self._environment)
            self._configure(name, f"[pipeline:main]\npipeline = {name}-server\n")
        text = f"[pipeline:main]\npipeline = {' '.join(_PIPELINE)} proxy-server\n"
        for name in _PIPELINE:
            text += f"[filter:{name}]\nuse = egg:swift#{_NAMES.get(name, name)}\n{_SETTINGS.get(name, '')}\n"
        self._configure("proxy", text, "allow_account_management = true\naccount_autocreate = true\n")

    @property
    def _environment(self) -> dict[str, str]:
        # Swift needs the system's Python, without the environment variables of the tests' Python.
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self._folder)}

    def _configure(self, name: str, text: str, more: str = "") -> None:
        (self._folder / f"{name}.conf").write_text(
            f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {self._ports[name]}\nswift_dir = {self._folder}\n"
            f"devices = {self._folder}/devices\nmount_check = false\nworkers = 0\nuser = {_user()}\n"
            f"disable_fallocate = true\nlog_level = WARNING\n"
            f"{text}[app:{name}-server]\nuse = egg:swift#{name}\n{more}"
        )

    def start(self) -> None:
        for name in (*_STORES, "proxy"):
            command = [f"/usr/bin/swift-{name}-server", str(self._folder / f"{name}.conf"), "verbose"]
            with (self._folder / f"{name}.log").open("ab") as log:
                made = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
            self._processes.append(made)
        give_up = time.monotonic() + SECONDS
        for name, port in self._ports.items():
            while not _listens(port):
                said = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                assert time.monotonic() < give_up, said
                assert all(one.poll() is None for one in self._processes), said
                time.sleep(0.05)

    def stop(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    def make_bucket(self) -> None:
        """Send a request signed as for S3."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        body = hashlib.sha256(b"").hexdigest()
        signed = {"host": self.url.partition("//")[2], "x-amz-content-sha256": body, "x-amz-date": now}
        lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
        request = f"PUT\n/{BUCKET}\n\n{lines}\n{';'.join(signed)}\n{body}"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        secret = f"AWS4{KEYS['AWS_SECRET_ACCESS_KEY']}".encode()
        for word in scope.split("/"):
            secret = hmac.digest(secret, word.encode(), "sha256")
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        who = f"Credential={KEYS['AWS_ACCESS_KEY_ID']}/{scope}"
        said = f"AWS4-HMAC-SHA256 {who}, SignedHeaders={';'.join(signed)}, Signature={signature}"
        wish = urllib.request.Request(
            f"{self.url}/{BUCKET}", method="PUT", headers=signed | {"authorization": said}
        )
        with urllib.request.urlopen(wish, timeout=SECONDS) as answer:
            assert answer.status == 200


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(folder: Path) -> Iterator[SwiftServer]:
    with ExitStack() as probes:
        sockets = {name: probes.enter_context(socket.socket()) for name in (*_STORES, "proxy")}
        for one in sockets.values():
            one.bind(("127.0.0.1", 0))
        ports = {name: one.getsockname()[1] for name, one in sockets.items()}
    server = SwiftServer(folder, ports)
    server.make()
    try:
        server.start()
        server.make_bucket()
        yield server
    finally:
        server.stop()
