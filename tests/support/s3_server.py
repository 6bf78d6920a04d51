"""An S3 server for tests: the gateway of JuiceFS, backed by an SQLite file and a folder."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEYS = {"AWS_ACCESS_KEY_ID": "cmsfs-tests", "AWS_SECRET_ACCESS_KEY": "a secret of the tests"}
# The name of the volume, which is its only bucket.
BUCKET = "contents"


def program() -> str | None:
    """Return the path of the program; None if it is not installed."""
    beside = Path(sys.executable).with_name("juicefs")
    return str(beside) if beside.exists() else shutil.which("juicefs")


def place(test: str) -> str:
    """Return the URL of a test's own prefix, by its name with its parameters."""
    words = re.sub(r"\W+", "-", test).strip("-")
    return f"s3://{BUCKET}/{words}"


class S3Server:
    """Create it with `running`.  `stop` kills it, `start` serves the same objects again."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        return KEYS | {"AWS_ENDPOINT_URL": self.url}

    def start(self) -> None:
        found = program()
        assert found is not None
        meta = f"sqlite3://{self._folder}/meta.db"
        env = os.environ | {
            "HOME": str(self._folder),
            "MINIO_ROOT_USER": KEYS["AWS_ACCESS_KEY_ID"],
            "MINIO_ROOT_PASSWORD": KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        with (self._folder / "log").open("ab") as log:
            if not (self._folder / "meta.db").exists():
                made = [found, "format", "--storage", "file", "--bucket", f"{self._folder}/objects/"]
                subprocess.run([*made, "--trash-days", "0", meta, BUCKET], env=env, stderr=log, check=True)
            serve = [
                found,
                "gateway",
                "--no-usage-report",
                "--no-banner",
                "--no-bgjob",
                "--metrics",
                "127.0.0.1:0",
            ]
            serve += ["--cache-dir", f"{self._folder}/cache", "--log", f"{self._folder}/gateway.log"]
            serve += ["--attr-cache", "0", "--dir-entry-cache", "0"]
            address = f"127.0.0.1:{self.port}"
            self._process = subprocess.Popen([*serve, meta, address], env=env, stdout=log, stderr=log)
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text(errors="replace")[-2000:])

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = S3Server(folder, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
