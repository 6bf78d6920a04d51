"""rclone on the same service over the same link, for the benchmarks: `--rclone PATH` names its binary.

Its backend for this API speaks to hosts of its own only.  So the service has a certificate for their names,
and rclone goes by a proxy that leads every name to the benchmark's link.
"""

import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The hosts that rclone's backend has built in.
HOSTS = ("api.box.com", "upload.box.com")

# As its documentation advises for large and small files alike: read ahead, in parts side by side, and kept.
FLAGS = [
    *("--vfs-cache-mode", "full", "--vfs-read-chunk-size", "4M", "--vfs-read-chunk-streams", "8"),
    *("--vfs-read-ahead", "32M", "--buffer-size", "32M", "--max-read-ahead", "1M"),
    *("--dir-cache-time", "1h", "--attr-timeout", "1h", "--poll-interval", "0"),
]

STARTS_WITHIN = 60.0


class Rclone:
    """A mounted rclone."""

    def __init__(self, drive: Path, process: subprocess.Popen[bytes]) -> None:
        self.drive = drive
        self._process = process

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def mounted(binary: Path, root: Path, *, port: int, ca_file: Path, token: str) -> Iterator[Rclone]:
    """A mount with nothing cached but the tree, of the service at a port of this machine."""
    drive, cache = root / "rival", root / "rival-cache"
    drive.mkdir(exist_ok=True)
    shutil.rmtree(cache, ignore_errors=True)
    with proxy(port) as address:
        login = {"access_token": token, "token_type": "bearer", "expiry": "2099-01-01T00:00:00Z"}
        environment = os.environ | {
            "HTTPS_PROXY": address,
            "NO_PROXY": "",
            "RCLONE_CONFIG": str(root / "rival.conf"),
            "RCLONE_CONFIG_RIVAL_TYPE": "box",
            "RCLONE_CONFIG_RIVAL_TOKEN": json.dumps(login),
        }
        command = [str(binary), "mount", "rival:", str(drive), "--ca-cert", str(ca_file)]
        process = subprocess.Popen(
            [*command, "--cache-dir", str(cache), *FLAGS], env=environment, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + STARTS_WITHIN
            while not os.path.ismount(drive):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{binary} does not mount")
                time.sleep(0.1)
            for _ in os.walk(drive):
                pass
            yield Rclone(drive, process)
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(drive)], capture_output=True)
            process.terminate()
            process.wait()


@contextmanager
def proxy(port: int) -> Iterator[str]:
    """An HTTP proxy that leads every CONNECT to one port of this machine."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=_relay, args=(client, port), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _relay(client: socket.socket, port: int) -> None:
    with client, contextlib.suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        if not re.match(rb"CONNECT ", head):
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            other = {client: server, server: client}
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1024 * 1024)
                    if not data:
                        return
                    other[ready].sendall(data)
