"""Freeing: what leaves this disk, what never does, and that it comes back when it is read."""

import os

import pytest
import trio

from cmsfs import errors
from cmsfs.cache import content_table
from cmsfs.ipc import control
from cmsfs.replica import pins
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.patience import crowding

SIZE = 200_000


def data(number: int) -> bytes:
    return bytes([number]) * SIZE


async def fill(drive: Drive, other: Remote, *names: str) -> str:
    """A folder `d` with these files, all of which are here."""
    folder: str = await other.folder("d")
    for number, name in enumerate(names):
        await other.file(name, data(number), parent=folder)
    for name in names:
        await drive.read(f"d/{name}")
    return folder


async def cached(drive: Drive, path: str) -> int:
    return int(await drive.fs.getxattr(await drive.ino(path), "user.cms.cached"))


async def pinned(drive: Drive, path: str) -> None:
    """Pin it, and wait until it is here."""
    await drive.agents.pin(path)
    with trio.fail_after(20):
        while not await drive.agents.pins.once():
            await trio.lowlevel.checkpoint()


async def test_freed_folder_is_downloaded_again(drive: Drive, other: Remote, network: Network) -> None:
    await fill(drive, other, "a", "b")
    inner = await other.folder("inner", (await other.find("d")).id)
    await other.file("c", data(0), parent=inner)  # as `a`
    await other.file("outside", data(1))  # as `b`
    await drive.poll()
    assert await cached(drive, "outside") == SIZE
    before = len(drive.changes)
    assert await drive.agents.free("/d", unpin=False) == control.Freed(files=3, bytes=2 * SIZE)
    assert [await cached(drive, path) for path in ("d/a", "d/b", "d/inner/c", "outside")] == [0] * 4
    assert drive.agents.state.blocks.usage() == 0
    assert not [path for path in drive.agents.settings.paths.blocks.rglob("*") if path.is_file()]
    # The kernel hears of all who have the bytes, the one outside too.
    told = [await drive.ino(path) for path in ("d/a", "d/b", "d/inner/c", "outside")]
    assert sorted(drive.changes[before:], key=lambda change: change.ino) == [
        Change(ChangeKind.CONTENT, ino, is_same=True) for ino in sorted(told)
    ]
    assert await drive.agents.free("/d", unpin=False) == control.Freed()
    asked = len(network.requests)
    assert await drive.read("d/a") == data(0)
    assert len(network.requests) > asked
    assert [await cached(drive, path) for path in ("d/a", "d/inner/c")] == [SIZE] * 2


async def test_a_file_alone(drive: Drive, other: Remote) -> None:
    await fill(drive, other, "a", "b")
    assert await drive.agents.free("/d/a", unpin=True) == control.Freed(files=1, bytes=SIZE)
    assert [await cached(drive, path) for path in ("d/a", "d/b")] == [0, SIZE]
    with pytest.raises(errors.UserError, match="There is no /none"):
        await drive.agents.free("/none", unpin=False)


async def test_unsent_contents_are_never_dropped(drive: Drive, other: Remote, network: Network) -> None:
    await fill(drive, other, "sent", "edited", "appended")
    await other.file("twin", data(2))  # the bytes to which more is appended
    await drive.poll()
    network.is_down = True
    await drive.write("d/new", b"written here" * 1000)
    await drive.write("d/edited", b"edited here" * 1000)
    opened = await drive.fs.open(await drive.ino("d/appended"), os.O_WRONLY)
    await drive.fs.write(opened.fh, SIZE, b"more")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.write("d/.~lock.a.odt#", b"of this machine only")
    found = await drive.agents.free("/", unpin=True)
    assert found == control.Freed(files=1, bytes=SIZE, unsent=5)
    assert await drive.read("d/new") == b"written here" * 1000
    assert await drive.read("d/edited") == b"edited here" * 1000
    assert await drive.read("d/appended") == data(2) + b"more"
    assert await drive.read("d/.~lock.a.odt#") == b"of this machine only"
    network.is_down = False
    drive.agents.health.suspect()
    await drive.sync()
    assert await other.read("new") == b"written here" * 1000
    assert await other.read("appended") == data(2) + b"more"
    assert (await drive.agents.free("/", unpin=False)).unsent == 1
    assert await drive.read("d/.~lock.a.odt#") == b"of this machine only"


async def test_pending_bytes_are_never_freed(
    drive: Drive, other: Remote, service: Store, expect_log: ExpectLog
) -> None:
    expect_log("the service rejected a change")
    await fill(drive, other, "sent", "version")
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 10"))
    await drive.write("d/new", b"new" * 1000)
    await drive.write("d/version", b"newer" * 1000)
    await drive.write("d/copy", data(0))
    await drive.sync()
    assert [op[1] for op in drive.ops()] == ["held"] * 3
    assert await drive.agents.free("/d/sent", unpin=True) == control.Freed(unsent=1)
    assert await drive.agents.free("/", unpin=True) == control.Freed(unsent=4)
    for name in ("new", "version", "copy"):
        assert drive.agents.state.blocks.evict(drive.node(await drive.ino(f"d/{name}")).sha1) is None
    assert await drive.read("d/new") == b"new" * 1000
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 10000000"))
    await drive.sync()
    assert await other.read("new") == b"new" * 1000
    assert await other.read("version") == b"newer" * 1000
    assert await other.read("copy") == data(0)
    # Now it may go.
    assert await drive.agents.free("/d", unpin=False) == control.Freed(files=4, bytes=SIZE + 8000)


