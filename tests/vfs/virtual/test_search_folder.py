"""`.search`: names of matches, what is asked when, what is told, and what is no search."""

import errno
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from cmsfs import errors
from cmsfs.query import parser
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.vfs.tree.attributes import DirEntry
from cmsfs.vfs.virtual import search_folder, search_results
from cmsfs.vfs.virtual.router import HiddenFolder, Router
from cmsfs.vfs.virtual.search_folder import SearchFolder, query_of_name
from cmsfs.vfs.virtual.search_results import FRESH_SECONDS, LINK_SECONDS, MAX_MATCHES, Match, MatchNames
from tests.vfs.conftest import Drive

PAGE = 200


def match(path: str, number: int = 1, kind: NodeKind = NodeKind.FILE) -> Match:
    return Match(kind, str(number), path, mtime_ns=number)


@dataclass
class Library:
    """The service: matches in pages, whatever the search; and what was asked."""

    matches: list[Match] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    pages: int = 0
    fails: Exception | None = None

    async def begin(self, text: str) -> "Pages":
        parser.parse(text)
        self.asked.append(text)
        if self.fails:
            raise self.fails
        return Pages(self)


class Pages:
    def __init__(self, library: Library) -> None:
        self._library = library
        self._found = list(library.matches)
        self._at = 0
        self.total = len(self._found)

    @property
    def is_complete(self) -> bool:
        return self._at >= self.total

    @property
    def partial(self) -> str:
        return ""

    def is_gone(self, match: Match) -> bool:
        return match not in self._library.matches

    async def more(self) -> Sequence[Match]:
        await trio.lowlevel.checkpoint()
        self._library.pages += 1
        page = self._found[self._at : self._at + PAGE]
        self._at += PAGE
        return page


@dataclass
class Shelf:
    """The saved searches."""

    queries: dict[str, str] = field(default_factory=dict)
    fails: errors.UserError | None = None

    def all(self) -> Mapping[str, str]:
        if self.fails:
            raise self.fails
        return self.queries

    def remove(self, name: str) -> bool:
        return self.queries.pop(name, None) is not None


@pytest.fixture
def library() -> Library:
    return Library([match("Legal/Contracts/a.odt", 1), match("b.txt", 2)])


@pytest.fixture
def saved() -> Shelf:
    return Shelf()


@pytest.fixture
def shown(drive: Drive, library: Library, saved: Shelf) -> Router:
    hidden = [HiddenFolder(".search", SearchFolder(library, saved))]
    return Router(drive.fs, drive.blocks, drive.shelf, Hub(), hidden=hidden)


async def _read(shown: Router, ino: Ino) -> list[DirEntry]:
    fh = await shown.opendir(ino)
    found: list[DirEntry] = []
    try:
        while lines := await shown.readdir(fh, found[-1].cookie if found else 0):
            found += lines
            shown.counted([line.attributes.ino for line in lines])
    finally:
        shown.releasedir(fh)
    return found


async def _top(shown: Router) -> Ino:
    return (await shown.lookup(ROOT, ".search")).ino


async def _search(shown: Router, query: str) -> Ino:
    return (await shown.lookup(await _top(shown), query)).ino


async def _links(shown: Router, query: str) -> dict[str, str]:
    entries = await _read(shown, await _search(shown, query))
    return {line.name: os.fsdecode(await shown.readlink(line.attributes.ino)) for line in entries}


async def test_matches_are_links_into_the_tree(shown: Router):
    assert await _links(shown, "budget") == {
        "a.odt": "../../Legal/Contracts/a.odt",
        "b.txt": "../../b.txt",
    }


async def test_a_look_up_asks_nobody(shown: Router, library: Library, saved: Shelf):
    saved.queries["Mine"] = "budget"
    for half in ("b", "bu", "bud", "Mine"):
        await _search(shown, half)
    assert [line.name for line in await _read(shown, await _top(shown))] == ["Mine"]
    for ino in [await _search(shown, "Mine"), await _search(shown, "bud")]:
        assert search_folder.QUERY in await shown.listxattr(ino)
    assert library.asked == []


async def test_fresh_search_is_cached(
    shown: Router, library: Library, autojump_clock: trio.testing.MockClock
):
    for _ in range(3):
        ino = await _search(shown, "budget")
        for line in await _read(shown, ino):
            await shown.lookup(ino, line.name)
    assert library.asked == ["budget"]
    library.matches.append(match("c.txt", 3))
    await trio.sleep(FRESH_SECONDS)
    assert "c.txt" in await _links(shown, "budget")
    assert library.asked == ["budget"] * 2


