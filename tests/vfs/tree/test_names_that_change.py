"""A name that a remote change gives to another file while a program makes a call with it."""

import errno
import os
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from cmsfs.replica import tree
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.vfs import permissions
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive


def copies(drive: Drive) -> list[str]:
    return [name for name in drive.names() if CONFLICT_MARK in name]


def fails_with(number: int) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, OSError) and error.errno == number


async def truncate(drive: Drive, ino: Ino, how: str, size: int = 0) -> None:
    """What the kernel asks for, once a name has led it to this inode."""
    if how == "open":
        opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
        await drive.fs.release(opened.fh)
    else:
        await drive.fs.setattr(ino, SetAttr(size=size))


async def truncate_by_name(drive: Drive, ino: Ino, name: str, how: str) -> None:
    """As the kernel does: it begins with what it remembers, and looks the name up anew at ESTALE, once."""
    try:
        await truncate(drive, ino, how)
    except OSError as error:
        assert error.errno == errno.ESTALE
        await truncate(drive, (await drive.fs.lookup(ROOT, name)).ino, how)


async def brought(drive: Drive, name: str, state: str) -> Ino:
    """A file with unsent bytes that a remote change has just given this name."""
    ino = await drive.remote_file(1, "before", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"ONE")
    if state != "open":
        await drive.fs.release(opened.fh)
    if state == "sealed":
        await drive.seal(ino)
    await drive.remote_file(1, name, b"one")
    return ino


@pytest.mark.parametrize("state", ["open", "closed", "sealed"])
@pytest.mark.parametrize("learned", ["lookup", "listing"])
@pytest.mark.parametrize("how", ["open", "path"])
async def test_truncation_keeps_bytes_new_to_the_name(
    drive: Drive, how: str, learned: str, state: str
) -> None:
    ino = await brought(drive, "g", state)
    if learned == "lookup":
        await drive.fs.lookup(ROOT, "g")
    else:
        fh = await drive.fs.opendir(ROOT)
        drive.fs.counted([entry.attributes.ino for entry in await drive.fs.readdir(fh, 0)])
        drive.fs.releasedir(fh)
    await truncate_by_name(drive, ino, "g", how)
    assert await drive.read_file("g") == b""
    (copy,) = copies(drive)
    assert await drive.read_file(copy) == b"ONE"
    assert set(drive.ops()) == {("move", f"/{copy}"), ("upload", f"/{copy}"), ("upload", "/g")}


@pytest.mark.parametrize("how", ["open", "path"])
async def test_truncating_deleted_file_keeps_its_successor(drive: Drive, how: str) -> None:
    """The kernel still knows the file that had the name."""
    old = await drive.remote_file(2, "g", b"two")
    await drive.fs.lookup(ROOT, "g")
    await drive.gone(old)
    await brought(drive, "g", "closed")
    await truncate_by_name(drive, old, "g", how)
    assert await drive.read_file("g") == b""
    assert await drive.read_file(*copies(drive)) == b"ONE"


@pytest.mark.parametrize("how", ["open", "path"])
async def test_truncation_by_the_opened_name(drive: Drive, how: str) -> None:
    ino = await brought(drive, "g", "closed")
    assert await drive.read_file("g") == b"ONE"
    await truncate(drive, ino, how)
    assert await drive.read_file("g") == b""
    assert copies(drive) == []


@pytest.mark.parametrize("how", ["open", "path"])
async def test_truncation_by_the_former_name(drive: Drive, how: str) -> None:
    """The kernel has not heard of the new one, and so this file is meant."""
    ino = await brought(drive, "g", "closed")
    await truncate(drive, ino, how)
    assert drive.names() == ["g"]
    assert await drive.read_file("g") == b""


async def test_truncation_to_a_beginning_is_refused_once(
    drive: Drive, expect_log: Callable[[str], None]
) -> None:
    expect_log("it was not truncated")
    ino = await brought(drive, "g", "closed")
    await drive.fs.lookup(ROOT, "g")
    await drive.fs.setattr(ino, SetAttr(size=5))
    with pytest.raises(OSError, check=fails_with(errno.EBUSY)):
        await drive.fs.setattr(ino, SetAttr(size=2))
    assert drive.fs.getattr(ino).size == 5
    await drive.fs.setattr(ino, SetAttr(size=2))
    assert await drive.read_file("g") == b"ON"
    assert copies(drive) == []


