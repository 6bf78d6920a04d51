"""Pins, cache, versions, trash and search on the page."""

import re

import pytest

from tests.daemon.ui.conftest import Reader, Visit
from tests.support.daemon_drive import Drive, Remote


async def test_an_item_is_pinned_and_freed(visit: Visit, drive: Drive, other: Remote) -> None:
    folder = await other.folder("a & b")
    await other.file("film", b"z" * 200_000, folder)
    await drive.names()
    assert await drive.read("a & b/film") == b"z" * 200_000
    reader = await visit("item", "/a & b/film")
    text = await reader.get("item", path="/a & b/film")
    assert "200.0 kB, 200.0 kB on this computer" in text
    assert "Keep on this computer" in text
    storage = await reader.get("storage")
    assert re.search("a &amp; b/</a></td><td class=.number.>200.0 kB", storage)
    assert "Nothing is pinned." in storage
    assert "is kept on this computer" in await reader.post("pin", path="/a & b")
    assert "with /a &amp; b" in await reader.get("item", path="/a & b/film")
    assert '/a &amp; b</a></td><td class="number">1 file</td>' in await reader.get("storage")
    told = await reader.post("free", path="/a & b/film", back="storage?path=%2F")
    assert "is pinned by" in told
    assert "On this computer" in told
    await reader.post("unpin", path="/a & b")
    assert "0.2 MB of 1 files are free again" in await reader.post("free", path="/a & b", page="storage")
    assert "Nothing of it is on this computer" in await reader.get("storage")
    for page in ("item", "storage"):
        assert "There is no /nothing on the drive" in await reader.get(page, path="/nothing")


async def test_a_version_is_looked_at_and_restored(reader: Reader, drive: Drive, other: Remote) -> None:
    found = await other.file("notes.txt", b"first <i>\n")
    await other.write(found, b"second\n")
    await drive.names()
    text = await reader.get("item", path="/notes.txt")
    (one,) = re.findall(r"version\?path=%2Fnotes.txt&amp;id=(\d+)", text)
    assert "first &lt;i&gt;" in await reader.get("version", path="/notes.txt", id=one)
    assert "is the current one now" in await reader.post("promote", path="/notes.txt", id=one)
    assert await drive.read("notes.txt") == b"first <i>\n"
    assert await other.versions(found) == 3
    assert "has no such version" in await reader.post("promote", path="/notes.txt", id="1")


async def test_the_trash_gives_back(reader: Reader, drive: Drive, other: Remote) -> None:
    assert "The trash is empty." in await reader.get("trash")
    await drive.mkdir("d")
    await drive.write("d/f", b"x")
    await drive.write("g", b"y")
    await drive.sync()
    ids = {name: (await other.find(name)).id for name in "fg"}
    await drive.unlink("d/f")
    await drive.unlink("g")
    text = await reader.get("trash")
    assert "/d/f" in text
    assert "Ada Tester" in text
    assert "Restored: /d/f." in await reader.post("restore", kind="file", id=ids["f"])
    assert await drive.read("d/f") == b"x"
    assert "is not in the trash any more" in await reader.post("restore", kind="file", id=ids["f"])
    assert "g was deleted for good" in await reader.post("purge", kind="file", id=ids["g"])
    assert "The trash is empty." in await reader.get("trash")


@pytest.mark.long
async def test_what_was_in_a_folder_that_is_gone_comes_to_the_top(
    reader: Reader, drive: Drive, other: Remote
) -> None:
    await drive.mkdir("d")
    await drive.write("d/f", b"x")
    await drive.sync()
    found = (await other.find("f")).id
    await drive.unlink("d/f")
    await drive.sync()
    await drive.rmdir("d")
    await drive.sync()
    await reader.get("trash")
    assert "Restored: /f." in await reader.post("restore", kind="file", id=found)


@pytest.mark.long
async def test_matches_lead_to_their_items(reader: Reader, drive: Drive, other: Remote) -> None:
    folder = await other.folder("Legal")
    await other.file("contract <1>.txt", b"x", folder)
    await drive.names()
    assert 'type="search"' in await reader.get("search")
    text = await reader.get("search", q="contract")
    assert "item?path=%2FLegal%2Fcontract%20%3C1%3E.txt" in text
    assert "No matches." in await reader.get("search", q="nothing-of-this-name")
    assert 'role="alert"' in await reader.get("search", q="size:many")
