"""Push: what is done on the drive, done at the service."""

import os
from typing import Any

import pytest
import trio

from cmsfs.journal import group_commit, queue
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.runtime import clock
from cmsfs.service.storage.store import Store
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


async def test_every_kind_of_change_arrives(drive: Drive, other: Remote) -> None:
    await drive.mkdir("a")
    await drive.mkdir("a/b")
    await drive.write("a/b/file", b"one")
    await drive.write("empty", b"")
    await drive.sync()
    assert await other.paths() == ["a/", "a/b/", "a/b/file", "empty"]
    assert await other.read("file") == b"one"
    await drive.write("a/b/file", b"two, longer")
    await drive.rename("a/b", "c")
    await drive.unlink("empty")
    await drive.sync()
    assert await other.paths() == ["a/", "c/", "c/file"]
    assert await other.read("file") == b"two, longer"
    await drive.unlink("c/file")
    await drive.rmdir("c")
    await drive.rmdir("a")
    await drive.sync()
    assert await other.paths() == []
    assert drive.ops() == []


async def test_mtime_is_sent_alone_or_with_file(drive: Drive, other: Remote) -> None:
    ino = await drive.write("f", b"x")
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922_123_456_789))
    await drive.sync()
    assert (await other.find_file("f")).content_modified_at.timestamp() == 1_580_608_922.123456
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_000_000_000 * 10**9))
    await drive.sync()
    assert (await other.find_file("f")).content_modified_at.timestamp() == 1_000_000_000
    assert await other.versions((await other.find("f")).id) == 1


async def test_save_by_rename_is_new_version(drive: Drive, other: Remote) -> None:
    await drive.write("report", b"first")
    await drive.sync()
    before = (await other.find("report")).id
    await drive.write(".report.tmp", b"second")
    await drive.rename(".report.tmp", "report")
    await drive.sync()
    assert await other.paths() == ["report"]
    assert (await other.find("report")).id == before
    assert await other.read("report") == b"second"
    assert await other.versions(before) == 2


async def test_the_same_bytes_again_are_not_sent(drive: Drive, network: Network) -> None:
    await drive.write("f", b"same")
    await drive.sync()
    sent = network.count("POST", "/files/")
    await drive.write("f", b"same")
    await drive.sync()
    assert network.count("POST", "/files/") == sent
    assert drive.ops() == []


async def test_file_replaced_by_folder_of_its_name(drive: Drive, other: Remote, network: Network) -> None:
    """The folder waits for the name, and the file for the folder."""
    number = await other.file("d", b"x")
    await drive.names()
    network.is_down = True
    await drive.rename("d", "e")
    await drive.mkdir("d")
    await drive.rename("e", "d/b")
    network.is_down = False
    drive.agents.health.suspect()
    await drive.sync()
    assert await other.paths() == ["d/", "d/b"]
    assert (await other.find("b")).id == number
    assert drive.ops() == []


async def test_names_are_exchanged_in_a_ring(drive: Drive, other: Remote) -> None:
    for name in ("a", "b", "c"):
        await drive.write(name, name.encode())
    await drive.sync()
    await drive.rename("a", "t")
    await drive.rename("c", "a")
    await drive.rename("b", "c")
    await drive.rename("t", "b")
    await drive.sync()
    assert await other.paths() == ["a", "b", "c"]
    assert [await other.read(name) for name in ("a", "b", "c")] == [b"c", b"a", b"b"]
    assert drive.ops() == []


async def test_folders_change_places_with_what_is_in_them(drive: Drive, other: Remote) -> None:
    await drive.mkdir("a")
    await drive.mkdir("a/b")
    await drive.write("a/b/f", b"f")
    await drive.sync()
    await drive.rename("a/b", "b")
    await drive.rename("a", "b/a")
    await drive.sync()
    assert await other.paths() == ["b/", "b/a/", "b/f"]


