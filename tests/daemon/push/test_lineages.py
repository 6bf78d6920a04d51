"""What is written here to a file that others change or delete while it is open, on both sides."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import OpenResult
from cmsfs.vfs.tree.renaming import EXCHANGE
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

OLD = b"old line\n"


async def append(drive: Drive, opened: OpenResult, ino: int, data: bytes) -> None:
    await drive.fs.write(opened.fh, drive.fs.getattr(ino).size, data)


async def close(drive: Drive, *opened: OpenResult) -> None:
    for one in opened:
        await drive.fs.flush(one.fh)
        await drive.fs.release(one.fh)


async def copies(other: Remote) -> list[str]:
    return [path for path in await other.paths() if CONFLICT_MARK in path]


@pytest.mark.parametrize("saved", ["in place", "by rename"])
async def test_local_creation_never_overwrites_newer_version(drive: Drive, other: Remote, saved: str) -> None:
    """A reader keeps the file open since it was made; a writer opens it before a colleague saves."""
    if saved == "by rename":
        await drive.write("note", b"before")
        await drive.sync()
        await drive.write("note.new", OLD)
        await drive.rename("note.new", "note")
    else:
        await drive.write("note", OLD)
    ino = await drive.ino("note")
    reader = await drive.fs.open(ino, os.O_RDONLY)
    await drive.sync()
    writer = await drive.fs.open(ino, os.O_WRONLY)
    theirs = (await other.find("note")).id
    await other.write(theirs, b"the second version, of a colleague\n")
    versions = await other.versions(theirs)
    await drive.poll()
    assert await drive.read("note") == b"the second version, of a colleague\n"
    await append(drive, writer, ino, b"mine\n")
    await close(drive, writer, reader)
    await drive.sync()
    assert await other.read("note") == b"the second version, of a colleague\n"
    assert await other.versions(theirs) == versions
    (copy,) = await copies(other)
    assert await other.read(copy) == OLD + b"mine\n"


async def test_writer_waiting_for_base_keeps_both(starting: Starting, other: Remote) -> None:
    async with starting() as drive:
        opened, made = await drive.fs.create(1, "log", 0o644, os.O_RDWR)
        await drive.fs.write(opened.fh, 0, b"one\n")
        await drive.fs.fsync(opened.fh)
        await drive.agents.push.confirm(made.ino, seconds=10)
        theirs = (await other.find("log")).id
        await other.write(theirs, b"a colleague's\n")
        await drive.poll()
        await append(drive, opened, made.ino, b"two\n")
        await drive.fs.fsync(opened.fh)
        await drive.agents.push.confirm(made.ino, seconds=10)
        assert await other.read("log") == b"a colleague's\n"
        assert await other.read(*await copies(other)) == b"one\ntwo\n"
        await close(drive, opened)


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("then", ["pwrite", "append", "truncate"])
async def test_write_to_remotely_deleted_file_is_kept(
    drive: Drive, other: Remote, what: str, then: str
) -> None:
    await drive.mkdir("d")
    await drive.write("d/f", OLD)
    await drive.sync()
    ino = await drive.ino("d/f")
    opened = await drive.fs.open(ino, os.O_RDWR)
    if what == "file":
        await other.client.items.delete("file", (await other.find("f")).id)
    else:
        await other.client.items.delete("folder", (await other.find("d")).id, recursive=True)
    await drive.poll()
    assert "f" not in (await drive.names("d") if what == "file" else await drive.names())
    if then == "pwrite":
        await drive.fs.write(opened.fh, 0, b"NEW")
    elif then == "append":
        await append(drive, opened, ino, b"more\n")
    else:
        await drive.agents.fs._files.truncate(ino, 3, opened.fh)
    await drive.fs.fsync(opened.fh)
    await close(drive, opened)
    await drive.sync()
    expected = {"pwrite": b"NEW line\n", "append": b"old line\nmore\n", "truncate": b"old"}[then]
    assert await other.paths() == ["d/", "d/f"]
    assert await other.read("f") == await drive.read("d/f") == expected


async def test_nothing_is_kept_of_a_file_that_was_restored_and_replaced_here(
    drive: Drive, other: Remote
) -> None:
    """What is written to it then ends with its handle: the program that restored it knew what it replaced."""
    await other.file("note", OLD)
    ino = await drive.ino("note")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.unlink("note")
    await drive.sync()
    trash = (await drive.agents.shown.lookup(ROOT, ".trash")).ino
    await drive.agents.shown.rename(trash, "note", ROOT, "note", 0)
    assert await drive.ino("note") == ino
    await drive.write("note.new", b"new")
    await drive.rename("note.new", "note")
    await append(drive, opened, ino, b"mine\n")
    await close(drive, opened)
    await drive.sync()
    assert await drive.names() == ["note"]
    assert await other.paths() == ["note"]
    assert await other.read("note") == b"new"


async def test_unknown_version_is_not_overwritten(drive: Drive, other: Remote) -> None:
    ino = await drive.write("f", OLD)
    await drive.sync()
    await drive.db.write(lambda conn: conn.execute("UPDATE node SET etag = NULL WHERE ino = ?", (ino,)))
    await other.write((await other.find("f")).id, b"theirs")
    await drive.write("f", b"ours")
    await drive.sync()
    assert await other.read("f") == b"theirs"
    assert await other.read(*await copies(other)) == b"ours"


async def test_it_survives_the_death_of_the_drive(starting: Starting, other: Remote) -> None:
    async with starting() as drive:
        ino = await drive.write("f", OLD)
        await drive.sync()
        opened = await drive.fs.open(ino, os.O_RDWR)
        await other.write((await other.find("f")).id, b"theirs")
        await drive.poll()
        await append(drive, opened, ino, b"mine\n")
        await drive.fs.fsync(opened.fh)
    async with starting() as drive:
        await drive.sync()
        assert await other.read("f") == b"theirs"
        assert await other.read(*await copies(other)) == OLD + b"mine\n"
        assert [copy.original for copy in (await drive.agents.conflicts()).copies] == ["/f"]


async def test_two_appending_writers_end_in_two_files(drive: Drive, other: Remote) -> None:
    ino = await drive.write("log", b"")
    await drive.sync()
    opened = await drive.fs.open(ino, os.O_RDWR)
    theirs, mine = (await other.find("log")).id, b""
    for number in range(6):
        await other.write(theirs, b"theirs %d\n" % number)
        line = b"mine %d\n" % number
        mine += line
        await append(drive, opened, ino, line)
        await drive.fs.fsync(opened.fh)
        await drive.agents.push.confirm(ino, seconds=10)
        await drive.poll()
    await close(drive, opened)
    await drive.sync()
    (copy,) = await copies(other)
    assert await other.read(copy) == mine
    assert await other.read("log") == b"theirs 5\n"


async def test_item_data_stays_through_conflict(drive: Drive, other: Remote) -> None:
    ino = await drive.write("f", b"base")
    await drive.sync()
    await drive.fs.setxattr(ino, "user.mine", b"1")
    await drive.fs.setxattr(ino, "user.cms.pinned", b"1")
    await other.write((await other.find("f")).id, b"theirs")
    await drive.write("f", b"ours")
    await drive.sync()
    fresh = await drive.ino("f")
    assert fresh != ino
    assert await drive.fs.getxattr(fresh, "user.mine") == b"1"
    assert await drive.fs.getxattr(fresh, "user.cms.pinned") == b"1"
    assert await drive.fs.getxattr(ino, "user.cms.pinned") == b"0"


# ---- written over bytes that are nowhere any more --------------------------------------------------

BIG = bytes(range(256)) * 2048


@pytest.fixture
async def lost(drive: Drive, other: Remote, network: Network, expect_log: ExpectLog) -> Drive:
    """A drive with an append to a file that was never here, and was deleted before that was sent; only others
    may restore it."""
    expect_log("the service rejected a change")
    number = await other.file("big", BIG)
    await drive.poll()
    await drive.agents.hydrator.listing(1)
    network.instead = _no_content(network)
    ino = await drive.ino("big")
    opened = await drive.fs.open(ino, os.O_WRONLY)
    await drive.fs.write(opened.fh, len(BIG), b"appended\n")
    await other.client.items.delete("file", number)
    await drive.poll()
    await close(drive, opened)
    network.instead = _no_restore
    await drive.sync()
    return drive


def _no_restore(request: httpx.Request) -> httpx.Response | None:
    if request.method == "POST" and request.url.path.startswith("/2.0/files/"):
        return httpx.Response(403, json={"code": "access_denied_insufficient_permissions"})
    return None


def _no_content(network: Network) -> Any:
    def answer(request: httpx.Request) -> httpx.Response | None:
        if request.method == "GET" and "/content" in request.url.path:
            raise httpx.ReadError("too slow")
        return None

    return answer


async def test_change_without_base_is_held(lost: Drive) -> None:
    assert lost.ops() == [("upload", "held", "/big")]
    (held,) = (await lost.agents.conflicts()).held
    assert "cmsfs discard" in held.error
    await lost.sync()


async def test_what_was_written_of_it_can_be_had(lost: Drive, other: Remote) -> None:
    told = await lost.agents.discard("/big")
    kept = config.Paths("default").recovered / "big"
    assert str(kept) in told
    assert kept.read_bytes() == bytes(len(BIG)) + b"appended\n"
    assert f"0 to {len(BIG) - 1}" in Path(f"{kept}.missing").read_text(encoding="utf-8")
    assert lost.ops() == []
    assert await lost.names() == await other.paths() == []


@pytest.mark.parametrize("newer", [False, True])
async def test_held_change_is_sent_when_file_is_back(lost: Drive, other: Remote, newer: bool) -> None:
    number = next(row["id"] for row in other.store.read("SELECT id FROM item WHERE name = 'big'"))
    await other.client.items.restore("file", str(number))
    if newer:
        await other.write(str(number), b"a newer version")
    await lost.poll()
    await lost.sync()
    assert await other.read("big") == (b"a newer version" if newer else BIG)
    (copy,) = await copies(other)
    assert await other.read(copy) == BIG + b"appended\n"
    assert lost.ops() == []


async def test_version_that_arrives_after_its_folder_came_back_from_the_trash_stays(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The drive has the file as it was, and the change as a new one, until the answer to its upload comes."""
    docs = await other.folder("docs")
    file = await other.file("f", OLD, docs)
    await drive.read("docs/f")
    await drive.write("docs/f", b"new\n")
    held, go = network.gate("POST", "/content", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await held.wait()
        await other.client.items.delete("folder", docs, recursive=True)
        await drive.poll()
        await other.client.items.restore("folder", docs)
        await drive.poll()
        await drive.names("docs")
        go.set()
    await drive.sync()
    await drive.poll()
    assert await other.versions(file) == 2
    assert await other.read("f") == await drive.read("docs/f") == b"new\n"


@pytest.mark.parametrize("how", ["backup", "rename", "exchange", "exchange back"])
async def test_unsent_contents_are_kept_when_a_program_moves_a_name_that_it_takes_for_another_file_s(
    starting: Starting, other: Remote, how: str
) -> None:
    """The kernel has not heard yet that the file is called so; the program removes what it has moved."""
    number = await other.file("ours", b"one")
    async with starting(agents=("fs",)) as drive:
        ino = await drive.ino("ours")
        await drive.poll()
        await other.client.items.update("file", number, name="name")
        await drive.poll()
        opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
        await drive.fs.write(opened.fh, 0, b"unsent")
        await close(drive, opened)
        moved = "name~" if how == "backup" else "other"
        if how.startswith("exchange"):
            await drive.write(moved, b"another")
            places = ("name", moved) if how == "exchange" else (moved, "name")
            await drive.rename(*places, EXCHANGE)
            await drive.unlink("name")
        else:
            await drive.rename("name", moved)
        await drive.fs.unlink(ROOT, moved)
        (copy,) = await drive.names()
        assert CONFLICT_MARK in copy
        assert await drive.read(copy) == b"unsent"


async def test_unsent_contents_are_kept_when_a_program_removes_them_as_its_backup_of_another_file(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The kernel has not heard yet that the file is called so.  A backup is not uploaded."""
    number = await other.file("ours", b"one")
    assert await drive.names() == ["ours"]
    network.instead = lambda request: httpx.Response(503) if request.method == "POST" else None
    await drive.write("ours", b"unsent")
    with trio.fail_after(20):
        while drive.db.row("SELECT 1 FROM op WHERE attempts > 0") is None:
            await drive.agents.push._moved.wait()
    await other.client.items.update("file", number, name="name")
    await drive.poll()
    await drive.rename("name", "name~")
    await drive.write("name", b"saved")
    await drive.fs.unlink(ROOT, "name~")
    network.instead = None
    await drive.sync()
    (copy,) = [name for name in await drive.names() if name != "name"]
    assert CONFLICT_MARK in copy
    assert await drive.read(copy) == b"unsent"
    assert await drive.read("name") == b"saved"


async def test_a_backup_of_a_file_renamed_a_moment_ago_is_no_only_copy(drive: Drive, other: Remote) -> None:
    number = await other.file("theirs", b"one")
    assert await drive.names() == ["theirs"]
    await drive.poll()
    await other.client.items.update("file", number, name="name")
    await drive.poll()
    await drive.rename("name", "name~")
    await drive.write("name", b"two")
    await drive.fs.unlink(ROOT, "name~")
    await drive.sync()
    assert await other.paths() == await drive.names() == ["name"]
    assert await other.read("name") == b"two"
    assert (await other.find("name")).id == number


async def test_file_that_was_removed_here_with_its_folder_stays_removed_when_it_is_written_to(
    drive: Drive, other: Remote
) -> None:
    """The look after the deletion brings the events from before it, too."""
    await drive.poll()
    folder = await drive.fs.mkdir(ROOT, "docs", 0o755)
    await drive.write("docs/note", OLD)
    await drive.sync()
    ino = await drive.ino("docs/note")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.unlink(folder.ino, "note")
    await drive.fs.rmdir(ROOT, "docs")
    await drive.sync()
    assert await other.paths() == []
    await drive.poll()
    await append(drive, opened, ino, b"mine\n")
    assert await drive.fs.read(opened.fh, 0, 100) == OLD + b"mine\n"
    await close(drive, opened)
    await drive.sync()
    assert await drive.names() == []
    assert await other.paths() == []
