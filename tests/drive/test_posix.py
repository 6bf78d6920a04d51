"""What POSIX promises to programs, on a mount: several processes at one file, open files without a name, and
all that the service has no place for, over restarts."""

import errno
import fcntl
import mmap
import os
import shutil
import stat
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests.support import recorded_saves
from tests.support.mounted_drive import MountedDrive


def children(count: int, script: str, *arguments: object) -> list[str]:
    """What so many processes print that run a script at once; its first argument is their number."""
    command = [sys.executable, "-I", "-S", "-c", script]
    running = [
        subprocess.Popen([*command, str(number), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    printed = [child.communicate(timeout=60)[0] for child in running]
    assert all(child.returncode == 0 for child in running)
    return printed


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def number_of(call: Any, *arguments: Any, **more: Any) -> int:
    """The errno that a call fails with, 0 if it does not."""
    try:
        call(*arguments, **more)
    except OSError as error:
        return error.errno or -1
    return 0


APPEND = """
import os, sys
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in range(200):
    os.write(fd, b"%d %04d\\n" % (int(sys.argv[1]), line))
"""

CLAIM = """
import os, sys
won = 0
for name in range(100):
    try:
        os.close(os.open(f"{sys.argv[2]}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        won += 1
    except FileExistsError:
        pass
print(won)
"""

COUNT = """
import fcntl, os, sys
fd = os.open(sys.argv[2], os.O_RDWR)
lock = fcntl.flock if sys.argv[3] == "flock" else fcntl.lockf
for _ in range(100):
    lock(fd, fcntl.LOCK_EX)
    value = int(os.pread(fd, 20, 0))
    os.pwrite(fd, b"%d" % (value + 1), 0)
    lock(fd, fcntl.LOCK_UN)
"""

MAP = """
import mmap, os, sys
fd = os.open(sys.argv[2], os.O_RDWR)
page = int(sys.argv[1]) * 8192
with mmap.mmap(fd, 0) as mapped:
    mapped[page : page + 8192] = sys.argv[1].encode() * 8192
    mapped.flush()
"""


def test_several_processes_at_one_file(shared: MountedDrive) -> None:
    log = shared.top / "log"
    children(4, APPEND, log)
    lines = log.read_text().splitlines()
    assert sorted(lines) == sorted(f"{n} {line:04}" for n in range(4) for line in range(200))
    for n in range(4):
        assert [line for line in lines if line[0] == str(n)] == [f"{n} {line:04}" for line in range(200)]

    (shared.top / "claims").mkdir()
    assert sum(map(int, children(4, CLAIM, shared.top / "claims"))) == 100

    for kind in ("flock", "fcntl"):
        counter = shared.top / kind
        counter.write_text("0")
        children(4, COUNT, counter, kind)
        assert counter.read_text() == "400"

    mapped = shared.top / "mapped"
    mapped.write_bytes(bytes(4 * 8192))
    children(4, MAP, mapped)
    expected = b"".join(str(n).encode() * 8192 for n in range(4))
    assert mapped.read_bytes() == expected
    shared.sync()
    shared.stop()
    shared.start()
    assert mapped.read_bytes() == expected


def test_unlinked_open_files(shared: MountedDrive) -> None:
    top = shared.top
    (top / "f").write_bytes(b"old")
    with (top / "f").open("r+b", buffering=0) as file:
        (top / "f").unlink()
        assert os.fstat(file.fileno()).st_nlink == 0
        file.seek(0, os.SEEK_END)
        file.write(b" and new")
        os.fsync(file.fileno())
        file.seek(0)
        assert file.read() == b"old and new"
        file.truncate(3)
        assert os.fstat(file.fileno()).st_size == 3
        (top / "f").write_bytes(b"another")
        file.seek(0)
        assert file.read() == b"old"
    (top / "g").write_bytes(b"g")
    with (top / "g").open("r+b", buffering=0) as file, (top / "f").open("rb") as mine:
        (top / "f").rename(top / "g")
        assert file.read() == b"g"
        file.write(b"!")
        assert mine.read() == b"another"
    assert (top / "g").read_bytes() == b"another"
    assert not (top / "f").exists()
    with (top / "g").open("rb") as again, mmap.mmap(again.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        (top / "g").unlink()
        assert mapped[:] == b"another"


def test_holes_copies_and_what_is_refused(shared: MountedDrive) -> None:
    sparse = shared.top / "sparse"
    with sparse.open("w+b", buffering=0) as file:
        fd = file.fileno()
        os.pwrite(fd, b"end", 5_000_000)
        assert os.lseek(fd, 0, os.SEEK_DATA) in (0, 5_000_000)
        assert os.lseek(fd, 5_000_001, os.SEEK_HOLE) == 5_000_003
        assert number_of(os.lseek, fd, 5_000_003, os.SEEK_DATA) == errno.ENXIO
        assert os.pread(fd, 10, 4_999_995) == b"\0" * 5 + b"end"
        with (shared.top / "copy").open("w+b", buffering=0) as copy:
            done = 0
            while count := os.copy_file_range(fd, copy.fileno(), 5_000_003 - done, done, done):
                done += count
        os.posix_fallocate(fd, 0, 6_000_000)
        assert os.fstat(fd).st_size == 6_000_000
    assert (shared.top / "copy").read_bytes() == sparse.read_bytes()[:5_000_003]
    assert number_of(os.open, shared.top, os.O_TMPFILE | os.O_RDWR) == errno.EOPNOTSUPP
    assert number_of(os.link, sparse, shared.top / "hard") == errno.EPERM
    assert number_of(os.mkfifo, shared.top / "pipe") == errno.EPERM
    assert number_of(os.mknod, shared.top / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)) == errno.EPERM
    assert number_of(os.mknod, shared.top / "plain", stat.S_IFREG | 0o600) == 0
    assert number_of(os.chown, sparse, os.getuid(), os.getgid()) == 0
    assert number_of(os.chown, sparse, 12345, -1) == errno.EPERM
    assert number_of(os.setxattr, sparse, "user.cms.id", b"1") == errno.ENOTSUP
    assert number_of(os.setxattr, sparse, "trusted.x", b"1") == errno.ENOTSUP
    assert number_of(os.setxattr, sparse, "user.x", b"1", os.XATTR_REPLACE) == errno.ENODATA
    assert number_of(os.setxattr, sparse, "user.x", b"1", os.XATTR_CREATE) == 0
    assert number_of(os.setxattr, sparse, "user.x", b"2", os.XATTR_CREATE) == errno.EEXIST
    folder = os.open(shared.top, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def test_local_only_items_are_kept(drive: MountedDrive) -> None:
    top = drive.top
    (top / "project").mkdir()
    drive.sh(
        """
        cd project; printf '#!/bin/sh\\necho ran\\n' > tool; chmod 755 tool
        ln -s tool link; ln -s /nowhere dead
        setfattr -n user.colour -v red tool; echo mine > .~lock.a.odt#; mkdir x.tmp; echo y > x.tmp/y
        touch -d '2020-02-02 02:02:02.123456789 UTC' tool; ln -s /etc/hostname x.tmp/inside
        """
    )
    drive.sync()
    drive.stop()
    drive.start()
    (top / "project").rename(top / "renamed")
    (top / "renamed/tool").rename(top / "renamed/tool2")
    (top / "renamed/link").rename(top / "renamed/link2")
    drive.sh("ln -sfn tool2 renamed/link2")
    drive.sync()
    drive.kill()
    drive.start()
    project = top / "renamed"
    assert drive.sh("./renamed/link2") == "ran\n"
    assert os.getxattr(project / "tool2", "user.colour") == b"red"
    assert "user.colour" in os.listxattr(project / "tool2")
    assert (project / "tool2").stat().st_mtime_ns == 1580608922_123456789
    assert str((project / "dead").readlink()) == "/nowhere"
    assert (project / ".~lock.a.odt#").read_text() == "mine\n"
    assert (project / "x.tmp/y").read_text() == "y\n"
    assert names_in(project) == [".~lock.a.odt#", "dead", "link2", "tool2", "x.tmp"]
    with drive.tables() as conn:
        rows = conn.execute(
            "SELECT i.name, i.content_modified_at FROM item i JOIN item f ON f.id = i.parent"
            " WHERE f.name = 'renamed'"
        ).fetchall()
    assert [row[0] for row in rows] == ["tool2"]
    assert rows[0][1] // 10 ** (len(str(rows[0][1])) - 10) == 1580608922
    local = drive.status()["local"]
    assert local["items"] == 6
    assert "6 items local only" in drive.cmsfs("status").stdout
    # What leaves its local name is sent.
    (project / "x.tmp").rename(project / "x")
    drive.sync()
    drive.sh("rm renamed/dead renamed/link2 renamed/.~lock*")
    assert drive.status()["local"]["items"] == 1


def test_environments_repositories_and_links_work(drive: MountedDrive) -> None:
    drive.sh(
        f"""
        {sys.executable} -m venv --without-pip env
        env/bin/python -c 'import sys; print(sys.prefix)' | grep drive/env
        mkdir -p node_modules/tool/bin node_modules/.bin; echo 'echo tool' > node_modules/tool/bin/tool.sh
        chmod +x node_modules/tool/bin/tool.sh; ln -s ../tool/bin/tool.sh node_modules/.bin/tool
        test "$(node_modules/.bin/tool)" = tool
        mkdir repo; cd repo; git init -q .; ln -s target link; echo t > target; git add .
        git -c user.name=n -c user.email=e@example.com commit -qm one
        test -z "$(git status --porcelain)"; git config core.filemode | grep true
        if git config core.symlinks; then exit 1; fi
        """
    )
    drive.sync()
    drive.stop()
    drive.start()
    assert drive.sh("cd repo; git status --porcelain; cat link; ../node_modules/.bin/tool") == "t\ntool\n"
    drive.sh("env/bin/python -c 'print(1)'; rm -r env node_modules repo")
    drive.sync()
    assert drive.status()["local"]["items"] == 0


def test_names_follow_service_and_linux_rules(drive: MountedDrive, tmp_path: Path) -> None:
    top = drive.top
    composed, parts = "Pläne", unicodedata.normalize("NFD", "Pläne")
    (top / parts).write_text("parts")
    assert parts in names_in(top)
    assert number_of((top / composed).open, "x") == errno.EEXIST
    (top / parts).rename(top / composed)
    assert composed in names_in(top)
    assert parts not in names_in(top)
    (top / "makefile").write_text("all:\n")
    drive.sync()
    item = os.getxattr(top / "makefile", "user.cms.id")
    (top / "makefile").rename(top / "Makefile")
    assert number_of((top / "makefile").mkdir) == errno.EEXIST
    drive.sync()
    assert os.getxattr(top / "Makefile", "user.cms.id") == item
    assert number_of((top / ("x" * 256)).touch) == errno.ENAMETOOLONG
    assert number_of(os.stat, top / ("x" * 256)) == errno.ENAMETOOLONG
    assert number_of((top / "ends with a space ").touch) == errno.EINVAL
    assert number_of((top / "Makefile").rename, top / "a\\b") == errno.EINVAL
    assert number_of(os.mkdir, bytes(top) + b"/\xff") == errno.EILSEQ
    assert "choose a" in (drive.home / "state/cmsfs/default/cmsfsd.log").read_text()

    # A name that no folder here can hold, changed here and moved here, keeps its name at the service.
    long = "界" * 200 + ".txt"
    (tmp_path / "f").write_text("from far")
    drive.cmsfs("put", tmp_path / "f", f"/{long}")
    deadline = time.monotonic() + 30
    while not (found := [n for n in names_in(top) if n.startswith("界")]) and time.monotonic() < deadline:
        time.sleep(0.1)
    short = top / found[0]
    assert short.suffix == ".txt"
    assert short.read_text() == "from far"
    item = os.getxattr(short, "user.cms.id")
    (top / "folder").mkdir()
    (top / "new").write_text("from here")
    (top / "new").rename(short)
    short.rename(top / "folder" / short.name)
    drive.sync()
    drive.cmsfs("get", f"/folder/{long}", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "from here"
    assert os.getxattr(top / "folder" / short.name, "user.cms.id") == item
    shutil.rmtree(top / "folder")

    # A file and a folder change places, and each stays what it is at the service.
    (top / "left").write_text("file")
    (top / "right").mkdir()
    (top / "right/inside").write_text("inside")
    drive.sync()
    ids = {name: os.getxattr(top / name, "user.cms.id") for name in ("left", "right")}
    with pytest.raises(FileExistsError):
        recorded_saves.renameat2(top / "left", top / "right", recorded_saves.NOREPLACE)
    recorded_saves.renameat2(top / "left", top / "right", recorded_saves.EXCHANGE)
    drive.sync()
    assert (top / "right").read_text() == "file"
    assert (top / "left/inside").read_text() == "inside"
    assert os.getxattr(top / "right", "user.cms.id") == ids["left"]
    assert os.getxattr(top / "left", "user.cms.id") == ids["right"]
    drive.cmsfs("get", "/right", tmp_path / "right")
    assert (tmp_path / "right").read_text() == "file"


@pytest.mark.parametrize("lock", [fcntl.flock, fcntl.lockf])
def test_a_lock_ends_with_its_process(shared: MountedDrive, lock: Any) -> None:
    path = shared.top / "f"
    path.write_text("x")
    kind = lock.__name__
    script = f"import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.{kind}(f, fcntl.LOCK_EX)"
    script += "; print('has it', flush=True); input()"
    with (
        subprocess.Popen(
            [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        path.open("r+") as file,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "has it\n"
        assert number_of(lock, file, fcntl.LOCK_EX | fcntl.LOCK_NB) in (errno.EAGAIN, errno.EACCES)
        child.kill()
        child.wait()
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
