"""A machine of the test's own: a clean Debian root with a real systemd as PID 1, users on it, our package.

The root is made once a session, or is a folder that CMSFS_TEST_ROOT names; each machine works on an overlay
of it.  CMSFS_TEST_DEB names a package that is built already.  All is skipped, with the reason, where this
machine cannot do that.
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MIRROR = "http://deb.debian.org/debian"
DESKTOP = (
    "xvfb openbox xdotool xclip scrot mousepad nautilus python3-nautilus gir1.2-gtk-4.0 libgdk-pixbuf2.0-bin"
)
PACKAGES = "systemd,systemd-sysv,libpam-systemd,dbus,dbus-user-session,python3,fuse3,ca-certificates,man-db"
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
        """Returns when systemd has come up."""
        self._boots += 1
        self._cgroup = _unified() / f"cmsfs-test-{os.getpid()}-{id(self)}-{self._boots}"
        with (self._place / "console").open("ab") as console:
            self._process = subprocess.Popen(
                ["sh", HERE / "boot.sh", self._overlay, self._cgroup],
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
        """Its first process, as this machine numbers it."""
        return self._leader

    @property
    def root(self) -> Path:
        """Its files, as they are found from this machine."""
        return Path("/proc", str(self._leader), "root")

    def sh(
        self, script: str, *, check: bool = True, seconds: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as root."""
        enter = ("nsenter", "-t", self._leader, "-m", "-u", "-i", "-n", "-p", "-C")
        return run(*enter, "sh", "-c", f"cd /; {script}", check=check, seconds=seconds)

    def halt(self) -> None:
        """Shut down in good order."""
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
        """Nothing of it stays."""
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
        """Whether a service manager of theirs runs, which it does while they are logged in or linger."""
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
        """Their own service as a unit, and a configuration for it."""
        self.sh(
            f"mkdir -p .config/systemd/user/cmsfs-serve.service.d .config/cmsfs; "
            f"printf '[Service]\\nEnvironment=\"CMSFS_SERVE_OPTIONS=--port {self.port}\"\\n' "
            f"> .config/systemd/user/cmsfs-serve.service.d/port.conf; systemctl --user daemon-reload; "
            f"systemctl --user enable --now cmsfs-serve.service"
        )
        self.sh(f"python3 - <<'END'\nurl = 'http://127.0.0.1:{self.port}'\n{CONFIGURE}END")

    def unit(self, what: str = "ActiveState") -> str:
        """A property of the drive's unit."""
        done = self.sh(f"systemctl --user show cmsfs@default.service --property={what} --value")
        return done.stdout.strip()

    def is_mounted(self) -> bool:
        return f" {self.home}/cmsfs fuse.cmsfs " in self.machine.sh("cat /proc/mounts").stdout


def _unified() -> Path:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(where)
    pytest.skip("there are no control groups of version 2 here")


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the commands of this machine take for their home."""
    CLEAN["HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean root of this machine's own Debian release."""
    if os.geteuid() != 0:
        pytest.skip("a machine of the test's own needs root")
    if named := os.environ.get("CMSFS_TEST_ROOT"):
        return Path(named)
    _unified()
    release = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines())
    if release.get("ID") != "debian":
        pytest.skip("the package is built for the Debian that it is built on, and this is none")
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse")
    suite, root = release["VERSION_CODENAME"], tmp_path_factory.mktemp("debian") / "root"
    if shutil.which("mmdebstrap"):
        made = run(
            "mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", suite, root, MIRROR, check=False
        )
    elif shutil.which("debootstrap"):
        command = ("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, root, MIRROR)
        made = run(*command, check=False, seconds=900)
    else:
        pytest.skip("neither mmdebstrap nor debootstrap is installed")
    if made.returncode:
        pytest.skip(f"a clean Debian could not be had: {made.stderr[-300:]}")
    return root


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .deb of this checkout."""
    if named := os.environ.get("CMSFS_TEST_DEB"):
        return Path(named)
    folder = tmp_path_factory.mktemp("deb")
    done = run(ROOT / "packaging" / "deb", folder, check=False, seconds=1500)
    if "please install" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def machine(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted machine without our package."""
    yield from _machine(base, tmp_path_factory)


@pytest.fixture(scope="session")
def desktop(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root with what a desktop brings: a screen, windows, an editor.  CMSFS_TEST_DESKTOP names one."""
    if named := os.environ.get("CMSFS_TEST_DESKTOP"):
        return Path(named)
    root = tmp_path_factory.mktemp("desktop") / "root"
    run("cp", "-a", base, root)
    shutil.copyfile("/etc/resolv.conf", root / "etc" / "resolv.conf")
    script = f"apt-get -q update && apt-get -q -y --no-install-recommends install {DESKTOP}"
    made = run(
        *("chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script),
        check=False,
        seconds=900,
    )
    if made.returncode:
        pytest.skip(f"a desktop could not be had: {made.stderr[-300:]}")
    return root


@pytest.fixture(scope="module")
def workstation(desktop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted machine with a desktop, without our package."""
    yield from _machine(desktop, tmp_path_factory)


def _machine(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    # An overlay cannot lie on another one's upper folder everywhere: a memory file system always does.
    place = tmp_path_factory.mktemp("machine")
    run("mount", "-t", "tmpfs", "tmpfs", place)
    try:
        made = Machine(base, place)
        try:
            made.boot()
            yield made
        finally:
            made.close()
    finally:
        run("umount", "-l", place)


@pytest.fixture(scope="module")
def installed(machine: Machine, package: Path) -> Machine:
    """The machine with our package."""
    install(machine, package)
    return machine


def install(machine: Machine, package: Path) -> None:
    shutil.copyfile(package, machine.root / "srv" / package.name)
    machine.sh(f"dpkg -i /srv/{package.name}")


@pytest.fixture(scope="session", name="run")
def running() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A command of this machine, with a clean environment; it must succeed."""
    return run


@pytest.fixture(scope="session", name="until")
def awaiting() -> Callable[..., None]:
    """`until(condition, what=...)`: asks until it is so, for a minute."""
    return until


@pytest.fixture(scope="module")
def screen(workstation: Machine, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The screen of a new user, Ada, who is not logged in yet.

    CMSFS_TEST_PICTURES names a folder for pictures of it.
    """
    return _screen(workstation, tmp_path_factory)


def _screen(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Any:
    ada = Person(machine, "ada", 9000, lingers=False)
    folder = os.environ.get("CMSFS_TEST_PICTURES") or tmp_path_factory.mktemp("pictures")
    from tests.support import screen

    return screen.Screen(ada, Path(folder))


@pytest.fixture(scope="session")
def files(desktop: Path, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Ada's file manager, on one machine for all tests of it, with the package and a drive."""
    with contextmanager(_machine)(desktop, tmp_path_factory) as machine:
        install(machine, package)
        screen = _screen(machine, tmp_path_factory)
        screen.log_in()
        screen.person.serve()
        screen.person.sh("cmsfs mount --enable")
        from tests.support import file_manager

        yield file_manager.Files(screen, until)
        screen.log_out()


@pytest.fixture
def person(installed: Machine) -> Iterator[Person]:
    """A user who has never used it."""
    yield from _person(installed)


@pytest.fixture
def second(installed: Machine) -> Iterator[Person]:
    """Another one."""
    yield from _person(installed)


def _person(machine: Machine) -> Iterator[Person]:
    number = int(machine.sh("ls /home | wc -l").stdout) + 1
    made = Person(machine, f"user{number}", 9000 + number)
    yield made
    machine.sh(f"loginctl disable-linger {made.name}; loginctl terminate-user {made.name}", check=False)