async def test_uploaded_file_is_freed_while_another_is_being_uploaded(
    drive: Drive, other: Remote, network: Network, nursery: trio.Nursery
) -> None:
    await other.folder("d")
    arrived, go = network.gate("POST", "/content", before=True)
    for number, name in enumerate("ab"):
        await drive.write(f"d/{name}", data(number))
    nursery.start_soon(drive.sync)
    with trio.fail_after(20 * crowding()):
        await arrived.wait()
        while len(drive.ops()) > 1:
            await trio.lowlevel.checkpoint()
    # What has been uploaded leaves the drafts' folder when no upload is under way, and here.
    assert await drive.agents.free("/d", unpin=False) == control.Freed(files=1, bytes=SIZE, unsent=1)
    assert drive.agents.state.blocks.usage() == 0
    go.set()
    await drive.sync()
    for number, name in enumerate("ab"):
        assert await drive.read(f"d/{name}") == data(number)


async def test_what_is_open_stays(drive: Drive, other: Remote) -> None:
    await fill(drive, other, "a", "b")
    opened = await drive.fs.open(await drive.ino("d/a"), os.O_RDONLY)
    try:
        found = await drive.agents.free("/d", unpin=False)
        assert found == control.Freed(files=1, bytes=SIZE, in_use=1)
        assert await cached(drive, "d/a") == SIZE
    finally:
        await drive.fs.release(opened.fh)
    assert (await drive.agents.free("/d", unpin=False)).bytes == SIZE


async def test_pinned_content_needs_unpin_to_free(drive: Drive, other: Remote) -> None:
    folder = await fill(drive, other, "a", "b", "c")
    await other.file("twin", data(2))
    await drive.poll()
    await pinned(drive, "/d/a")
    await pinned(drive, "/twin")
    # `a` is pinned, `c` has the bytes of what is pinned elsewhere.
    assert await drive.agents.free("/d", unpin=False) == control.Freed(files=1, bytes=SIZE, pinned=2)
    assert [await cached(drive, f"d/{name}") for name in "abc"] == [SIZE, 0, SIZE]
    with pytest.raises(errors.UserError, match=r"/d/a is pinned; .*--unpin"):
        await drive.agents.free("/d/a", unpin=False)
    assert await drive.agents.free("/d", unpin=True) == control.Freed(files=1, bytes=SIZE, pinned=1)
    assert [await cached(drive, f"d/{name}") for name in "abc"] == [0, 0, SIZE]
    await drive.agents.pins.once()
    assert [one.path for one in (await drive.agents.pinned()).items] == ["/twin"]
    assert await cached(drive, "d/a") == 0
    # What a folder above keeps is let go there.
    await pinned(drive, "/d")
    for unpin in (False, True):
        with pytest.raises(errors.UserError, match="/d/a is pinned by /d"):
            await drive.agents.free("/d/a", unpin=unpin)
    assert (await drive.agents.free("/d", unpin=True)).bytes == 2 * SIZE
    assert folder


async def test_new_pin_counts_before_its_survey(drive: Drive, other: Remote) -> None:
    await fill(drive, other, "a")
    await drive.agents.pin("/d/a")
    found = content_table.find(drive.db, drive.node(await drive.ino("d/a")).sha1)
    assert found is None or not found.pinned
    assert await drive.agents.free("/d", unpin=False) == control.Freed(pinned=1)
    assert await cached(drive, "d/a") == SIZE


async def test_free_stops_download_for_pin(
    drive: Drive, other: Remote, network: Network, nursery: trio.Nursery
) -> None:
    folder = await other.folder("d")
    for number in range(12):
        await other.file(f"f{number}", data(number), parent=folder)
    await drive.names("d")
    arrived, go = network.gate("GET", "/content")
    await drive.agents.pin("/d")
    ended = trio.Event()

    async def one_round() -> None:
        await drive.agents.pins.once()
        ended.set()

    nursery.start_soon(one_round)
    with trio.fail_after(10):
        await arrived.wait()
        assert (await drive.agents.free("/d", unpin=True)).in_use  # what is on its way
        await ended.wait()
        go.set()
        while drive.agents.hydrator.coming():
            await trio.lowlevel.checkpoint()
    assert len([path for method, path in network.requests if path.endswith("/content")]) < 12
    await drive.agents.free("/d", unpin=True)
    assert drive.agents.state.blocks.usage() == 0
    assert await drive.agents.pins.once()
    assert not pins.any_left(drive.db)
