"""A mounted drive for tests: start, stop, kill and query it, and use it with ordinary programs."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmsfs import config, mounts
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control
from tests.support.patience import until

if TYPE_CHECKING:
    from tests.support.three_processes import ThreeProcesses


class MountedDrive:
    """A drive on the embedded service, or on three processes; `top` is where the test works."""

    def __init__(
        self,
        mountpoint: Path,
        home: Path,
        top: Path | None = None,
        processes: "ThreeProcesses | None" = None,
    ) -> None:
        self.processes = processes
        self.mountpoint = mountpoint
        self.top = top or mountpoint
        self.home = home

    def cmsfs(
        self, *arguments: object, check: bool = True, seconds: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line; its exit code must be 0 unless `check` is false."""
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd="/",
        )
        if check:
            assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def start(self) -> None:
        if self.processes is not None:
            self.mountpoint.mkdir(exist_ok=True)
            self.cmsfs("mount", self.mountpoint)
        else:
            self.cmsfs("demo", self.mountpoint)

    def stop(self) -> None:
        self.cmsfs("umount", self.mountpoint)

    def free(self) -> None:
        """Unmount it in any case.  Raises AssertionError if that was difficult."""
        if mounts.find(self.mountpoint) is None and daemonctl.find_account("default") is None:
            return
        self.cmsfs("umount", self.mountpoint, "--force", check=False)
        if mounts.find(self.mountpoint) is not None:
            mounts.detach(self.mountpoint)
            raise AssertionError("the drive could not be unmounted")

    def tables(self) -> Any:
        """Open the service's own tables, past every layer that could deceive itself."""
        if self.processes is not None:
            from cmsfs.service.storage.postgres import connection

            return closing(connection.connect(self.processes.place[0]))
        path = next(self.home.rglob("service.db"))
        return closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))

    def sync(self) -> None:
        """Sync as `cmsfs sync` does, without a process."""
        for answer in daemonctl.exchange(config.Paths("default").socket, control.Sync()):
            if isinstance(answer, control.Done):
                assert not answer.held, answer

    def status(self) -> dict[str, Any]:
        """Return the status as `cmsfs status --json` does, without a process."""
        daemon = daemonctl.find_account("default")
        assert daemon is not None, "no daemon runs"
        return daemonctl.status(daemon).model_dump(mode="json")

    def kill(self) -> None:
        """Kill the daemon in the middle of its work."""
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        # Not our child, so its end has to be polled.
        until(lambda: not Path(f"/proc/{pid}/stat").exists(), 10, "the daemon lives")

    def sh(self, script: str, *, cwd: Path | None = None, timeout: float = 90) -> str:
        """Run a shell script in the drive and return its output; it must succeed."""
        # `env` goes into the folder: a relay of this process may have to be asked for it, and before Python
        # 3.11.4 nothing else runs here until a new process runs its program.
        done = subprocess.run(
            ["env", "-C", cwd or self.top, "bash", "-euc", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C.UTF-8", "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout
