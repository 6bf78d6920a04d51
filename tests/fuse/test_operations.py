"""Every handler, through the kernel."""

import ctypes
import errno
import os
import stat
import struct
import sys
from pathlib import Path

import pytest
import trio

from cmsfs.fuse import mount, operations
from cmsfs.vfs.heuristics import copy_detector

libc = ctypes.CDLL(None, use_errno=True)


def _rename(old: Path, new: Path, *, flags: int) -> None:
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), "renameat2")


async def test_file_attributes_and_owner(fs, top, outside):
    fs.put("a.txt", b"x" * 1000)
    seen = await outside(os.stat, top / "a.txt")
    assert (seen.st_ino, seen.st_size, seen.st_blocks) == (fs.ino("a.txt"), 1000, 2)
    assert stat.filemode(seen.st_mode) == "-rw-r--r--"
    assert seen.st_mtime_ns == 1_600_000_000_123_456_789
    assert (seen.st_uid, seen.st_gid) == (os.getuid(), os.getgid())
    assert seen.st_blksize == 128 * 1024


async def test_programs_see_the_number_and_the_kernel_asks_by_the_row(fs, top, outside):
    """In every answer that carries attributes; it may not differ from one to the other."""
    number = 1 << 56 | 7
    ino = fs.put("a.txt", b"abc").ino
    fs.numbers[ino] = number
    fs.timeout = 0.0

    def work():
        (entry,) = os.scandir(top)
        seen = [entry.inode(), (top / "a.txt").stat().st_ino]
        with (top / "a.txt").open("r+b") as file:
            seen += [os.fstat(file.fileno()).st_ino]
            assert file.read() == b"abc"
            os.fchmod(file.fileno(), 0o600)
            seen += [os.fstat(file.fileno()).st_ino, (top / "a.txt").stat().st_ino]
        (top / "a.txt").rename(top / "b.txt")
        return [*seen, (top / "b.txt").stat().st_ino]

    assert await outside(work) == [number] * 6
    assert fs.ino("b.txt") == ino


async def test_the_kernel_remembers_what_it_was_told(fs, top, outside):
    fs.put("a.txt")
    for _ in range(3):
        await outside(os.stat, top / "a.txt")
    assert fs.calls["lookup"] == 1


async def test_an_absent_name_is_asked_for_once(fs, top, outcome):
    for _ in range(20):
        assert await outcome(os.stat, top / ".hidden") == errno.ENOENT
    # A test beside this one may have the kernel drop its caches meanwhile.
    assert fs.calls["lookup"] <= 3


async def test_short_attr_timeout_expires(fs, top, outside):
    fs.put("a.txt")
    fs.timeout = 0.0
    await outside(os.stat, top / "a.txt")
    await outside(os.stat, top / "a.txt")
    assert fs.calls["lookup"] >= 2


async def test_a_new_file_is_written_read_and_closed(fs, top, outside):
    def work():
        with (top / "n.bin").open("xb") as file:
            file.write(b"q" * 300_000)
            file.flush()
            os.fsync(file.fileno())
        return (top / "n.bin").read_bytes()

    assert await outside(work) == b"q" * 300_000
    assert fs.things[fs.ino("n.bin")].data == b"q" * 300_000
    assert stat.S_IMODE(fs.things[fs.ino("n.bin")].mode) == 0o644
    for op in ("create", "write", "fsync", "flush", "read", "open"):
        assert fs.calls[op] >= 1, op


async def test_closing_the_last_handle_releases_it(fs, drive, mounting, outside):
    fs.put("a.txt", b"abc")
    await outside((drive.mountpoint / "a.txt").read_bytes)
    # The kernel sends the release after close has returned.
    await fs.entered["release"].wait()
    assert not fs.handles


async def test_opening_with_truncation_reaches_open_as_a_flag(fs, top, outside):
    fs.put("a.txt", b"old bytes")
    await outside((top / "a.txt").write_bytes, b"new")
    assert fs.things[fs.ino("a.txt")].data == b"new"
    assert fs.calls["setattr"] == 0


