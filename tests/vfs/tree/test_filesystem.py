"""The drive without a kernel: what the operations mean and what they leave in the journal."""

import errno
import os
import stat
from collections.abc import Callable

import pytest
import trio

from cmsfs.cache.blocks import BLOCK
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive


async def test_new_file_is_one_upload(drive: Drive) -> None:
    ino = await drive.write_file("a.txt", b"hello")
    assert await drive.read_file("a.txt") == b"hello"
    assert drive.fs.getattr(ino).size == 5
    assert drive.ops() == [("upload", "/a.txt")]


async def test_created_file_is_empty(drive: Drive) -> None:
    ino = await drive.write_file("empty", b"")
    await drive.seal(ino)
    assert await drive.read_file("empty") == b""
    assert drive.fs.getattr(ino).size == 0


async def test_content_is_fetched_once(drive: Drive) -> None:
    data = os.urandom(2 * BLOCK + 17)
    await drive.remote_file(1, "big", data)
    assert await drive.read_file("big") == data
    assert await drive.read_file("big") == data
    assert len(drive.shelf.fetched) == 1


async def test_small_write_fetches_no_other_blocks(drive: Drive) -> None:
    data = os.urandom(4 * BLOCK)
    ino = await drive.remote_file(1, "big", data)
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.write(opened.fh, BLOCK + 5, b"0123456789")
    assert drive.shelf.fetched == []
    assert (
        await drive.fs.read(opened.fh, BLOCK, 30)
        == data[BLOCK : BLOCK + 5] + b"0123456789" + data[BLOCK + 15 : BLOCK + 30]
    )
    await drive.fs.release(opened.fh)
    expected = data[: BLOCK + 5] + b"0123456789" + data[BLOCK + 15 :]
    await drive.seal(ino)
    assert await drive.read_file("big") == expected