async def test_shown_link_needs_no_request(
    shown: Router, library: Library, autojump_clock: trio.testing.MockClock
):
    ino = await _search(shown, "budget")
    await _read(shown, ino)
    await trio.sleep(LINK_SECONDS - 1)
    await shown.lookup(ino, "a.odt")
    assert library.asked == ["budget"]


async def test_many_who_ask_at_once_are_one_request(shown: Router, library: Library):
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(_links, shown, "budget")
    assert (library.asked, library.pages) == (["budget"], 1)


async def test_pages_come_as_somebody_reads(shown: Router, library: Library):
    library.matches = [match(f"{number}.txt", number) for number in range(3 * PAGE)]
    ino = await _search(shown, "budget")
    fh = await shown.opendir(ino)
    first = await shown.readdir(fh, 0)
    assert (library.pages, len(first)) == (1, PAGE)
    await shown.readdir(fh, first[-1].cookie)
    assert library.pages == 2
    shown.releasedir(fh)
    # A name is looked for behind what was read, too.
    await shown.lookup(ino, f"{3 * PAGE - 1}.txt")
    assert library.pages == 3


async def test_reader_keeps_its_result_list(
    shown: Router, library: Library, autojump_clock: trio.testing.MockClock
):
    library.matches = [match(f"{number}.txt", number) for number in range(2 * PAGE)]
    fh = await shown.opendir(await _search(shown, "budget"))
    lines = await shown.readdir(fh, 0)
    library.matches.reverse()
    await trio.sleep(FRESH_SECONDS)
    await _links(shown, "budget")
    lines += await shown.readdir(fh, lines[-1].cookie)
    shown.releasedir(fh)
    assert sorted(line.name for line in lines) == sorted(f"{number}.txt" for number in range(2 * PAGE))


async def test_what_is_cut_says_so_where_people_look(shown: Router, library: Library):
    library.matches = [match(f"{number}.txt", number) for number in range(MAX_MATCHES + PAGE + 5)]
    ino = await _search(shown, "budget")
    lines = await _read(shown, ino)
    assert len(lines) == MAX_MATCHES + 1
    sign = lines[-1]
    assert sign.name == f"(first {MAX_MATCHES} of {MAX_MATCHES + PAGE + 5} matches)"
    opened = await shown.open(sign.attributes.ino, os.O_RDONLY)
    assert b"in:FOLDER" in await shown.read(opened.fh, 0, 1000)
    await shown.release(opened.fh)
    assert await shown.getxattr(ino, search_folder.TOTAL) == str(MAX_MATCHES + PAGE + 5).encode()
    assert await shown.getxattr(ino, search_folder.SHOWN) == str(MAX_MATCHES).encode()


async def test_full_result_list_is_not_truncated(shown: Router, library: Library):
    library.matches = [match(f"{number}.txt", number) for number in range(MAX_MATCHES)]
    assert len(await _read(shown, await _search(shown, "budget"))) == MAX_MATCHES


async def test_the_count_is_told_on_request(shown: Router, library: Library):
    ino = await _search(shown, "budget")
    assert await shown.listxattr(ino) == [search_folder.QUERY]
    assert await shown.getxattr(ino, search_folder.TOTAL) == b"2"
    assert await shown.listxattr(ino) == [search_folder.QUERY, search_folder.TOTAL, search_folder.SHOWN]
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENODATA):
        await shown.getxattr(ino, "user.cms.id")


async def test_equal_names_are_told_apart_by_their_folders(shown: Router, library: Library):
    library.matches = [
        *(match("Legal/report.odt", 1), match("Sales/report.odt", 2), match("Old/Sales/report.odt", 3)),
        *(match("report.odt", 4), match("report.odt.d", 5, NodeKind.FOLDER)),
    ]
    assert list(await _links(shown, "report")) == [
        *("report.odt", "report (Sales).odt", "report (3).odt", "report (top).odt", "report.odt.d"),
    ]


async def test_match_names_are_stable(
    shown: Router, library: Library, autojump_clock: trio.testing.MockClock
):
    legal, sales = match("Legal/report.odt", 1), match("Sales/report.odt", 2)
    library.matches = [legal, sales]
    before = await _links(shown, "report")
    for found in ([sales, legal], [sales]):
        library.matches = found
        await trio.sleep(FRESH_SECONDS)
        now = await _links(shown, "report")
        assert now.items() <= before.items()