@pytest.mark.parametrize(
    ("call", "field", "value"),
    [
        (lambda p: os.truncate(p, 7), "size", 7),
        (lambda p: p.chmod(0o600), "mode", 0o600),
        (lambda p: os.chown(p, os.getuid(), -1), "uid", None),  # whose it is already
        (lambda p: os.chown(p, -1, os.getgid()), "gid", None),
        (lambda p: os.utime(p, ns=(1, 10**18 + 1)), "mtime_ns", 10**18 + 1),
        (lambda p: os.utime(p, ns=(10**18 + 1, 1)), "atime_ns", 10**18 + 1),
    ],
)
async def test_setattr_carries_each_field(fs, top, outside, call, field, value):
    fs.put("a.txt", b"0123456789")
    await outside(call, top / "a.txt")
    op, wanted, with_handle = fs.trace[-1]
    assert (op, getattr(wanted, field), with_handle) == ("setattr", value, False)


async def test_setattr_on_an_open_file_carries_its_handle(fs, top, outside):
    fs.put("a.txt", b"0123456789")

    def work():
        with (top / "a.txt").open("r+b") as file:
            file.truncate(3)

    await outside(work)
    op, wanted, with_handle = fs.trace[-1]
    assert (op, wanted.size, with_handle) == ("setattr", 3, True)
    assert wanted.mode is None


