"""What happened lately, and the traffic of a day."""

import re

import trio
import trio.testing

from cmsfs import config
from tests.daemon.ui.conftest import Reader, Visit
from tests.support.daemon_drive import Drive, Remote, Starting


def told(text: str) -> list[tuple[str, str, str]]:
    """What, where, and by whom, the newest first."""
    rows = re.findall(
        r'class="tag">(\w+)</span> <(?:a|span)[^>]*>(.*?)</(?:a|span)>\s*<small>(.*?)</small>', text
    )
    by = [re.search(r" by ([^,]*)", small) for _, _, small in rows]
    return [(what, path, found[1] if found else "") for (what, path, _), found in zip(rows, by, strict=True)]


async def test_what_others_and_we_do_is_told(reader: Reader, drive: Drive, other: Remote) -> None:
    await other.file("old (conflicted copy of there, 2026-01-02)", b"x")
    await drive.names()
    assert "Nothing yet." in await reader.get("activity")  # a first listing is no news
    await drive.mkdir("d")
    await drive.write("d/a <b>.txt", b"mine")
    await drive.sync()
    await other.file("theirs", b"x" * 3000)
    await drive.poll()
    found = (await other.find("theirs")).id
    await other.client.items.update("file", found, name="renamed")
    await drive.poll()
    await other.write(found, b"y" * 4000)
    await drive.poll()
    await drive.read("renamed")
    await came(drive, 4000)
    (changed, *_) = told(await reader.get("activity", what="changed"))
    assert changed == ("changed", "/renamed", "Ada Tester &lt;ada@example.com&gt;")
    await other.client.items.delete("file", found)
    await drive.poll()
    assert told(await reader.get("activity")) == [
        ("deleted", "/renamed", "others"),
        ("downloaded", "/renamed", ""),
        ("changed", "/renamed", "others"),
        ("renamed", "/renamed", "others"),
        ("created", "/theirs", "others"),
        ("uploaded", "/d/a &lt;b&gt;.txt", ""),
        ("created", "/d", ""),
    ]
    assert told(await reader.get("activity", what="uploaded")) == [("uploaded", "/d/a &lt;b&gt;.txt", "")]


async def test_a_conflict_is_told(reader: Reader, drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    await other.write((await other.find("f")).id, b"theirs")
    await drive.write("f", b"ours")
    await drive.sync()
    ((_, path, _),) = told(await reader.get("activity", what="conflict"))
    assert "conflicted copy of" in path


async def test_it_is_kept_over_a_restart_within_bounds(starting: Starting, other: Remote) -> None:
    async with starting() as drive, trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.history.run)
        for number in range(600):
            drive.agents.history.happenings.note("uploaded", f"/{number}")
        await trio.testing.wait_all_tasks_blocked()
        drive.agents.history.sample()
        await drive.agents.history.keep()
        await other.file("read", b"z" * 1000)
        await drive.names()
        await drive.read("read")
        await came(drive, 1000)
        nursery.cancel_scope.cancel()
    file = config.Paths("default").history
    assert file.stat().st_mode & 0o777 == 0o600
    async with starting() as drive, trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.history.run)
        with trio.fail_after(20):
            while not drive.agents.history.samples:
                await trio.lowlevel.checkpoint()
        recent = drive.agents.history.happenings.recent
        assert (len(recent), recent[0].path, recent[-2].path) == (500, "/101", "/599")
        assert (recent[-1].what, recent[-1].path, recent[-1].size) == ("downloaded", "/read", 1000)
        nursery.cancel_scope.cancel()


async def test_a_damaged_history_begins_anew(drive: Drive) -> None:
    for text in ("", "{", "[]", '{"happenings": [1], "samples": []}'):
        config.Paths("default").history.write_text(text)
        await drive.agents.history.load()
        assert not drive.agents.history.happenings.recent, text


async def came(drive: Drive, nbytes: int) -> None:
    """Wait until a download is told of: whoever reads has the bytes a moment before."""
    with trio.fail_after(20):
        while drive.agents.history.happenings.bytes_down < nbytes:
            await trio.lowlevel.checkpoint()


async def test_traffic_is_plotted_against_the_limit(visit: Visit, drive: Drive, other: Remote) -> None:
    await other.file("f", b"x" * 50_000)
    await drive.names()
    await drive.read("f")
    await came(drive, 50_000)
    drive.agents.history.sample()
    (sample,) = drive.agents.history.samples
    assert (sample.up, sample.down, sample.waiting) == (0, 50_000, 0)
    assert sample.requests > 0
    text = await (await visit("activity")).get("activity")
    assert "50.0 kB in all" in text
    assert text.count("<rect") == 2
