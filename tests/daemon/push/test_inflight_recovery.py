"""Uploads and new folders that arrived while nobody heard, in a program that died or over a line that broke:
whatever happens to the item afterwards, the service has it once."""

import hashlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import trio

from cmsfs.journal import sealing
from cmsfs.service.provisioning import demo
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from cmsfs.vfs.tree import renaming
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

Ends = dict[str, tuple[list[str], dict[str, bytes]]]

# What happens to `f` while its upload is unheard of; then what is there.
ENDS: Ends = {
    "nothing": (["f", "old"], {"f": b"one"}),
    "rename": (["g", "old"], {"g": b"one"}),
    "move": (["d/", "d/f", "old"], {"f": b"one"}),
    "unlink": (["old"], {}),
    "write": (["f", "old"], {"f": b"two"}),
    "rename, write": (["g", "old"], {"g": b"two"}),
    "replace": (["old"], {"old": b"one"}),
    "be replaced": (["f", "old"], {"f": b"new"}),
    "replace, be replaced": (["old"], {"old": b"new"}),
    "replace, be replaced, write": (["f", "old"], {"f": b"two", "old": b"new"}),
    "exchange": (["f", "old"], {"f": b"old", "old": b"one"}),
}


async def happen(drive: Drive, end: str) -> None:
    match end:
        case "rename":
            await drive.rename("f", "g")
        case "move":
            await drive.mkdir("d")
            await drive.rename("f", "d/f")
        case "unlink":
            await drive.unlink("f")
        case "write":
            await drive.write("f", b"two")
        case "rename, write":
            await drive.rename("f", "g")
            await drive.write("g", b"two")
        case "replace":
            await drive.rename("f", "old")
        case "be replaced":
            await drive.write("new", b"new")
            await drive.rename("new", "f")
        case "replace, be replaced" | "replace, be replaced, write":
            await drive.rename("f", "old")
            await drive.write("new", b"new")
            await drive.rename("new", "old")
            if end.endswith("write"):
                await drive.write("f", b"two")
        case "exchange":
            await drive.rename("f", "old", renaming.EXCHANGE)


async def check(drive: Drive, other: Remote, paths: list[str], contents: dict[str, bytes]) -> None:
    for _ in range(2):
        await drive.sync()
        await drive.poll()
    assert await other.paths() == paths
    assert sorted(await drive.names()) == sorted({path.split("/")[0] for path in paths})
    for name, data in contents.items():
        assert await other.read(name) == data
    assert drive.ops() == []
    assert drive.db.rows("SELECT * FROM unheard") == []


Break = Callable[[Any, Any], Awaitable[None]]


@pytest.mark.parametrize("version", [False, True], ids=["new file", "new version"])
@pytest.mark.parametrize("end", ENDS)
async def test_crash_before_the_response_is_recorded(
    starting: Starting, other: Remote, network: Network, end: str, version: bool
) -> None:
    async with starting() as drive:
        await drive.write("old", b"old")
        if version:
            await drive.write("f", b"zero")
        await drive.sync()
        arrived, _ = network.gate("POST", "/content")
        await drive.write("f", b"one")
        with trio.fail_after(5):
            await arrived.wait()
    async with starting(agents=("health", "fs")) as drive:
        await happen(drive, end)
        await drive.poll()
    async with starting() as drive:
        await check(drive, other, *ENDS[end])


