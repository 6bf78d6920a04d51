"""A test machine with a real systemd as PID 1, and its users."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

BOOT = Path(__file__).parents[1] / "packaging" / "boot.sh"
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}

CONFIGURE = """
import json, pathlib
home = pathlib.Path.home()
found = json.loads((home / '.local/share/cmsfs/service/credentials.json').read_text())
folder = home / '.config/cmsfs'
(folder / 'secret').write_text(found['client_secret'])
(folder / 'secret').chmod(0o600)
values = {
    'profile': 'server', 'base_url': url + '/2.0', 'upload_url': url + '/api/2.0', 'auth_url': url,
    'client_id': found['client_id'], 'client_secret_file': str(folder / 'secret'),
    'subject_id': found['user_id'],
}
text = ''.join(f'{key} = {json.dumps(value)}\\n' for key, value in values.items())
(folder / 'config.toml').write_text(text)
"""


def until(condition: Callable[[], object], *, seconds: float = 60.0, what: str = "") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.1)


def run(*command: object, check: bool = True, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
        env={**CLEAN, **{k: v for k, v in os.environ.items() if k.endswith("_proxy")}},
    )
    if check:
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


def server_of(package: Path) -> Path:
    """The package of the service that belongs to one of the drive."""
    return package.with_name(package.name.replace("cmsfs_", "cmsfs-server_"))


class Machine:
    """A booted root; `sh` runs as root in it."""

    def __init__(self, base: Path, place: Path) -> None:
        self._overlay = place / "root"
        self._overlay.mkdir()
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._cgroup = Path()
        self._boots = 0
        upper, work = place / "upper", place / "work"
        upper.mkdir()
        work.mkdir()
        run(
            "mount",
            "-t",
            "overlay",
            "overlay",
            "-o",
            f"lowerdir={base},upperdir={upper},workdir={work}",
            self._overlay,
        )

    def boot(self) -> None:
        """Boot it, and return when systemd is up."""
        self._boots += 1
        self._cgroup = unified() / f"cmsfs-test-{os.getpid()}-{id(self)}-{self._boots}"
        with (self._place / "console").open("ab") as console:
            self._process = subprocess.Popen(
                ["sh", BOOT, self._overlay, self._cgroup],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        until(self._is_up, what=f"systemd did not come up: {self.console()}")

    def _is_up(self) -> bool:
        assert self._process
        assert self._process.poll() is None, self.console()
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return False
        self._leader = int(children[0])
        state = self.sh("systemctl is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def console(self) -> str:
        return (self._place / "console").read_text(errors="replace")[-3000:]

    @property
    def leader(self) -> int:
        """The host's process id of its PID 1."""
        return self._leader

    @property
    def root(self) -> Path:
        """The path of its root file system on the host."""
        return Path("/proc", str(self._leader), "root")

    def sh(
        self, script: str, *, check: bool = True, seconds: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as root."""
        enter = ("nsenter", "-t", self._leader, "-m", "-u", "-i", "-n", "-p", "-C")
        return run(*enter, "sh", "-c", f"cd /; {script}", check=check, seconds=seconds)

    def halt(self) -> None:
        """Shut down cleanly."""
        assert self._process
        os.kill(self._leader, signal.SIGRTMIN + 4)  # systemd's word for power-off
        try:
            self._process.wait(timeout=100)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None
            for folder in sorted(self._cgroup.glob("**/"), reverse=True):
                folder.rmdir()

    def close(self) -> None:
        """Remove all of it."""
        try:
            if self._process:
                self.halt()
        finally:
            run("umount", "-l", self._overlay)


class Person:
    """A user of the machine with a manager of their own."""

    def __init__(self, machine: Machine, name: str, port: int, *, lingers: bool = True) -> None:
        self.machine = machine
        self.name = name
        self.home = f"/home/{name}"
        machine.sh(f"useradd -m -s /bin/bash {name}")
        self.uid = int(machine.sh(f"id -u {name}").stdout)
        self.port = port
        if lingers:
            machine.sh(f"loginctl enable-linger {name}")
            until(self.has_manager)

    def has_manager(self) -> bool:
        """Return whether the user's service manager runs: while they are logged in or linger."""
        return self.machine.sh(f"test -S /run/user/{self.uid}/bus", check=False).returncode == 0

    def sh(
        self, script: str, *, check: bool = True, seconds: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as this user."""
        folder = f"/run/user/{self.uid}"
        words = shlex.quote(f"cd {self.home}; {script}")
        known = {
            "HOME": self.home,
            "USER": self.name,
            "PATH": "/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "XDG_RUNTIME_DIR": folder,
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/bus",
        }
        given = " ".join(f"{key}={value}" for key, value in known.items())
        command = f"exec runuser -u {self.name} -- env -i {given} bash -c {words}"
        return self.machine.sh(command, check=check, seconds=seconds)

    def serve(self) -> None:
        """Set up a service for the user as a unit, with a configuration for it."""
        self.sh(
            f"mkdir -p .config/systemd/user/cmsfs-serve.service.d .config/cmsfs; "
            f"printf '[Service]\\nEnvironment=\"CMSFS_SERVE_OPTIONS=--port {self.port}\"\\n' "
            f"> .config/systemd/user/cmsfs-serve.service.d/port.conf; systemctl --user daemon-reload; "
            f"systemctl --user enable --now cmsfs-serve.service"
        )
        self.sh(f"python3 - <<'END'\nurl = 'http://127.0.0.1:{self.port}'\n{CONFIGURE}END")

    def unit(self, what: str = "ActiveState") -> str:
        """Return a property of the drive's unit."""
        done = self.sh(f"systemctl --user show cmsfs@default.service --property={what} --value")
        return done.stdout.strip()

    def is_mounted(self) -> bool:
        return f" {self.home}/cmsfs fuse.cmsfs " in self.machine.sh("cat /proc/mounts").stdout


def unified() -> Path:
    """Return the cgroup v2 mount; skip the test if there is none."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(where)
    pytest.skip("there are no control groups of version 2 here")
