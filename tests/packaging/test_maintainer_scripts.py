"""What the Debian packages do when they are installed, upgraded and purged, on a root of the test's own."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "packaging" / "debian"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a package of ours that has one module, and ada at home on it."""
    lib = tmp_path / "usr" / "lib" / "cmsfs"
    (lib / "bin").mkdir(parents=True)
    (lib / "bin" / "python3").symlink_to(sys.executable)
    (lib / "lib").mkdir()
    (lib / "lib" / "module.py").write_text("NUMBER = 1\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    program(tmp_path, "getent", f"echo 'ada:x:1000:1000::{tmp_path}/home:/bin/sh'")
    program(tmp_path, "runuser", 'test "$1 $2 $3" = "-u ada --" && shift 3 && exec "$@"')
    return tmp_path


def program(root: Path, name: str, script: str) -> None:
    path = root / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(root: Path, script: str, *arguments: str) -> str:
    done = subprocess.run(
        ["sh", SCRIPTS / script, *arguments],
        env={**os.environ, "DPKG_ROOT": str(root), "PATH": f"{root}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.mark.parametrize("package", ["cmsfs", "cmsfs-server"])
def test_bytecode_is_made_at_installation_and_goes_with_it(root: Path, package: str) -> None:
    lib = root / "usr" / "lib" / "cmsfs" / "lib"
    program(root, "dpkg-query", f"echo {str(lib).removeprefix(str(root))}/module.py")
    run(root, f"{package}.postinst", "configure", "")
    assert [one.name.split(".")[0] for one in lib.glob("__pycache__/*.pyc")] == ["module"]
    run(root, f"{package}.prerm", "upgrade", "2")
    assert [one.name for one in lib.iterdir()] == ["module.py"]


@pytest.mark.parametrize(
    ("package", "unit"), [("cmsfs", "cmsfs@default.service"), ("cmsfs-server", "cmsfs-serve.service")]
)
def test_purge_leaves_no_link_to_a_unit(root: Path, package: str, unit: str) -> None:
    wants = root / "home" / ".config" / "systemd" / "user" / "default.target.wants"
    wants.mkdir(parents=True)
    (wants / unit).symlink_to(f"/usr/lib/systemd/user/{unit}")
    (wants / "other.service").symlink_to("/usr/lib/systemd/user/other.service")
    run(root, f"{package}.postrm", "remove")
    assert (wants / unit).is_symlink()
    run(root, f"{package}.postrm", "purge")
    assert [one.name for one in wants.iterdir()] == ["other.service"]


def test_purge_says_what_was_never_sent(root: Path) -> None:
    assert run(root, "cmsfs.postrm", "purge") == ""
    unsent = root / "var" / "lib" / "cmsfs" / "unsent"
    unsent.parent.mkdir(parents=True)
    unsent.write_text("account default: 3 changes that the service does not have in /home/ada/...\n")
    told = run(root, "cmsfs.postrm", "purge")
    assert "account default: 3 changes" in told
    assert not unsent.parent.exists()


@pytest.mark.parametrize(
    ("refused", "done"),
    [
        ("nothing", ["--account work upgrade"]),
        ("upgrade", ["--account work upgrade", "--account work umount", "start cmsfs@work.service"]),
        ("upgrade|umount", ["--account work upgrade", "--account work umount"]),
    ],
)
def test_an_upgrade_hands_mounted_drives_to_the_new_version(
    root: Path, refused: str, done: list[str]
) -> None:
    runtime = root / "run" / "user" / "1000"
    (runtime / "systemd").mkdir(parents=True)
    program(
        root,
        "systemctl",
        f"""
        case "$3" in
            list-units) echo 'cmsfs@work.service loaded active running Cloud drive';;
            start) echo "$3 $4" >> {root}/calls;;
        esac""",
    )
    program(root, "systemd-escape", 'test "$4" = cmsfs@work.service && echo work')
    program(root, "id", 'test "$1 $2" = "-nu 1000" && echo ada')
    program(
        root,
        "runuser",
        f"""
        test "$1 $2 $3 $4 $5 $6" = "-u ada -- env XDG_RUNTIME_DIR={runtime} /usr/bin/cmsfs" || exit 9
        shift 6; echo "$@" >> {root}/calls
        case "$3" in {refused}) exit 1;; esac""",
    )
    with socket.socket(socket.AF_UNIX) as manager:
        # Its path is too long for a socket's name.
        folder = os.open(runtime / "systemd", os.O_PATH)
        manager.bind(f"/proc/self/fd/{folder}/private")
        os.close(folder)
        told = run(root, "cmsfs.postinst", "configure", "1")
    assert (root / "calls").read_text().splitlines() == done
    assert ("is in use" in told) is (refused == "upgrade|umount")


def test_a_first_installation_asks_no_drive(root: Path) -> None:
    program(root, "systemctl", "exit 9")
    run(root, "cmsfs.postinst", "configure", "")
