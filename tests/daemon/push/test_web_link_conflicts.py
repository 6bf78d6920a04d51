"""Web links that are changed on both sides, or whose making is interrupted: none is lost or there twice."""

import os

import pytest
import trio

from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network
from tests.support.shortcuts import TEXT, URL, WINDOWS, link, meanwhile


async def test_open_reader_keeps_old_url(drive: Drive, other: Remote) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    ino = await drive.ino("a.url")
    old = await drive.fs.open(ino, os.O_RDONLY)
    assert b"old" in await drive.fs.read(old.fh, 0, 1000)
    await other.client.web_links.update(made.id, url="https://new.example/long")
    await drive.poll()
    fresh = await drive.ino("a.url")
    assert fresh != ino
    new = await drive.fs.open(fresh, os.O_RDONLY)
    assert b"new.example/long\n" in await drive.fs.read(new.fh, 0, 1000)
    assert not new.keep_cache
    assert b"old.example/\n" in await drive.fs.read(old.fh, 0, 1000)
    await drive.fs.release(new.fh)
    again = await drive.fs.open(fresh, os.O_RDONLY)
    assert b"new" in await drive.fs.read(again.fh, 0, 1000)
    for opened in (old, again):
        await drive.fs.release(opened.fh)


async def test_edit_of_old_url_is_a_copy(drive: Drive, other: Remote) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    opened_ino = await drive.ino("a.url")
    opened = await drive.fs.open(opened_ino, os.O_RDWR)
    await other.client.web_links.update(made.id, url="https://new.example/")
    await drive.poll()
    await drive.fs.write(opened.fh, 0, TEXT)
    await drive.fs.setattr(opened_ino, SetAttr(size=len(TEXT)), opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    found = await other.urls()
    assert found.pop("a") == "https://new.example/"
    assert list(found.values()) == [URL]
    assert "conflicted copy" in next(iter(found))


@pytest.mark.parametrize("heard", [True, False])
async def test_two_new_addresses_are_both_kept(
    drive: Drive, other: Remote, network: Network, heard: bool
) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "PUT"):
        await other.client.web_links.update(made.id, url="https://theirs.example/")
        if heard:
            await drive.poll()
    await drive.sync()
    found = await other.urls()
    assert found.pop("a") == "https://theirs.example/"
    assert list(found.values()) == [URL]
    assert "conflicted copy" in next(iter(found))


async def test_remote_rename_and_local_url_edit(drive: Drive, other: Remote, network: Network) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "PUT"):
        await other.client.web_links.update(made.id, name="b")
    await drive.sync()
    await drive.poll()
    assert (await link(other, "b")).url == URL
    assert await drive.names() == ["b.url"]


async def test_remotely_deleted_link_is_recreated(drive: Drive, other: Remote, network: Network) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "PUT"):
        await other.client.items.delete("web_link", made.id)
    await drive.sync()
    found = await link(other, "a")
    assert (found.id != made.id, found.url) == (True, URL)


async def test_locally_deleted_changed_link_returns(drive: Drive, other: Remote, network: Network) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    await drive.unlink("a.url")
    async with meanwhile(network, "DELETE"):
        await other.client.web_links.update(made.id, url="https://new.example/")
    await drive.sync()
    assert (await link(other, "a")).url == "https://new.example/"
    assert b"new" in await drive.read("a.url")


async def test_the_same_made_on_both_sides_is_one(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "POST"):
        made = await other.client.web_links.create(URL, "0", name="a")
    await drive.sync()
    assert (await link(other, "a")).id == made.id
    assert await drive.names() == ["a.url"]


@pytest.mark.parametrize("then", ["nothing", "rename", "delete", "write"])
async def test_unconfirmed_link_creation_is_found(
    drive: Drive, other: Remote, network: Network, then: str
) -> None:
    network.lose_answer("POST", "/web_links")
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "POST"):
        match then:
            case "rename":
                await drive.rename("a.url", "b.url")
            case "delete":
                await drive.unlink("a.url")
            case "write":
                await drive.write("a.url", WINDOWS)
    while not await other.everything():
        await trio.lowlevel.checkpoint()
    # Whoever asks meanwhile does not take it for somebody else's.
    await drive.poll()
    await drive.sync()
    await drive.poll()
    found = await other.urls()
    assert (
        found
        == {
            "nothing": {"a": URL},
            "rename": {"b": URL},
            "delete": {},
            "write": {"a": "https://example.com/"},
        }[then]
    )
    assert await drive.names() == [f"{name}.url" for name in found]


async def test_a_restart_before_the_answer_makes_it_once(
    starting: Starting, other: Remote, network: Network
) -> None:
    arrived, _ = network.gate("POST", "/web_links")
    async with starting() as drive:
        await drive.write("a.url", WINDOWS)
        with trio.fail_after(5):
            await arrived.wait()
    assert await other.paths() == ["a"]
    async with starting() as drive:
        await drive.poll()
        await drive.sync()
        assert await other.paths() == ["a"]
        assert await drive.names() == ["a.url"]
        assert await drive.read("a.url") == WINDOWS


async def test_crash_during_change_keeps_link(starting: Starting, other: Remote) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    async with starting() as drive:
        await drive.poll()
        opened = await drive.fs.open(await drive.ino("a.url"), os.O_RDWR)
        await drive.fs.write(opened.fh, len(b"[InternetShortcut]\nURL=https://"), b"new")
    # It was never closed.
    async with starting() as drive:
        await drive.sync()
        assert (await link(other, "a")).id == made.id
        assert (await drive.read("a.url")).startswith(b"[InternetShortcut]\nURL=https://")


async def test_update_during_edit_is_not_base(drive: Drive, other: Remote) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    opened = await drive.fs.open(await drive.ino("a.url"), os.O_RDWR)
    await drive.fs.write(opened.fh, len(b"[InternetShortcut]\nURL=https://"), b"new")
    await other.client.web_links.update(made.id, url="https://theirs.example/")
    await drive.poll()
    await drive.fs.release(opened.fh)
    await drive.sync()
    found = await other.urls()
    assert found.pop("a") == "https://theirs.example/"
    assert list(found.values()) == ["https://new.example/"]