async def test_folders_are_made_listed_synced_and_removed(fs, top, outside, outcome):
    await outside((top / "d").mkdir, mode=0o700)
    assert stat.S_IMODE(fs.things[fs.ino("d")].mode) == 0o700
    await outside((top / "d" / "f").write_text, "x")
    assert await outside(os.listdir, top / "d") == ["f"]
    assert await outcome(os.rmdir, top / "d") == errno.ENOTEMPTY

    def sync():
        fd = os.open(top / "d", os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(fd)
        os.close(fd)

    await outside(sync)
    assert fs.calls["fsyncdir"] == 1
    await outside((top / "d" / "f").unlink)
    await outside((top / "d").rmdir)
    assert await outside(os.listdir, top) == []
    assert await outcome(os.unlink, top / "d") == errno.ENOENT


async def test_renames_carry_the_flags_that_the_kernel_sends(fs, top, outside, outcome):
    fs.put("a", b"a")
    fs.put("b", b"b")
    assert await outcome(_rename, top / "a", top / "b", flags=1) == errno.EEXIST
    await outside(_rename, top / "a", top / "b", flags=2)
    assert fs.things[fs.ino("a")].data == b"b"
    await outside(os.replace, top / "a", top / "b")
    # An EEXIST that the kernel can see for itself never comes to us.
    assert [entry[3] for entry in fs.trace] == [2, 0]
    await outside(_rename, top / "b", top / "c", flags=1)
    assert fs.trace[-1] == ("rename", "b", "c", 1)
    # RENAME_WHITEOUT is sent on, for root: the file system must refuse what it does not know.
    assert await outcome(_rename, top / "c", top / "d", flags=4) == errno.EINVAL
    assert fs.trace[-1] == ("rename", "c", "d", 4)


async def test_hard_links_and_devices_are_refused(fs, top, outcome):
    fs.put("a")
    assert await outcome(os.symlink, "a", top / "s") == errno.EPERM
    assert await outcome(os.link, top / "a", top / "l") == errno.EPERM
    assert await outcome(os.mkfifo, top / "p") == errno.EPERM


async def test_symlink_shows_target(fs, top, outside, outcome):
    fs.put("s", "Projekt/Pläne".encode(), mode=stat.S_IFLNK | 0o777)
    fs.put("a")
    assert await outside(os.readlink, top / "s") == "Projekt/Pläne"
    assert await outcome(os.readlink, top / "a") == errno.EINVAL


async def test_df_shows_the_room(top, outside):
    room = await outside(os.statvfs, top)
    assert (room.f_frsize, room.f_blocks, room.f_bavail, room.f_files) == (4096, 1000, 600, 200)
    assert (room.f_ffree, room.f_namemax) == (150, 255)


async def test_user_attributes_are_set_read_listed_and_removed(fs, top, outside, outcome):
    fs.put("a")
    await outside(os.setxattr, top / "a", "user.tag", b"x\0y")
    assert await outside(os.getxattr, top / "a", "user.tag") == b"x\0y"
    assert await outside(os.listxattr, top / "a") == ["user.tag"]
    assert await outcome(os.setxattr, top / "a", "user.tag", b"", os.XATTR_CREATE) == errno.EEXIST
    assert await outcome(os.setxattr, top / "a", "user.new", b"", os.XATTR_REPLACE) == errno.ENODATA
    await outside(os.removexattr, top / "a", "user.tag")
    assert await outside(os.listxattr, top / "a") == []
    assert await outcome(os.removexattr, top / "a", "user.tag") == errno.ENODATA


# An access list as the kernel takes it: version 2, then tag, permissions and id of user, group and others.
ACL = struct.pack("<I" + "HHI" * 3, 2, 1, 6, 2**32 - 1, 4, 4, 2**32 - 1, 32, 4, 2**32 - 1)


async def test_other_namespaces_never_reach_the_file_system(fs, top, outcome):
    fs.put("a")
    for name in ("security.capability", "trusted.x", "system.posix_acl_access"):
        assert await outcome(os.getxattr, top / "a", name) == errno.ENOTSUP, name
        assert await outcome(os.removexattr, top / "a", name) == errno.ENODATA, name
    for name in ("security.x", "trusted.x", "system.posix_acl_access"):
        assert await outcome(os.setxattr, top / "a", name, ACL) == errno.ENOTSUP, name
    assert fs.calls["getxattr"] == fs.calls["setxattr"] == fs.calls["removexattr"] == 0


async def test_write_asks_for_no_capabilities(fs, top, outside):
    await outside((top / "a").write_bytes, b"x")
    assert fs.calls["getxattr"] == 0


async def test_names_of_any_script_come_and_go_unharmed(fs, top, outside):
    for name in ("Übersicht.txt", "資料", "a\nb", " ", "x" * 255):
        await outside((top / name).write_text, "x")
        assert fs.ino(name)
    assert set(await outside(os.listdir, top)) == {"Übersicht.txt", "資料", "a\nb", " ", "x" * 255}


async def test_non_utf8_name_is_refused(fs, top, outcome):
    fs.put("a")
    bad = os.fsencode(top) + b"/caf\xe9"
    assert await outcome(os.stat, bad) == errno.ENOENT
    assert await outcome(os.open, bad, os.O_CREAT | os.O_WRONLY) == errno.EILSEQ
    assert await outcome(os.mkdir, bad) == errno.EILSEQ
    assert await outcome(os.rename, os.fsencode(top) + b"/a", bad) == errno.EILSEQ
    assert await outcome(os.rename, bad, os.fsencode(top) + b"/b") == errno.ENOENT
    assert await outcome(os.unlink, bad) == errno.ENOENT


async def test_permission_bits_are_the_kernels_business(fs, top, outside):
    fs.put("a")
    assert await outside(os.access, top / "a", os.R_OK | os.W_OK)
    assert not await outside(os.access, top / "a", os.X_OK)
    assert fs.calls["access"] == 0


MAP = """
import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 10) as mapped:
    mapped[0:3] = b"abc"
"""


async def test_a_file_can_be_mapped_shared(fs, top):
    fs.put("a", b"0123456789")
    # Another process: a page fault is taken with the interpreter's lock held, and the loop could not answer.
    await trio.run_process([sys.executable, "-I", "-S", "-c", MAP, str(top / "a")])
    assert fs.things[fs.ino("a")].data == b"abc3456789"


async def test_writing_with_another_file_open_is_a_copy(fs, tmp_path, outside, watchdog):
    noted = copy_detector.CopyDetector()
    handlers = operations.Operations(fs, copying=noted)
    async with mount.mounted(handlers, tmp_path / "drive", create=True, linger=0.2, deadline=5.0) as drive:
        watchdog.watch(drive.connection)
        fs.put("source.bin", b"q" * 300_000)
        fs.put("other.bin", b"q" * 300_000)
        reading = await outside(open, drive.mountpoint / "other.bin", "rb")
        try:
            for command in ("cp source.bin copy.bin", "cat source.bin > piped.bin"):
                await trio.run_process(["sh", "-c", command], cwd=drive.mountpoint)
        finally:
            await outside(reading.close)
        assert noted.sources(fs.ino("copy.bin")) == {fs.ino("source.bin")}
        # Another process reads than writes: it may have changed what it read.
        assert noted.sources(fs.ino("piped.bin")) == set()
    watchdog.ended(drive.connection)
