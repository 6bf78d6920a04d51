"""Open files on a real mount while others save, shorten and delete them: the kernel's side of one lineage an
inode."""

import mmap
import os
import shutil
import signal
import subprocess
from pathlib import Path

from cmsfs.replica.naming import CONFLICT_MARK
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until

OLD = bytes(range(256)) * 40_000  # 10 MB
SHORT = b"short " * 1000
LONG = bytes(reversed(range(256))) * 60_000


def copies(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if CONFLICT_MARK in path.name]


def test_read_is_consistent_during_remote_save(stopped: MountedDrive, api: Api, tmp_path: Path) -> None:
    for name, new in {"shorter": SHORT, "longer": LONG, "as long": OLD[::-1]}.items():
        path, copy = stopped.top / name, tmp_path / name
        number = api.file(name, OLD)
        until(path.exists)
        with path.open("rb", buffering=0) as source, copy.open("wb") as target:
            target.write(source.read(1 << 20))
            inode = os.fstat(source.fileno()).st_ino
            api.write(number, new)
            until(lambda path=path, inode=inode: path.stat().st_ino != inode)  # type: ignore[misc]
            assert path.stat().st_size == len(new)
            # Others read both versions meanwhile, to their ends.
            assert path.read_bytes() == new
            assert Path(f"/proc/self/fd/{source.fileno()}").read_bytes() == OLD
            shutil.copyfileobj(source, target)
            assert os.fstat(source.fileno()).st_size == len(OLD)
            assert path.stat().st_size == len(new)
            assert path.read_bytes() == new
        assert copy.read_bytes() == OLD
    _follow(stopped.top / "log", api)


def _follow(path: Path, api: Api) -> None:
    """Who follows a name sees what others append."""
    number = api.file(path.name, b"one\n")
    until(path.exists)
    tail = subprocess.Popen(
        ["tail", "-n", "+1", "-F", "-s", "0.05", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert tail.stdout is not None
        assert tail.stdout.readline() == "one\n"
        for text in ("two\n", "three\n"):
            api.write(number, (b"one\n" + text.encode()))
            assert tail.stdout.readline() == "one\n"
            assert tail.stdout.readline() == text
    finally:
        tail.kill()
        tail.communicate(timeout=20)


def test_write_to_old_version_makes_copy(stopped: MountedDrive, api: Api) -> None:
    path = stopped.top / "log.txt"
    number = api.file("log.txt", b"one\n" * 1000)
    until(path.exists)
    with path.open("ab", buffering=0) as log:
        inode = os.fstat(log.fileno()).st_ino
        api.write(number, SHORT)
        until(lambda: path.stat().st_ino != inode)
        log.write(b"two\n")
        assert os.fstat(log.fileno()).st_size == 4004
    assert path.read_bytes() == SHORT
    until(lambda: len(copies(stopped.top)) == 1)
    (copy,) = copies(stopped.top)
    assert copy.read_bytes() == b"one\n" * 1000 + b"two\n"
    assert copy.stat().st_ino == inode
    _map(stopped.top, api)
    stopped.sync()
    told = stopped.cmsfs("conflicts").stdout
    assert copy.name in told


def _map(top: Path, api: Api) -> None:
    """A shared mapping stays on its version, and what is written by it is kept."""
    path = top / "mapped"
    number = api.file("mapped", OLD)
    until(path.exists)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert mapped[:256] == OLD[:256]
        inode = os.fstat(file.fileno()).st_ino
        api.write(number, SHORT)
        until(lambda: path.stat().st_ino != inode)
        assert mapped[-256:] == OLD[-256:]
        mapped[:3] = b"NEW"
        with path.open("rb") as newer, mmap.mmap(newer.fileno(), 0, prot=mmap.PROT_READ) as other:
            assert other[:6] == b"short "
        mapped.flush()
    assert path.read_bytes() == SHORT
    until(lambda: len(copies(top)) == 2)
    (copy,) = (one for one in copies(top) if one.name.startswith("mapped"))
    assert copy.read_bytes() == b"NEW" + OLD[3:]


def test_a_program_that_runs_goes_on(stopped: MountedDrive, api: Api) -> None:
    path = stopped.top / "sleep"
    program = Path(shutil.which("sleep") or "/bin/sleep").read_bytes()
    number = api.file("sleep", program)
    until(path.exists)
    path.chmod(0o755)
    running = subprocess.Popen([path, "600"])
    try:
        inode = path.stat().st_ino
        api.write(number, b"#!/bin/sh\nexit 3\n")
        until(lambda: path.stat().st_ino != inode)
        assert subprocess.run([path], check=False).returncode == 3
        api.delete("file", number)
        until(lambda: not path.exists())
        assert running.poll() is None
    finally:
        running.send_signal(signal.SIGTERM)
    assert running.wait(20) == -signal.SIGTERM


def test_write_after_remote_deletion_is_kept(stopped: MountedDrive, api: Api) -> None:
    for what in ("file", "folder"):
        folder = api.folder(what)
        number = api.file("f", SHORT, folder)
        path = stopped.top / what / "f"
        until(path.exists)
        with path.open("r+b", buffering=0) as file:
            assert file.read() == SHORT
            if what == "file":
                api.delete("file", number)
            else:
                api.delete("folder", folder)
            until(lambda path=path: not path.exists())  # type: ignore[misc]
            os.pwrite(file.fileno(), b"SHORT", 0)
            os.fsync(file.fileno())
            until(path.exists)
            assert path.read_bytes() == b"SHORT" + SHORT[5:]
    stopped.sync()
    for what in ("file", "folder"):
        assert (stopped.top / what / "f").read_bytes() == b"SHORT" + SHORT[5:]