async def while_asked(
    drive: Drive,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[], Awaitable[object]],
    news: Callable[[], Awaitable[object]],
    *,
    fails: int = errno.ESTALE,
) -> None:
    """Make a call whose first question for rights is answered after the news."""
    asked, answer = trio.Event(), trio.Event()

    async def learn(node: Node) -> permissions.NodeRight:
        asked.set()
        await answer.wait()
        return permissions.ALL

    monkeypatch.setattr(drive.shelf, "learn", learn)
    async with trio.open_nursery() as nursery:

        async def carry_out() -> None:
            with pytest.raises(OSError, check=fails_with(fails)):
                await call()

        nursery.start_soon(carry_out)
        await asked.wait()
        await news()
        answer.set()


async def another_comes(drive: Drive, name: str, *, first: Ino) -> None:
    await drive.remote_file(1, "elsewhere", b"one")
    assert tree.find(drive.db, first).name == "elsewhere"
    await drive.remote_file(9, name, b"nine")


async def test_remove_of_a_name_that_becomes_another_file(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    await while_asked(
        *(drive, monkeypatch),
        lambda: drive.fs.unlink(ROOT, "f"),
        lambda: another_comes(drive, "f", first=ino),
    )
    assert drive.names() == ["elsewhere", "f"]
    assert drive.ops() == []


async def test_remove_of_a_folder_name_that_becomes_another(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    await drive.remote_folder(1, "f")

    async def news() -> None:
        await drive.remote_folder(1, "elsewhere")
        await drive.remote_folder(9, "f")

    await while_asked(drive, monkeypatch, lambda: drive.fs.rmdir(ROOT, "f"), news)
    assert drive.names() == ["elsewhere", "f"]
    assert drive.ops() == []


@pytest.mark.parametrize("which", ["source", "target"])
async def test_rename_of_a_name_that_becomes_another_file(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    await drive.remote_file(2, "g", b"two")
    old, new = ("f", "g") if which == "source" else ("g", "f")
    await while_asked(
        *(drive, monkeypatch),
        lambda: drive.fs.rename(ROOT, old, ROOT, new, 0),
        lambda: another_comes(drive, "f", first=ino),
    )
    assert drive.names() == ["elsewhere", "f", "g"]
    assert drive.ops() == []


async def test_rename_to_a_name_that_was_free(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    await drive.remote_file(1, "f", b"one")
    await while_asked(
        *(drive, monkeypatch),
        lambda: drive.fs.rename(ROOT, "f", ROOT, "g", 0),
        lambda: drive.remote_file(9, "g", b"nine"),
    )
    assert drive.names() == ["f", "g"]
    assert drive.ops() == []


async def test_an_open_by_the_name_before_does_not_lead_to_what_a_program_removed(drive: Drive) -> None:
    """The kernel has not heard yet that `before` is called `g`, and `g` goes under other hands."""
    ino = await drive.remote_file(1, "before", b"one")
    await drive.remote_file(1, "g", b"one")
    found = await drive.fs.lookup(ROOT, "g")
    opened = await drive.fs.open(found.ino, os.O_RDONLY)
    await drive.fs.release(opened.fh)
    await drive.fs.unlink(ROOT, "g")
    with pytest.raises(OSError, check=fails_with(errno.ESTALE)):
        await drive.fs.open(ino, os.O_RDWR)
    # Who asks once more means this very inode.
    again = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.release(again.fh)


async def test_create_in_a_folder_that_is_deleted(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = await drive.remote_folder(1, "d")
    await drive.fs.lookup(ROOT, "d")
    await while_asked(
        *(drive, monkeypatch),
        lambda: drive.fs.create(folder, "f", 0o644, os.O_WRONLY),
        lambda: drive.gone(folder),
        fails=errno.ENOENT,
    )
    assert drive.names() == drive.names(folder) == []
    assert drive.ops() == []