@given(st.lists(st.tuples(st.sampled_from(["a.txt", "b.txt", "x" * 255]), st.integers(1, 9)), max_size=60))
def test_names_are_distinct_stable_and_possible(found: list[tuple[str, int]]):
    names = MatchNames()
    matches = {
        (name, folder): match(f"F/{folder % 3}/{name}", number) for number, (name, folder) in enumerate(found)
    }
    given_names = [names.of(one) for one in matches.values()]
    assert len(set(given_names)) == len(given_names)
    assert given_names == [names.of(one) for one in matches.values()]
    assert all(len(name.encode()) <= 255 for name in given_names)


@pytest.mark.parametrize(
    "name", [".git", ".hidden", ".directory", ".Trash-1000", "desktop.ini", "Thumbs.db", "CVS", "HEAD"]
)
async def test_what_programs_look_up_unasked_is_no_search(shown: Router, library: Library, name: str):
    with pytest.raises(FileNotFoundError):
        await _search(shown, name)
    ino = await _search(shown, "budget")
    with pytest.raises(FileNotFoundError):
        await shown.lookup(ino, name)
    assert library.asked == []
    library.matches.append(match(f"Code/{name}", 9))
    assert name in await _links(shown, "budget")
    await shown.lookup(ino, name)


async def test_a_slash_is_written_otherwise(shown: Router, library: Library):
    await _links(shown, r"in:Legal\Contracts a%5Cb")
    assert library.asked == [r"in:Legal/Contracts a\b"]
    assert query_of_name("100%25 and %2F") == "100%25 and %2F"


async def test_nonsense_is_told_where_it_is_typed(shown: Router, library: Library, caplog, expect_log):
    expect_log(r"the search 'size:big' failed: size: takes sizes")
    for _ in range(3):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EINVAL):
            await _search(shown, "size:big")
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1
    assert library.asked == []


async def test_refused_query_is_einval_with_a_log_line(shown: Router, library: Library, caplog, expect_log):
    library.fails = errors.BadRequest(400, "invalid_parameter", "query has more than 256 words")
    expect_log(r"the search 'a b c' failed: query has more than 256 words")
    ino = await _search(shown, "a b c")
    for _ in range(2):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EINVAL):
            await shown.opendir(ino)
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1


@pytest.mark.parametrize(
    ("raised", "number"),
    [
        (errors.Offline("no"), errno.ENETDOWN),
        (OSError(errno.ENETDOWN, "no"), errno.ENETDOWN),
        (errors.RateLimited(429), errno.ETIMEDOUT),
    ],
)
async def test_what_fails_on_the_way_has_a_number(
    shown: Router, library: Library, raised: Exception, number: int
):
    library.fails = raised
    with pytest.raises(OSError, check=lambda error: error.errno == number):
        await shown.opendir(await _search(shown, "budget"))
    library.fails = None
    assert await _links(shown, "budget")


async def test_saved_search_name(shown: Router, library: Library, saved: Shelf):
    saved.queries["Budget of this year"] = "budget modified:2026"
    await _links(shown, "Budget of this year")
    assert library.asked == ["budget modified:2026"]
    await shown.rmdir(await _top(shown), "Budget of this year")
    assert saved.queries == {}
    with pytest.raises(PermissionError):
        await shown.rmdir(await _top(shown), "budget")


async def test_unreadable_saved_searches_do_not_block_search(shown: Router, saved: Shelf, caplog, expect_log):
    saved.fails = errors.ConfigError("The saved searches cannot be read: line 3.")
    expect_log("The saved searches cannot be read: line 3")
    for _ in range(2):
        assert await _read(shown, await _top(shown)) == []
        assert await _links(shown, "budget")
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1


async def test_search_folder_is_read_only(shown: Router, drive: Drive):
    ino = await _search(shown, "budget")
    await _read(shown, ino)
    for call in (
        shown.unlink(ino, "a.odt"),
        shown.mkdir(ino, "new", 0o755),
        shown.create(ino, "new", 0o644, os.O_WRONLY),
        shown.rename(ino, "a.odt", ROOT, "a.odt", 0),
        shown.rename(ino, "a.odt", ino, "b", 0),
    ):
        with pytest.raises(PermissionError):
            await call


async def test_the_oldest_searches_are_forgotten(shown: Router, library: Library):
    for number in range(search_results.REMEMBERED + 1):
        await _links(shown, f"q{number}")
    before = len(library.asked)
    await _links(shown, f"q{search_results.REMEMBERED}")
    assert len(library.asked) == before
    await _links(shown, "q0")
    assert len(library.asked) == before + 1
