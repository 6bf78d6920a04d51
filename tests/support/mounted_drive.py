"""A person at a mounted drive: starts, stops, kills and asks it, and works in it with ordinary programs."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cmsfs import config, mounts
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control
from tests.support.patience import until


class MountedDrive:
    """A drive on the embedded service; `top` is where the test works."""

    def __init__(self, mountpoint: Path, home: Path, top: Path | None = None) -> None:
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
        self.cmsfs("demo", self.mountpoint)

    def stop(self) -> None:
        self.cmsfs("umount", self.mountpoint)

    def free(self) -> None:
        """Whatever has happened, it is not mounted any more.  Raises AssertionError if that was hard."""
        if mounts.find(self.mountpoint) is None and daemonctl.find_account("default") is None:
            return
        self.cmsfs("umount", self.mountpoint, "--force", check=False)
        if mounts.find(self.mountpoint) is not None:
            mounts.detach(self.mountpoint)
            raise AssertionError("the drive could not be unmounted")

    def sync(self) -> None:
        """As `cmsfs sync`, without a process for it."""
        for answer in daemonctl.exchange(config.Paths("default").socket, control.Sync()):
            if isinstance(answer, control.Done):
                assert not answer.held, answer

    def status(self) -> dict[str, Any]:
        """As `cmsfs status --json`, without a process for it."""
        daemon = daemonctl.find_account("default")
        assert daemon is not None, "no daemon runs"
        return daemonctl.status(daemon).model_dump(mode="json")

    def kill(self) -> None:
        """The daemon is gone in the middle of whatever it did."""
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        # Not our child: nobody tells us when it is gone.
        until(lambda: not Path(f"/proc/{pid}/stat").exists(), 10, "the daemon lives")

    def sh(self, script: str, *, cwd: Path | None = None, timeout: float = 90) -> str:
        """What a shell script prints, run in the drive; it must succeed."""
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=cwd or self.top,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C.UTF-8", "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout
