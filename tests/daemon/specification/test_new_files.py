"""New files are uploaded; what cannot be sent any more is refused when it is written."""

import errno
import os

from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting, fails
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.specified_service import SpecifiedService


async def test_a_new_file_arrives(drive: Drive, other: Remote) -> None:
    await drive.write("a", b"one")
    await drive.sync()
    assert await other.read("a") == b"one"
    assert drive.ops() == []


async def test_a_file_without_bytes_arrives(drive: Drive, other: Remote) -> None:
    await drive.write("empty", b"")
    await drive.sync()
    assert await other.read("empty") == b""


async def test_its_time_arrives(drive: Drive, other: Remote) -> None:
    parent, name = await drive.place("a")
    opened, made = await drive.fs.create(parent, name, 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"one")
    await drive.fs.setattr(made.ino, SetAttr(mtime_ns=10**18), opened.fh)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    found = await other.find_file("a")
    assert found.content_modified_at is not None
    assert found.content_modified_at.timestamp() == 10**9
    assert drive.ops() == []


async def test_until_it_goes_it_can_be_anything(
    starting: Starting, other: Remote, specified: SpecifiedService
) -> None:
    async with starting(settle_seconds=1000) as drive:
        await drive.write("a.tmp", b"one")
        await drive.rename("a.tmp", "a")
        await drive.write("a", b"two")
        await drive.write("gone", b"")
        await drive.unlink("gone")
        await drive.sync()
        assert await other.paths() == ["a"]
        assert await other.read("a") == b"two"
        assert drive.ops() == []


async def test_it_is_not_sent_while_it_is_open(drive: Drive, other: Remote) -> None:
    parent, name = await drive.place("log")
    opened, _ = await drive.fs.create(parent, name, 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"one")
    await drive.fs.flush(opened.fh)
    await drive.agents.push.drained()
    assert await other.paths() == []
    await drive.fs.write(opened.fh, 3, b" two")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.read("log") == b"one two"


async def test_an_append_to_what_arrived_is_refused(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("this service cannot change the contents")
    ino = await drive.write("log", b"one")
    await drive.sync()
    with fails(errno.EROFS):
        await drive.fs.open(ino, os.O_WRONLY | os.O_APPEND)
    assert drive.ops() == []


async def test_what_is_being_sent_is_not_changed(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("this service cannot rename")
    expect_log("this service cannot delete")
    arrived, go = network.gate("POST", "/files/content", before=True)
    await drive.write("a", b"one")
    await arrived.wait()
    with fails(errno.EPERM):
        await drive.rename("a", "b")
    with fails(errno.EPERM):
        await drive.unlink("a")
    go.set()
    await drive.sync()
    assert (drive.ops(), await other.paths()) == ([], ["a"])


async def test_an_upload_whose_answer_was_lost_is_found(
    drive: Drive, other: Remote, network: Network
) -> None:
    network.lose_answer("POST", "/files/content")
    await drive.write("a", b"one")
    await drive.sync()
    assert (drive.ops(), await other.paths(), await drive.names()) == ([], ["a"], ["a"])


async def test_a_name_that_is_taken_is_kept_beside(drive: Drive, other: Remote) -> None:
    assert await drive.names() == []
    await other.file("a", b"theirs")
    await drive.write("a", b"ours")
    await drive.sync()
    copy = next(name for name in await other.paths() if name != "a")
    assert (await other.read("a"), await other.read(copy)) == (b"theirs", b"ours")
    assert drive.ops() == []


async def test_a_web_link_is_a_file(drive: Drive, other: Remote) -> None:
    text = b"[InternetShortcut]\r\nURL=https://example.com/\r\n"
    await drive.write("page.url", text)
    await drive.sync()
    assert await other.read("page.url") == text
    assert drive.ops() == []


async def test_what_stays_here_works_as_ever(drive: Drive, specified: SpecifiedService) -> None:
    before = len(specified.refused)
    await drive.fs.symlink(1, "link", b"a")
    await drive.rename("link", "other")
    await drive.unlink("other")
    await drive.write(".~lock.a#", b"me")
    await drive.unlink(".~lock.a#")
    await drive.sync()
    assert drive.ops() == []
    assert len(specified.refused) == before


async def test_attributes_are_refused(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("this service cannot rename, move or describe")
    expect_log("this service cannot set metadata")
    await other.file("old", b"x")
    await drive.names()
    for path in ("old", "new"):
        ino = await drive.ino(path) if path == "old" else await drive.write(path, b"y")
        with fails(errno.ENOTSUP):
            await drive.fs.setxattr(ino, "user.cms.description", b"words")
        with fails(errno.ENOTSUP):
            await drive.fs.setxattr(ino, "user.cms.metadata.global.properties.a", b"1")
    with fails(errno.EROFS):
        await drive.fs.setattr(await drive.ino("old"), SetAttr(mtime_ns=10**18))
    await drive.sync()
    assert drive.ops() == []