async def test_open_handle_reads_during_sealing(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert await drive.fs.read(opened.fh, 0, 10) == b"abc"
    await drive.seal(ino)
    assert await drive.fs.read(opened.fh, 1, 10) == b"bc"
    await drive.fs.release(opened.fh)


async def test_a_file_open_for_writing_is_not_sealed(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    opened = await drive.fs.open(ino, os.O_WRONLY)
    node = tree.find(drive.db, ino)
    assert await drive.sealer.seal(drive.drafts.find(node.draft)) is None
    await drive.fs.write(opened.fh, 3, b"def")
    await drive.fs.release(opened.fh)
    await drive.seal(ino)
    assert await drive.read_file("f") == b"abcdef"


async def test_write_after_sealing_starts_new_draft(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    await drive.seal(ino)
    opened = await drive.fs.open(ino, os.O_WRONLY)
    await drive.fs.write(opened.fh, 3, b"def")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    assert await drive.read_file("f") == b"abcdef"
    await drive.seal(ino)
    assert await drive.read_file("f") == b"abcdef"


async def test_a_cut_file_grows_with_zeros(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abcdefgh")
    await drive.fs.setattr(ino, SetAttr(size=3))
    await drive.fs.setattr(ino, SetAttr(size=6))
    assert drive.fs.getattr(ino).size == 6
    assert await drive.read_file("f") == b"abc\0\0\0"
    await drive.seal(ino)
    assert await drive.read_file("f") == b"abc\0\0\0"


async def test_truncating_open_downloads_nothing(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"x" * (3 * BLOCK))
    opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
    await drive.fs.write(opened.fh, 0, b"new")
    await drive.fs.release(opened.fh)
    await drive.seal(ino)
    assert await drive.read_file("f") == b"new"
    assert drive.shelf.fetched == []


async def test_unchanged_version_keeps_kernel_pages(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"old")
    for expected in (False, True):
        opened = await drive.fs.open(ino, os.O_RDONLY)
        assert (opened.keep_cache, opened.direct_io) == (expected, False)
        await drive.fs.release(opened.fh)
    await drive.remote_file(1, "f", b"new")
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert not opened.keep_cache
    await drive.fs.release(opened.fh)


async def test_written_pages_stay_cached_after_sealing(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    await drive.seal(ino)
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert opened.keep_cache
    await drive.fs.release(opened.fh)


async def test_unlinked_file_lives_until_closed(drive: Drive) -> None:
    opened, made = await drive.fs.create(ROOT, "f", 0o600, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"abc")
    await drive.fs.unlink(ROOT, "f")
    assert await drive.fs.read(opened.fh, 0, 10) == b"abc"
    await drive.fs.write(opened.fh, 3, b"d")
    assert drive.fs.getattr(made.ino).nlink == 0
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    drive.fs.forget([(made.ino, 1)])
    with trio.fail_after(10):
        while tree.find(drive.db, made.ino) is not None or list(drive.drafts.root.iterdir()):
            await drive.commit.commit()
    assert drive.ops() == []


async def test_unsent_file_is_removed_without_request(drive: Drive) -> None:
    await drive.write_file("f", b"abc")
    await drive.fs.mkdir(ROOT, "d", 0o755)
    await drive.fs.unlink(ROOT, "f")
    await drive.fs.rmdir(ROOT, "d")
    assert drive.ops() == []


async def test_save_by_rename_is_new_version(drive: Drive) -> None:
    ino = await drive.remote_file(7, "f", b"old")
    reader = await drive.fs.open(ino, os.O_RDONLY)
    new = await drive.write_file(".f.tmp", b"new")
    await drive.fs.rename(ROOT, ".f.tmp", ROOT, "f", 0)
    node = tree.find(drive.db, new)
    assert (node.name, node.remote_id) == ("f", "7")
    assert drive.ops() == [("upload", "/f")]
    assert await drive.read_file("f") == b"new"
    assert drive.names() == ["f"]
    assert await drive.fs.read(reader.fh, 0, 10) == b"old"
    await drive.fs.release(reader.fh)


async def test_rename_over_uploaded_file_trashes_it(drive: Drive) -> None:
    await drive.remote_file(1, "a", b"a")
    await drive.remote_file(2, "b", b"b")
    await drive.fs.rename(ROOT, "a", ROOT, "b", 0)
    assert await drive.read_file("b") == b"a"
    assert drive.ops() == [("trash", "(b)"), ("move", "/b")]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a" * 256, errno.ENAMETOOLONG),
        ("tab\t", errno.EINVAL),
        ("back\\slash", errno.EINVAL),
        ("end ", errno.EINVAL),
        (".Trash-1000", errno.EPERM),
        (".trash", errno.EPERM),
        ("TAKEN", errno.EEXIST),
        ("Taken", errno.EEXIST),
    ],
)
async def test_names_that_cannot_be_made(
    drive: Drive, name: str, number: int, expect_log: Callable[[str], None]
) -> None:
    await drive.write_file("Taken", b"")
    if number == errno.EINVAL:
        expect_log("rejects this name")
    if number == errno.ENAMETOOLONG:
        expect_log("256 bytes is too long")
    if name == "TAKEN":
        expect_log("case-insensitive")
    for make in (drive.fs.create(ROOT, name, 0o644, os.O_WRONLY), drive.fs.mkdir(ROOT, name, 0o755)):
        with pytest.raises(OSError) as caught:
            await make
        assert caught.value.errno == number
    assert drive.names() == ["Taken"]


async def test_only_the_case_of_a_name_can_change(drive: Drive) -> None:
    await drive.remote_file(1, "readme", b"")
    await drive.fs.rename(ROOT, "readme", ROOT, "README", 1)
    assert drive.names() == ["README"]
    assert drive.ops() == [("move", "/README")]


async def test_rename_to_a_name_that_another_file_has_in_other_case(
    drive: Drive, expect_log: Callable[[str], None]
) -> None:
    await drive.write_file("Taken", b"1")
    await drive.write_file("f", b"2")
    expect_log("case-insensitive")
    with pytest.raises(OSError) as caught:
        await drive.fs.rename(ROOT, "f", ROOT, "TAKEN", 0)
    assert caught.value.errno == errno.EEXIST
    assert drive.names() == ["Taken", "f"]


async def test_rename_refuses_what_rename_refuses(drive: Drive) -> None:
    fs = drive.fs
    await drive.write_file("f", b"")
    d = (await fs.mkdir(ROOT, "d", 0o755)).ino
    e = (await fs.mkdir(d, "e", 0o755)).ino
    await drive.write_file("g", b"", parent=e)
    for old, new_parent, new, flags, number in [
        ("x", ROOT, "y", 0, errno.ENOENT),
        ("f", ROOT, "d", 0, errno.EISDIR),
        ("d", ROOT, "f", 0, errno.ENOTDIR),
        ("d", e, "inside", 0, errno.EINVAL),
        ("f", ROOT, "d", 1, errno.EEXIST),
        ("f", ROOT, "nothing", 2, errno.ENOENT),
        ("f", ROOT, "f2", 4, errno.EINVAL),
    ]:
        with pytest.raises(OSError) as caught:
            await fs.rename(ROOT, old, new_parent, new, flags)
        assert (old, new, caught.value.errno) == (old, new, number)
    await fs.mkdir(ROOT, "h", 0o755)
    with pytest.raises(OSError, match="not empty"):
        await fs.rename(ROOT, "h", ROOT, "d", 0)


async def test_two_names_are_exchanged(drive: Drive) -> None:
    await drive.remote_file(1, "a", b"a")
    await drive.remote_file(2, "b", b"b")
    await drive.fs.rename(ROOT, "a", ROOT, "b", 2)
    assert await drive.read_file("a") == b"b"
    assert await drive.read_file("b") == b"a"
    assert sorted(drive.ops()) == [("move", "/a"), ("move", "/b")]


async def test_missing_name_needs_no_second_listing(drive: Drive) -> None:
    await drive.db.write(lambda conn: conn.execute("DELETE FROM listing"))
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            await drive.fs.lookup(ROOT, "nothing")
    assert drive.shelf.listed == [ROOT]


async def test_large_folder_is_read_while_changing(drive: Drive) -> None:
    for number in range(600):
        await drive.remote_file(number + 1, f"f{number}", b"")
    fh = await drive.fs.opendir(ROOT)
    seen: list[str] = []
    after = 0
    while entries := await drive.fs.readdir(fh, after):
        seen += [entry.name for entry in entries]
        after = entries[-1].cookie
        await drive.fs.unlink(ROOT, entries[0].name)
    drive.fs.releasedir(fh)
    assert sorted(seen) == sorted(f"f{number}" for number in range(600))


async def test_counts_return_to_zero(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    await drive.read_file("f")
    drive.fs.forget([(ino, 2)])
    assert drive.fs.inodes.totals() == (0, 0)


async def test_offline_sets_timeout_and_errno(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abc")
    assert drive.fs.getattr(ino).timeout == 300
    drive.shelf.is_online = False
    drive.shelf.bytes.clear()
    assert drive.fs.getattr(ino).timeout == 1
    with pytest.raises(OSError) as caught:
        await drive.read_file("f")
    assert caught.value.errno == errno.ENETDOWN


async def test_special_files_and_foreign_xattrs_are_refused(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abc")
    for refused in (
        drive.fs.link(ino, ROOT, "l"),
        drive.fs.mknod(ROOT, "n", stat.S_IFIFO | 0o644),
        drive.fs.mknod(ROOT, "n", stat.S_IFCHR | 0o644),
    ):
        with pytest.raises(PermissionError):
            await refused
    assert await drive.fs.getxattr(ino, "user.cms.id") == b"1"
    assert await drive.fs.getxattr(ino, "user.cms.sync") == b"synced"
    assert await drive.fs.listxattr(ino) == []
    for name, number in (("user.other", errno.ENODATA), ("user.cms.nothing", errno.ENODATA)):
        with pytest.raises(OSError) as caught:
            await drive.fs.getxattr(ino, name)
        assert caught.value.errno == number
    with pytest.raises(OSError) as caught:
        await drive.fs.setxattr(ino, "user.cms.id", b"2")
    assert caught.value.errno == errno.ENOTSUP
