"""An item that is deleted before the answer to a request of ours about it arrives is gone here, too."""

import threading

import pytest
import trio
import trio.testing

from cmsfs.replica import kv_store
from cmsfs.replica.nodes import NodeKind
from daemon.core.remote_updates import RemovedItem
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


@pytest.mark.parametrize("sleeps", [False, True])
async def test_a_file_whose_deletion_overtakes_the_answer_to_its_upload_is_gone(
    drive: Drive, other: Remote, network: Network, *, sleeps: bool
) -> None:
    """Even if the machine sleeps for weeks before the answer arrives."""
    await drive.names()
    sent, answered = network.gate("POST", "/files/content")
    await drive.write("f", b"mine")
    await sent.wait()
    await other.client.items.delete("file", (await other.find("f")).id)
    await drive.poll()
    if sleeps:
        await drive.db.write(lambda conn: kv_store.put(conn, kv_store.EVENTS_READ_AT, "1000"))
        await drive.poll()
    answered.set()
    await drive.sync()
    assert await drive.names() == []
    assert await other.paths() == []


async def test_a_folder_whose_deletion_overtakes_the_answer_to_its_creation_is_gone(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.names()
    sent, answered = network.gate("POST", "/folders")
    await drive.mkdir("d")
    await sent.wait()
    await other.client.items.delete("folder", (await other.find("d")).id)
    await drive.poll()
    answered.set()
    await drive.sync()
    assert await drive.names() == []


async def test_a_web_link_whose_deletion_overtakes_the_answer_to_its_creation_is_gone(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.names()
    sent, answered = network.gate("POST", "/web_links")
    await drive.write("l.url", b"[InternetShortcut]\nURL=https://example.com/\n")
    await sent.wait()
    await other.client.items.delete("web_link", (await other.find("l")).id)
    await drive.poll()
    answered.set()
    await drive.sync()
    assert await drive.names() == []


async def test_a_changed_web_link_whose_deletion_overtakes_the_answer_about_it_is_gone(
    drive: Drive, other: Remote, network: Network
) -> None:
    link = await other.client.web_links.create("https://example.com/1", "0", name="l")
    assert b"/1" in await drive.read("l.url")
    await other.client.web_links.update(link.id, url="https://example.com/2", name="l")
    asked, answered = network.gate("GET", f"/web_links/{link.id}")
    ino = await drive.write("l.url", b"[InternetShortcut]\nURL=https://example.com/3\n")
    await asked.wait()
    await other.client.items.delete("web_link", link.id)
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
    await drive.poll()
    answered.set()
    await drive.sync()
    assert [b"/3" in await drive.read(name) for name in await drive.names()] == [True]
    assert list((await other.urls()).values()) == ["https://example.com/3"]


@pytest.mark.parametrize("kind", ["folder", "file"])
async def test_a_new_item_that_went_with_a_folder_before_the_answer_to_its_creation_is_gone(
    drive: Drive, other: Remote, network: Network, kind: str
) -> None:
    """Somebody moved it into a folder and deleted that: of the deletion of what is in it nobody hears."""
    above = await other.folder("above")
    await drive.names()
    sent, answered = network.gate("POST", "/folders" if kind == "folder" else "/files/content")
    await (drive.mkdir("new") if kind == "folder" else drive.write("new", b"ours"))
    await sent.wait()
    new = (await other.find("new")).id
    await drive.poll()
    await other.client.items.update(kind, new, parent_id=above)
    await other.client.items.delete("folder", above, recursive=True)
    await drive.poll()
    answered.set()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    assert await drive.names() == await other.paths() == []
    assert drive.db.rows("SELECT * FROM doubt") == []


@pytest.mark.parametrize("kind", ["folder", "file"])
async def test_a_rename_from_before_our_deletion_is_no_news_after_it(
    drive: Drive, other: Remote, network: Network, kind: str
) -> None:
    """The answer to the rename came when the item had no place here any more, and was not applied."""
    await (drive.mkdir("a") if kind == "folder" else drive.write("a", b"ours"))
    await drive.sync()
    sent, answered = network.gate("PUT", f"/{kind}s/")
    await drive.rename("a", "b")
    await sent.wait()
    renamed = await other.find("b")
    await (drive.rmdir("b") if kind == "folder" else drive.unlink("b"))
    answered.set()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    await drive.agents.remote_updates.apply([renamed])
    assert await drive.names() == await other.paths() == []


async def test_a_look_before_a_deletion_does_not_bring_back_what_was_found_gone_since(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The event of its deletion is missed."""
    number = await other.file("f", b"one")
    await drive.names()
    await other.write(number, b"two")
    looked, answered = network.gate("GET", f"/files/{number}")
    await drive.unlink("f")
    with trio.fail_after(10):
        await looked.wait()
        await other.client.items.delete("file", number)
        await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number)])
        drive.changes.clear()
        answered.set()
        while not drive.changes:
            await trio.lowlevel.checkpoint()
        while await drive.names():
            await drive.agents.deferred_updates.settle()
    assert drive.ops() == []


async def test_a_deletion_committed_while_an_older_answer_waits_to_be_applied_holds(
    drive: Drive, other: Remote
) -> None:
    await drive.names()
    await other.file("f", b"theirs")
    shown = await other.find("f")
    updates, gate = drive.agents.remote_updates, threading.Event()
    try:
        async with trio.open_nursery() as nursery:
            for task in (
                lambda: drive.db.write(lambda _: gate.wait()),
                lambda: updates.apply([], [RemovedItem(NodeKind.FILE, shown.id, 1)]),
                lambda: updates.apply([shown]),
            ):
                nursery.start_soon(task)
                await trio.testing.wait_all_tasks_blocked()
            gate.set()
    finally:
        gate.set()
    assert await drive.names() == []