async def test_a_deletion_of_a_tree_empties_folders_first(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    for number in range(5):
        await drive.write(f"d/{number}", b"x")
    await drive.sync()
    for number in range(5):
        await drive.unlink(f"d/{number}")
    await drive.rmdir("d")
    await drive.sync()
    assert await other.paths() == []


async def test_an_upload_whose_answer_was_lost_is_recognised(
    drive: Drive, other: Remote, network: Network
) -> None:
    network.lose_answer("POST", "/files/content")
    await drive.write("f", b"once")
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await other.versions((await other.find("f")).id) == 1
    assert drive.ops() == []


async def test_version_upload_with_lost_response_is_recognized(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("f", b"one")
    await drive.sync()
    network.lose_answer("POST", "/content")
    await drive.write("f", b"two")
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await other.versions((await other.find("f")).id) == 2


async def test_rewrite_after_lost_response_stays_one_file(
    drive: Drive, other: Remote, network: Network
) -> None:
    arrived, go = network.gate("POST", "/files/content", before=True)
    network.lose_answer("POST", "/files/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    await drive.write("f", b"two")
    go.set()
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await other.read("f") == b"two"
    assert await other.versions((await other.find("f")).id) == 2


async def test_a_folder_whose_answer_was_lost_is_recognised(
    drive: Drive, other: Remote, network: Network
) -> None:
    network.lose_answer("POST", "/folders")
    await drive.mkdir("d")
    await drive.write("d/f", b"x")
    await drive.sync()
    assert await other.paths() == ["d/", "d/f"]


@pytest.mark.parametrize("end", ["rename", "unlink", "write", "replace"])
async def test_local_changes_during_creation(drive: Drive, other: Remote, network: Network, end: str) -> None:
    await drive.write("old", b"old")
    await drive.sync()
    arrived, go = network.gate("POST", "/files/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    match end:
        case "rename":
            await drive.rename("f", "g")
        case "unlink":
            await drive.unlink("f")
        case "write":
            await drive.write("f", b"two")
        case "replace":
            await drive.rename("f", "old")
    go.set()
    await drive.sync()
    expected = {
        "rename": ["g", "old"],
        "unlink": ["old"],
        "write": ["f", "old"],
        "replace": ["old"],
    }
    assert await other.paths() == expected[end]
    assert await drive.names() == expected[end]
    if end == "write":
        assert await other.read("f") == b"two"
    if end == "replace":
        assert await other.read("old") == b"one"
    assert drive.ops() == []


async def test_file_replaced_during_version_upload(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    arrived, go = network.gate("POST", f"/files/{kept}/content")
    await drive.write("f", b"two")
    with trio.fail_after(5):
        await arrived.wait()
    await drive.write(".f.tmp", b"three")
    await drive.rename(".f.tmp", "f")
    go.set()
    await drive.sync()
    assert await other.paths() == ["f"]
    assert (await other.find("f")).id == kept
    assert await other.read("f") == b"three"


async def test_rename_undone_while_in_flight(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("a", b"x")
    await drive.sync()
    arrived, go = network.gate("PUT", "/files/")
    await drive.rename("a", "b")
    with trio.fail_after(5):
        await arrived.wait()
    await drive.rename("b", "a")
    go.set()
    await drive.sync()
    assert await other.paths() == ["a"]
    assert await drive.names() == ["a"]


async def test_refused_change_is_held_alone(
    drive: Drive, other: Remote, service: Store, user: int, expect_log: ExpectLog
) -> None:
    expect_log("the service rejected a change")
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 10"))
    await drive.write("large", b"x" * 100)
    await drive.write("small", b"x")
    await drive.sync()
    assert await other.paths() == ["small"]
    assert [op[:2] for op in drive.ops()] == [("upload", "held")]
    assert await drive.read("large") == b"x" * 100
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 10000"))
    await drive.sync()
    assert await other.paths() == ["large", "small"]


async def test_offline_changes_are_sent_when_online(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    network.is_down = True
    await drive.write("f", b"written on a train")
    await drive.mkdir("d")
    with trio.fail_after(5):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    assert await drive.read("f") == b"written on a train"
    network.is_down = False
    await drive.sync()
    assert await other.paths() == ["d/", "f"]


async def test_an_open_file_is_not_waited_for(drive: Drive, other: Remote) -> None:
    opened, _ = await drive.fs.create(1, "log", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"line")
    await drive.write("other", b"x")
    await drive.sync()
    assert await other.paths() == ["other"]
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.paths() == ["log", "other"]


async def test_rename_over_evicted_file_keeps_its_bytes(drive: Drive, other: Remote) -> None:
    await drive.write("old", b"old")
    await drive.write("new", b"new")
    await drive.sync()
    # Ours by birth, but the newest version is theirs, and has never been read here.
    await other.write((await other.find("new")).id, b"newest, from elsewhere")
    await drive.poll()
    await drive.rename("new", "old")
    await drive.sync()
    assert await other.paths() == await drive.names() == ["old"]
    assert await other.read("old") == b"newest, from elsewhere"


async def test_overwrite_of_unfetched_version_survives_rename(drive: Drive, other: Remote) -> None:
    await drive.write("old", b"old")
    await drive.write("new", b"new")
    await drive.sync()
    await other.write((await other.find("new")).id, b"newest, from elsewhere")
    await drive.poll()
    opened = await drive.fs.open(await drive.ino("new"), os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"NEW")
    await drive.fs.flush(opened.fh)
    await drive.rename("new", "old")
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.paths() == ["old"]
    assert await other.read("old") == b"NEWest, from elsewhere"


async def test_evicted_bytes_are_fetched_for_upload(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("old", b"old")
    ino = await drive.write("new", b"new bytes")
    await drive.sync()
    kept = (await other.find("old")).id
    network.is_down = True
    await drive.rename("new", "old")
    # The service has these bytes, so they may go from here at any time.
    contents = drive.agents.state.blocks._contents
    contents.drop(contents.find(drive.node(ino).sha1))
    network.is_down = False
    await drive.sync()
    assert await other.paths() == ["old"]
    assert await other.read("old") == b"new bytes"
    assert (await other.find("old")).id == kept


async def test_waiting_operation_is_not_starved(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "ASIDE_SECONDS", 0.5)
    opened, _ = await drive.fs.create(1, "first", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x")
    # Looked at, and left alone because it is open.
    await drive.write("second", b"x")
    with trio.fail_after(5):
        while await other.paths() != ["second"]:
            await drive.agents.push._moved.wait()
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    number = 0
    with trio.fail_after(15):
        while "first" not in await other.paths():
            number += 1
            await drive.write(f"more {number}", b"x")


async def test_folder_restored_during_upload_is_tried_again(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The upload is told that the folder is gone; when that is looked at, it is back."""
    docs = await other.folder("docs")
    await drive.names()
    await drive.poll()
    await other.client.items.delete("folder", docs, recursive=True)
    refused, go = network.gate("POST", "/files/content")
    await drive.write("docs/f", b"mine")
    with trio.fail_after(5):
        await refused.wait()
    await other.client.items.restore("folder", docs)
    go.set()
    await drive.sync()
    assert drive.ops() == []
    assert await other.paths() == ["docs/", "docs/f"]
    assert await other.read("f") == b"mine"


async def test_what_becomes_due_during_a_look_is_sent_at_once(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with starting(agents=("health",)) as drive:
        await drive.write("f", b"x")
        due = queue.next_due(drive.db)
        moments = iter([due - 1, due - 1, due - 1])
        monkeypatch.setattr(clock, "time_ns", lambda: next(moments, due + 1))
        send, receive = trio.open_memory_channel[Any](0)
        with send, receive, trio.fail_after(20):
            await drive.agents.push._round(send)


async def test_conflict_after_many_failures_is_resolved_at_once(
    starting: Starting, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures before it, as of a full disk, say nothing about the retry under another name."""
    async with starting(agents=("health", "fs")) as drive:
        await drive.write("f", b"ours")
        await drive.db.write(lambda conn: conn.execute("UPDATE op SET attempts = 9"))
    await other.file("f", b"theirs")
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 3600.0)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 3600.0)
    async with starting() as drive:
        with trio.fail_after(10):
            while drive.ops():
                await trio.lowlevel.checkpoint()
    assert sorted(path == "f" or CONFLICT_MARK in path for path in await other.paths()) == [True, True]