@pytest.mark.parametrize("version", [False, True], ids=["new file", "new version"])
@pytest.mark.parametrize("end", ENDS)
async def test_the_answer_was_lost(
    drive: Drive, other: Remote, network: Network, end: str, version: bool
) -> None:
    await drive.write("old", b"old")
    if version:
        await drive.write("f", b"zero")
    await drive.sync()
    arrived, go = network.gate("POST", "/content", before=True)
    network.lose_answer("POST", "/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    go.set()
    with trio.fail_after(5):
        while not drive.db.rows("SELECT * FROM op WHERE kind = 'upload' AND attempts > 0"):
            await drive.agents.push._moved.wait()
    await happen(drive, end)
    await check(drive, other, *ENDS[end])


async def test_file_deleted_under_a_local_only_name_during_its_upload(
    drive: Drive, other: Remote, network: Network
) -> None:
    """An editor's backup of it is deleted; what is uploaded under the old name must not come back."""
    await drive.write("f", b"zero")
    await drive.sync()
    arrived, go = network.gate("POST", "/content")
    await drive.write("new", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    later, send = network.gate("POST", "/files/content", before=True)
    await drive.rename("new", "f")
    await drive.rename("f", "f~")
    await drive.write("f", b"two")
    await drive.unlink("f~")
    await drive.write("new", b"three")
    with trio.fail_after(5):
        await later.wait()
    go.set()
    with trio.fail_after(20):
        while drive.db.rows("SELECT 1 FROM unheard WHERE sha1 = ?", hashlib.sha1(b"one").hexdigest()):
            await drive.agents.push._moved.wait()
    send.set()
    await check(drive, other, ["f", "new"], {"f": b"two", "new": b"three"})


async def test_replacement_is_uploaded_as_soon_as_the_earlier_upload_is_deleted(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its backoff is by then: the drive itself frees the place."""
    arrived, go = network.gate("POST", "/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 3600.0)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 3600.0)
    await happen(drive, "be replaced")
    with trio.fail_after(5):
        while not drive.db.rows("SELECT * FROM op WHERE kind = 'upload' AND attempts > 3"):
            await drive.agents.push._moved.wait()
    go.set()
    with trio.fail_after(20):
        while drive.ops():
            await drive.agents.push._moved.wait()
    assert await other.paths() == ["f"]
    assert await other.read("f") == b"new"


async def test_foreign_file_at_the_place_is_not_adopted(
    starting: Starting, other: Remote, network: Network
) -> None:
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/content", before=True)
        await drive.write("f", b"ours")
        with trio.fail_after(5):
            await arrived.wait()
    await other.file("f", b"theirs")
    async with starting(agents=("health", "fs")) as drive:
        await drive.unlink("f")
    async with starting() as drive:
        await drive.sync()
        await drive.poll()
        assert await drive.read("f") == b"theirs"
    assert await other.paths() == ["f"]


# ---- folders -----------------------------------------------------------------------------------

# What happens to `d` while its making is unheard of; then what is there.
FOLDER_ENDS: dict[str, list[str]] = {
    "nothing": ["d/", "old/"],
    "rename": ["e/", "old/"],
    "rename, with a file": ["e/", "e/f", "old/"],
    "move": ["old/", "old/d/"],
    "remove": ["old/"],
    "rename, make again": ["d/", "e/", "old/"],
    "remove, make again": ["d/", "old/"],
}


async def happen_to_folder(drive: Drive, end: str) -> None:
    match end:
        case "rename":
            await drive.rename("d", "e")
        case "rename, with a file":
            await drive.rename("d", "e")
            await drive.write("e/f", b"f")
        case "move":
            await drive.rename("d", "old/d")
        case "remove":
            await drive.rmdir("d")
        case "rename, make again":
            await drive.rename("d", "e")
            await drive.mkdir("d")
        case "remove, make again":
            await drive.rmdir("d")
            await drive.mkdir("d")


@pytest.mark.parametrize("end", FOLDER_ENDS)
async def test_crash_before_new_folder_is_recorded(
    starting: Starting, other: Remote, network: Network, end: str
) -> None:
    async with starting() as drive:
        await drive.mkdir("old")
        await drive.sync()
        arrived, _ = network.gate("POST", "/folders")
        await drive.mkdir("d")
        with trio.fail_after(5):
            await arrived.wait()
    async with starting(agents=("health", "fs")) as drive:
        await happen_to_folder(drive, end)
        await drive.poll()
    async with starting() as drive:
        await check(drive, other, FOLDER_ENDS[end], {})


@pytest.mark.parametrize("end", FOLDER_ENDS)
async def test_the_answer_to_a_new_folder_was_lost(
    drive: Drive, other: Remote, network: Network, end: str
) -> None:
    await drive.mkdir("old")
    await drive.sync()
    arrived, go = network.gate("POST", "/folders", before=True)
    network.lose_answer("POST", "/folders")
    await drive.mkdir("d")
    with trio.fail_after(5):
        await arrived.wait()
    go.set()
    with trio.fail_after(5):
        while not drive.db.rows("SELECT * FROM op WHERE kind = 'mkdir' AND attempts > 0"):
            await drive.agents.push._moved.wait()
    await happen_to_folder(drive, end)
    await check(drive, other, FOLDER_ENDS[end], {})


@pytest.mark.parametrize("whose", ["another's", "older"])
async def test_foreign_folder_is_not_adopted(
    starting: Starting, other: Remote, network: Network, service: Store, whose: str
) -> None:
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/folders", before=True)
        await drive.mkdir("d")
        with trio.fail_after(5):
            await arrived.wait()
    await other.folder("d")

    def change(conn: Connection) -> None:
        if whose == "older":
            conn.execute("UPDATE item SET created_at = 1 WHERE name = 'd'")
            return
        bob = demo.add_user(conn, 1, "Bob Other", "bob@example.com", now=1)
        conn.execute("UPDATE item SET created_by = ? WHERE name = 'd'", (bob["id"],))

    await service.write(change)
    async with starting(agents=("health", "fs")) as drive:
        await drive.rename("d", "e")
    async with starting() as drive:
        await drive.sync()
        await drive.poll()
        assert await drive.names() == ["d", "e"]
    assert await other.paths() == ["d/", "e/"]


@pytest.mark.parametrize("heard", [True, False])
async def test_overtaken_version_is_not_sent_later(
    drive: Drive, other: Remote, network: Network, heard: bool
) -> None:
    await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    slow, let_slow_go = network.gate("POST", f"/files/{kept}/content", before=True)
    await drive.write("f", b"two")
    with trio.fail_after(5):
        await slow.wait()
    fast, let_fast_go = network.gate("POST", f"/files/{kept}/content")
    await drive.write(".f.tmp", b"three")
    await drive.rename(".f.tmp", "f")
    with trio.fail_after(5):
        await fast.wait()
    assert len(drive.ops()) == 2

    async def one_is_done() -> bool:
        return len(drive.ops()) == 1

    # The newer one is at the service.  Of the older one it says that it does not fit any more.
    for gate in (let_fast_go, let_slow_go) if heard else (let_slow_go, let_fast_go):
        gate.set()
        await drive.agents.push.until(one_is_done, seconds=5)
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await drive.names() == ["f"]
    assert (await other.find("f")).id == kept
    assert await other.read("f") == await drive.read("f") == b"three"


async def test_late_answer_to_an_overtaken_version_is_not_the_base_of_the_next(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Otherwise the next upload seems to meet somebody else's version, and becomes a conflict copy."""
    await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    # The service has it at once, and its answer is long on its way.
    slow, let_slow_go = network.gate("POST", f"/files/{kept}/content")
    await drive.write("f", b"two")
    with trio.fail_after(5):
        await slow.wait()
    await drive.write(".f.tmp", b"three")
    await drive.rename(".f.tmp", "f")

    async def one_is_left() -> bool:
        return len(drive.ops()) == 1

    assert await drive.agents.push.until(one_is_left, seconds=5)
    ino = await drive.ino("f")
    opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
    await drive.fs.write(opened.fh, 0, b"four")
    assert len(drive.ops()) == 2
    let_slow_go.set()
    assert await drive.agents.push.until(one_is_left, seconds=5)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await check(drive, other, ["f"], {"f": b"four"})


async def test_interrupted_operations_restart_with_push(starting: Starting, other: Remote) -> None:
    async with starting(agents=("health", "fs")) as drive, trio.open_nursery() as nursery:
        await drive.write("f", b"x")
        await drive.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
        nursery.start_soon(drive.agents.push.run)
        await drive.sync()
        assert await other.paths() == ["f"]
        nursery.cancel_scope.cancel()


async def test_what_is_sent_is_on_the_disk_before(
    drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, too, it is known that the service may have it."""
    durable: set[tuple[str, ...]] = set()
    fsync_log = drive.db.fsync_log

    def noted() -> set[tuple[str, ...]]:
        return {tuple(row) for row in drive.db.rows("SELECT ino, sha1, remote_id FROM unheard")}

    def remembering() -> None:
        before = noted()
        fsync_log()
        durable.update(before)

    monkeypatch.setattr(drive.db, "fsync_log", remembering)
    sent: list[str] = []

    def look(request: httpx.Request) -> None:
        if request.method == "POST":
            sent.append(request.url.path)
            assert noted(), "it is not known that anything is sent"
            assert noted() <= durable

    network.instead = look
    # One after the other: what others note meanwhile need not be on the disk yet.
    await drive.mkdir("folder")
    await drive.sync()
    for name in ("small", "folder/second", "large", "link.url"):
        data = b"[InternetShortcut]\nURL=https://example.com/\n" if name == "link.url" else name.encode()
        await drive.write(name, data * (1 if name != "large" else sealing.SMALL))
        await drive.sync()
    await drive.write("small", b"again")
    await drive.sync()
    assert len(sent) == 6
    assert drive.ops() == []
