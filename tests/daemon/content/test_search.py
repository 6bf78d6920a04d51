"""The searches of `.search` at the service: what words name is looked up, matches are placed in the tree."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
import trio

from cmsfs import errors
from cmsfs.models.content import metadata
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from cmsfs.service.storage.store import Store
from cmsfs.vfs.virtual import search_results
from daemon.content.search import RemoteSearch
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


@pytest.fixture
async def user(service: Store, user: int) -> int:
    await errno_probe.may_administer(service)
    return user


@pytest.fixture
def find(drive: Drive) -> Callable[[str], Any]:
    """`await find(words)`: the paths that are found, sorted."""
    agents = drive.agents
    finding = RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health)

    async def run(words: str) -> list[str]:
        search = await finding.begin(words)
        found: list[str] = []
        while not search.is_complete:
            found += [one.path for one in await search.more()]
        return sorted(found)

    return run


@pytest.fixture
async def administrator(service: Store) -> None:
    """The applications of the test may make templates of metadata."""
    sql = "UPDATE app SET scopes = scopes || ' manage_enterprise_properties'"
    await service.write(lambda conn: conn.execute(sql))


@pytest.fixture
async def legal(other: Remote, administrator: None) -> str:
    """/Legal/Contracts with two files in it, and one beside."""
    legal = await other.folder("Legal")
    contracts = await other.folder("Contracts", legal)
    await other.file("lease.txt", b"the lease of the harbour", contracts)
    await other.file("sale.txt", b"x" * 5000, contracts)
    await other.file("lease.txt", b"another lease", legal)
    await other.file("lease.md", b"top")
    return legal


async def test_matches_are_placed_before_tree_is_listed(drive: Drive, legal: str, find):
    assert await find("lease") == ["Legal/Contracts/lease.txt", "Legal/lease.txt", "lease.md"]
    assert tree.children(drive.db, ROOT) == []


async def test_matches_prefer_the_local_tree(drive: Drive, legal: str, find):
    await drive.names("")
    await drive.names("Legal")
    await drive.rename("Legal/lease.txt", "Legal/renamed.txt")
    await drive.rename("Legal/Contracts", "Papers")
    await drive.unlink("lease.md")
    assert await find("lease") == ["Legal/renamed.txt", "Papers/lease.txt"]


async def test_unlisted_match_is_below_renamed_folder(drive: Drive, other: Remote, legal: str, find):
    await drive.names("")
    await drive.rename("Legal", "Law")
    await other.file("lease 2.txt", b"", legal)
    assert "Law/lease 2.txt" in await find("lease")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("lease in:Legal", ["Legal/Contracts/lease.txt", "Legal/lease.txt"]),
        ("lease in:/Legal/Contracts/", ["Legal/Contracts/lease.txt"]),
        ("lease ext:md", ["lease.md"]),
        ("type:file size:4K..6K", ["Legal/Contracts/sale.txt"]),
        ("type:folder", ["Legal", "Legal/Contracts"]),
        ("lease owner:me ext:md", ["lease.md"]),
        ("lease owner:ada@example.com ext:md", ["lease.md"]),
        ('lease owner:"Ada Tester" ext:md', ["lease.md"]),
        ("type:file modified:..2000", []),
        ("type:folder created:1h", ["Legal", "Legal/Contracts"]),
        ("type:folder created:..yesterday", []),
    ],
)
async def test_filters_filter(legal: str, find, words: str, found: list[str]):
    assert await find(words) == found


async def test_metadata_filters_by_the_template_s_types(other: Remote, legal: str, find):
    fields = [
        {"type": "float", "key": "sum", "displayName": "Sum"},
        {
            "type": "enum",
            "key": "status",
            "displayName": "Status",
            "options": [{"key": "signed"}, {"key": "open"}],
        },
    ]
    wish = {"scope": "enterprise", "displayName": "Deal", "templateKey": "deal", "fields": fields}
    await other.client.metadata.create_template(metadata.NewTemplate.model_validate(wish))
    for name, values in (("sale.txt", {"sum": 7, "status": "signed"}), ("lease.md", {"sum": 70})):
        item = await other.find(name)
        await other.client.metadata.put("file", item.id, "deal", values)
    assert await find("metadata:deal") == ["Legal/Contracts/sale.txt", "lease.md"]
    assert await find("metadata:deal.sum=5..10") == ["Legal/Contracts/sale.txt"]
    assert await find("metadata:enterprise.deal.sum>=10") == ["lease.md"]
    assert await find("metadata:deal.status=signed") == ["Legal/Contracts/sale.txt"]
    assert await find("metadata:\"deal where sum >= 10 OR status = 'signed'\"") == [
        *("Legal/Contracts/sale.txt", "lease.md")
    ]
    assert await find('metadata:"enterprise.deal WHERE sum > 5" in:Legal') == ["Legal/Contracts/sale.txt"]
    with pytest.raises(errors.BadRequest):
        await find('metadata:"deal where price = 3"')
    with pytest.raises(errors.UserError, match="deal has sum, status, not 'price'"):
        await find("metadata:deal.price=3")


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("in:Nowhere", "folder Nowhere"),
        ("owner:nobody@example.com", "user nobody@example.com"),
        ("metadata:nothing", "metadata template nothing"),
        ('metadata:"nothing where a = 1"', "metadata template nothing"),
    ],
)
async def test_what_is_named_and_not_there_is_said(legal: str, find, words: str, absent: str):
    with pytest.raises(FileNotFoundError) as seen:
        await find(words)
    assert seen.value.filename.startswith(absent)


async def test_a_file_is_no_folder_to_search_in(legal: str, find):
    with pytest.raises(errors.UserError, match="in: takes a folder"):
        await find("x in:lease.md")


async def test_what_is_in_the_trash_is_not_found(drive: Drive, other: Remote, legal: str, find):
    await other.client.items.delete("folder", legal, recursive=True)
    assert await find("lease") == ["lease.md"]


async def test_deleted_item_leaves_the_results(drive: Drive, legal: str, network: Network):
    agents = drive.agents
    memory = search_results.SearchCache(RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health))
    await drive.names("Legal/Contracts")

    async def listed() -> list[str]:
        results = await memory.results("lease")
        await results.reach(10)
        return sorted(results.by_name)

    assert len(await listed()) == 3
    asked = network.count("GET", "/search")
    assert len(await listed()) == 3
    assert network.count("GET", "/search") == asked
    await drive.unlink("lease.md")
    assert "lease.md" not in await listed()
    await drive.unlink("Legal/Contracts/lease.txt")
    await drive.sync()
    assert len(await listed()) == 1


async def test_found_web_links_have_their_local_names(drive: Drive, other: Remote, find):
    await other.client.web_links.create("https://example.com/", parent_id="0", name="Harbour")
    assert await find("harbour") == ["Harbour.url"]


async def test_pages_follow_until_all_is_here(drive: Drive, other: Remote, find, monkeypatch):
    monkeypatch.setattr("daemon.content.search.PAGE", 2)
    for number in range(5):
        await other.file(f"page {number}.txt")
    assert await find("page") == [f"page {number}.txt" for number in range(5)]


async def test_offline_search_is_a_network_error(drive: Drive, legal: str, network: Network, find):
    network.is_down = True
    with pytest.raises(errors.Offline):
        await find("lease")
    with trio.fail_after(5):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENETDOWN):
        await find("lease")


async def test_match_link_works_in_unlisted_folder(drive: Drive, other: Remote, legal: str):
    shown = drive.agents.shown
    top = await shown.lookup(ROOT, ".search")
    search = await shown.lookup(top.ino, "harbour")
    fh = await shown.opendir(search.ino)
    (line,) = await shown.readdir(fh, 0)
    shown.counted([line.attributes.ino])
    target = os.fsdecode(await shown.readlink(line.attributes.ino))
    assert target == "../../Legal/Contracts/lease.txt"
    assert await drive.read(target.removeprefix("../../")) == b"the lease of the harbour"
    shown.releasedir(fh)


async def test_a_search_is_one_request(drive: Drive, legal: str, network: Network, find):
    before = len(network.requests)
    await find("lease")
    assert [path.partition("?")[0] for _, path in network.requests[before:]] == ["/2.0/search"]
    await drive.names("")
    before = len(network.requests)
    # Who owns what is here need not be asked for.
    await find("lease owner:ADA@example.com")
    assert len(network.requests) == before + 1


async def test_command_gets_what_it_prints(drive: Drive, legal: str) -> None:
    found = await drive.agents.search("in:/Legal type:file size:>1000", limit=10)
    assert [(one.type, one.path, one.size) for one in found.entries] == [
        ("file", "/Legal/Contracts/sale.txt", 5000)
    ]
    assert (found.total, found.partial) == (1, "")
    found = await drive.agents.search("lease", limit=2)
    assert (len(found.entries), found.total) == (2, 3)
    assert (await drive.agents.search("type:folder", limit=1)).entries[0].size is None
    with pytest.raises(errors.UserError, match=r"There is no folder /Nowhere\."):
        await drive.agents.search("in:/Nowhere", limit=1)
