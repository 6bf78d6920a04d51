"""Searches while there is no network: names, attributes and text of what is on this machine."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
import trio

from cmsfs.query import parser
from daemon.content import local_search
from daemon.content.local_search import LocalSearch
from daemon.content.search import RemoteSearch
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


@pytest.fixture
def find(drive: Drive) -> Callable[[str], Any]:
    """`await find(words)`: the paths that are found, sorted, and where alone it was looked."""
    agents = drive.agents
    local = LocalSearch(drive.db, agents.state.blocks, agents.state.drafts)
    finding = RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health, local)

    async def run(words: str) -> tuple[list[str], str]:
        search = await finding.begin(words)
        found: list[str] = []
        while not search.is_complete:
            found += [one.path for one in await search.more()]
        return sorted(found), search.partial

    return run


@pytest.fixture
async def offline(drive: Drive, other: Remote, network: Network) -> None:
    """A drive that knows a few files, has read one of them, and has no network."""
    legal = await other.folder("Legal")
    contracts = await other.folder("Contracts", legal)
    await other.file("lease.txt", b"the harbour is let", contracts)
    await other.file("sale.txt", b"the harbour is sold" + b" " * 5000, contracts)
    await other.file("lease.md", b"top")
    plan = await other.file("plan.pdf", b"x")
    await other.client.items.describe("file", plan, description="a lease, too")
    for folder in ("", "Legal", "Legal/Contracts"):
        await drive.names(folder)
    await drive.read("Legal/Contracts/lease.txt")
    network.is_down = True
    with pytest.raises(OSError):
        await drive.read("Legal/Contracts/sale.txt")
    with trio.fail_after(20):
        while not drive.agents.health.is_offline:
            await drive.agents.health.changed()


async def test_names_attributes_and_text_are_found(offline: None, find, drive: Drive) -> None:
    found, partial = await find("lease")
    assert found == ["Legal/Contracts/lease.txt", "lease.md", "plan.pdf"]
    assert "not asked" in partial
    # Only one of the two that say so is on this disk.
    assert (await find("harbour"))[0] == ["Legal/Contracts/lease.txt"]
    assert (await find("harbour content:name"))[0] == []
    await drive.write("the harbour.odt", b"made here")
    assert (await find('"the harbour"'))[0] == ["Legal/Contracts/lease.txt", "the harbour.odt"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("lease ext:md", ["lease.md"]),
        ("type:folder", ["Legal", "Legal/Contracts"]),
        ("in:Legal size:>1000", ["Legal/Contracts/sale.txt"]),
        ("in:Legal lease", ["Legal/Contracts/lease.txt"]),
        ("lease AND NOT harbour type:file", ["lease.md", "plan.pdf"]),
        ("NOT lease type:file", ["Legal/Contracts/sale.txt"]),
        ("owner:me lease in:Legal", ["Legal/Contracts/lease.txt"]),
        ("owner:nobody lease", []),
        ("modified:2001", []),
        ("created:2001..2099 in:Legal type:file", ["Legal/Contracts/lease.txt", "Legal/Contracts/sale.txt"]),
    ],
)
async def test_filters_hold_without_the_network(offline: None, find, words: str, wanted: list[str]) -> None:
    assert (await find(words))[0] == wanted


async def test_what_only_the_service_knows_is_refused(offline: None, find) -> None:
    for words in ("metadata:contract", "x content:comments"):
        with pytest.raises(OSError, match=r".") as refused:
            await find(words)
        assert refused.value.errno == errno.ENETDOWN
    with pytest.raises(FileNotFoundError):
        await find("in:Nowhere x")


async def test_service_is_asked_when_it_is_there(find, drive: Drive, other: Remote) -> None:
    await other.file("lease.md", b"top")
    assert await find("lease") == (["lease.md"], "")


async def test_most_are_shown_and_all_are_counted(
    offline: None, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_search, "MAX_MATCHES", 2)
    state = drive.agents.state
    searches = LocalSearch(drive.db, state.blocks, state.drafts)
    found = await searches.search(parser.parse("type:file"), [])
    assert (len(await found.more()), found.total) == (2, 4)


async def test_command_is_answered_without_the_network(offline: None, drive: Drive) -> None:
    found = await drive.agents.search("harbour content:text", limit=10)
    assert [(one.type, one.path, one.size) for one in found.entries] == [
        ("file", "/Legal/Contracts/lease.txt", len(b"the harbour is let"))
    ]
    assert (found.total, "not asked" in found.partial) == (1, True)


async def test_text_that_was_written_just_now_is_found(offline: None, find, drive: Drive) -> None:
    await drive.write("small.txt", b"the zebra is small")
    await drive.write("large.md", b"a line\n" * 20_000 + b"the zebra is large")
    await drive.write("Legal/Contracts/lease.txt", b"the zebra is leased")
    found, partial = await find("zebra")
    assert found == ["Legal/Contracts/lease.txt", "large.md", "small.txt"]
    assert "not asked" in partial
    # Changed in a part: the rest is not in what was written.
    await drive.fs.write((await drive.fs.open(await drive.ino("lease.md"), os.O_RDWR)).fh, 1, b"zebra")
    assert (await find("zebra"))[0] == found
    await drive.write("small.txt", b"gone")
    assert "small.txt" not in (await find("zebra"))[0]
