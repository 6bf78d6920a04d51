"""`python -m daemon` in its own process, with a real mount."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cmsfs import config, errors, mounts
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control, ready

HANG_SECONDS = 60.0


class Daemon:
    """One daemon on the embedded service's sample; `start` again after it has ended."""

    def __init__(self, mountpoint: Path, log: Path) -> None:
        self.mountpoint = mountpoint
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **environment: str) -> None:
        """Start it and return when the mount answers; raise UserError with the daemon's message if it does
        not."""
        exit_code, sentence = self.attempt(*arguments, **environment)
        if exit_code:
            raise errors.UserError(sentence, exit_code=exit_code)

    def attempt(self, *arguments: str, **environment: str) -> tuple[int, str]:
        return self.begin(*arguments, **environment)()

    def begin(self, *arguments: str, **environment: str) -> Callable[[], tuple[int, str]]:
        """Start it without waiting; the returned function waits and returns the outcome of `attempt`."""
        reader, writer = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "daemon", "--sample", "--ready-fd", str(writer)),
                    *("--mountpoint", str(self.mountpoint), *arguments),
                ],
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                env=os.environ | environment,
            )
        os.close(writer)

        def told() -> tuple[int, str]:
            with os.fdopen(reader, "rb") as lines:
                return ready.parse_ready_line(lines.readline().decode())

        return told

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends by itself, and return its exit code."""
        assert self.process is not None
        code = self.process.wait(timeout=HANG_SECONDS)
        self.process = None
        return code

    def ask(self, request: object) -> list[object]:
        path = config.Paths("default").socket
        return list(daemonctl.exchange(path, request))  # type: ignore[arg-type]

    def free(self) -> None:
        """Remove its process and mount in any case."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=HANG_SECONDS)
        while mounts.find(self.mountpoint) is not None:
            mounts.detach(self.mountpoint)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state(daemon: Daemon) -> str:
    """Return the daemon's connection state to the service."""
    status = daemon.ask(control.GetStatus())[-1]
    assert isinstance(status, control.DriveStatus)
    return status.health.state


def remote_settings(tmp_path: Path, secret: str = "wrong", port: int = 9) -> dict[str, str]:
    file = tmp_path / "secret"
    file.write_text(secret)
    url = f"http://127.0.0.1:{port}"
    return {
        "CMSFS_PROFILE": "specification",
        "CMSFS_BASE_URL": f"{url}/2.0",
        "CMSFS_UPLOAD_URL": f"{url}/api/2.0",
        "CMSFS_AUTH_URL": url,
        "CMSFS_CLIENT_ID": "tests",
        "CMSFS_SUBJECT_ID": "1",
        "CMSFS_CLIENT_SECRET_FILE": str(file),
    }
