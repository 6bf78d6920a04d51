"""Test machines: a clean Debian root with a real systemd as PID 1, users on it, and our package.

The root is created once per session, or is the folder in CMSFS_TEST_ROOT; each machine uses an overlay of it.
CMSFS_TEST_DEB names a package that is already built.  All tests are skipped, with the reason, if this machine
cannot do that.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.file_manager import Files
from tests.support.machine import CLEAN, Machine, Person, run, server_of, unified, until
from tests.support.screen import Screen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MIRROR = "http://deb.debian.org/debian"
DESKTOP = (
    "xvfb openbox xdotool xclip scrot mousepad nautilus python3-nautilus gir1.2-gtk-4.0 libgdk-pixbuf2.0-bin"
)
NEWER = "trixie"
BUILDING = "gcc,libc6-dev,pkg-config,libfuse3-dev,python3-dev,python3-venv,binutils,dpkg-dev,file"
PACKAGES = "systemd,systemd-sysv,libpam-systemd,dbus,dbus-user-session,python3,fuse3,ca-certificates,man-db"


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The home folder for commands of this machine."""
    CLEAN["HOME"] = str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean root of this machine's own Debian release."""
    if os.geteuid() != 0:
        pytest.skip("a machine of the test's own needs root")
    if named := os.environ.get("CMSFS_TEST_ROOT"):
        return Path(named)
    unified()
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
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean root of the first Debian with systemd 254, and our packages for it in its /srv.

    CMSFS_TEST_NEWER names an existing one.
    """
    if os.geteuid() != 0:
        pytest.skip("a machine of the test's own needs root")
    if named := os.environ.get("CMSFS_TEST_NEWER"):
        return Path(named)
    unified()
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed")
    root = tmp_path_factory.mktemp("newer") / "root"
    made = run(
        *("mmdebstrap", "--variant=minbase", f"--include={PACKAGES},{BUILDING}", NEWER, root, MIRROR),
        check=False,
        seconds=1500,
    )
    if made.returncode:
        pytest.skip(f"a clean Debian could not be had: {made.stderr[-300:]}")
    source = root / "source"
    source.mkdir()
    run("sh", "-c", f"git -C {ROOT} archive HEAD | tar -x -C {source}")
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    for one in (authorities, Path("/etc/resolv.conf")):
        shutil.copyfile(one, root / one.relative_to("/"))
    run("mount", "-t", "proc", "proc", root / "proc")
    try:
        known = (f"PIP_CERT={authorities}", "PIP_DEFAULT_TIMEOUT=120", "SOURCE_DATE_EPOCH=1700000000")
        run("chroot", root, "env", *known, "/source/packaging/deb", "/srv", seconds=1500)
    finally:
        run("umount", root / "proc")
    return root


@pytest.fixture(scope="session")
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .deb of this checkout."""
    if named := os.environ.get("CMSFS_TEST_DEB"):
        return Path(named)
    folder = tmp_path_factory.mktemp("deb")
    done = run(
        *("env", f"CMSFS_STAGE={request.getfixturevalue('stage')}", ROOT / "packaging" / "deb", folder),
        check=False,
        seconds=900,
    )
    if "please install" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The staged files of this checkout's packages.  CMSFS_TEST_STAGE names existing ones."""
    if named := os.environ.get("CMSFS_TEST_STAGE"):
        return Path(named)
    folder = tmp_path_factory.mktemp("stage")
    done = run(ROOT / "packaging" / "stage", folder, check=False, seconds=1500)
    if "please install" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def machine(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted machine without our package."""
    yield from _machine(base, tmp_path_factory)


@pytest.fixture(scope="module")
def newer_machine(newer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted machine of the newer release, with our packages."""
    with contextmanager(_machine)(newer, tmp_path_factory) as machine:
        machine.sh("dpkg -i /srv/cmsfs*.deb")
        yield machine


@pytest.fixture
def newer_person(newer_machine: Machine) -> Iterator[Person]:
    """A user there who has never used the drive."""
    yield from _person(newer_machine)


@pytest.fixture(scope="session")
def desktop(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root with a desktop: a screen, windows, an editor.  CMSFS_TEST_DESKTOP names an existing one."""
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
    # Not every file system can hold an overlay's upper folder if it is an overlay itself; tmpfs always can.
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
    both = (package, server_of(package))
    for one in both:
        shutil.copyfile(one, machine.root / "srv" / one.name)
    machine.sh(f"dpkg -i {' '.join(f'/srv/{one.name}' for one in both)}")


@pytest.fixture(scope="session", name="run")
def running() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command on this machine, with a clean environment; it must succeed."""
    return run


@pytest.fixture(scope="session", name="until")
def awaiting() -> Callable[..., None]:
    """`until(condition, what=...)`: poll until the condition holds, for up to a minute."""
    return until


@pytest.fixture(scope="module")
def screen(workstation: Machine, tmp_path_factory: pytest.TempPathFactory) -> Screen:
    """The screen of a new user, Ada, who is not logged in yet.

    CMSFS_TEST_PICTURES names a folder for pictures of it.
    """
    return _screen(workstation, tmp_path_factory)


def _screen(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Screen:
    ada = Person(machine, "ada", 9000, lingers=False)
    folder = os.environ.get("CMSFS_TEST_PICTURES") or tmp_path_factory.mktemp("pictures")
    return Screen(ada, Path(folder))


@pytest.fixture(scope="session")
def files(desktop: Path, package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """Ada's file manager, on one machine for all tests of it, with the package and a drive."""
    with contextmanager(_machine)(desktop, tmp_path_factory) as machine:
        install(machine, package)
        screen = _screen(machine, tmp_path_factory)
        screen.log_in()
        screen.person.serve()
        screen.person.sh("cmsfs mount --enable")
        yield Files(screen, until)
        screen.log_out()


@pytest.fixture
def person(installed: Machine) -> Iterator[Person]:
    """A user who has never used the drive."""
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
