"""Search results as links: paged, cached for a while, with unique names.

The folders of `.search` (`search_folder`) use this; `FinderPort` is the port to the service.

Rule: a match keeps its name while its search is cached, whatever else is found meanwhile.
"""

import errno
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import trio

from cmsfs import errors
from cmsfs.replica import naming
from cmsfs.replica.nodes import NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import VirtualFile, VirtualLink, VirtualNode

log = logging.getLogger(__name__)

# When a search is opened again, it is repeated after this time, or if a shown item was removed locally.
FRESH_SECONDS = 10.0

# A link can be used for this long without repeating the search: programs may list first and read much later,
# and the target of a link comes from the tree.
LINK_SECONDS = 300.0

# Maximum number of matches, ten requests; a notice tells that there are more.
MAX_MATCHES = 2000

# Number of cached searches; one of 2,000 matches takes about two megabytes.
REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class Match:
    """A found item; `path` is its path from the drive's root, without a leading slash."""

    kind: NodeKind
    id: str
    path: str
    mtime_ns: int
    size: int | None = None  # bytes, of a file


class SearchPort(Protocol):
    """A search in progress at the service."""

    @property
    def total(self) -> int:
        """The number of matches, as reported by the service."""

    @property
    def is_complete(self) -> bool:
        """Whether all available matches were received."""

    @property
    def partial(self) -> str:
        """The limits of a search that was not done by the service; otherwise empty."""

    def is_gone(self, match: Match) -> bool:
        """Whether the item is known to be no longer where it was found."""

    async def more(self) -> Sequence[Match]:
        """Return the matches of the next page that are on the drive, possibly none.

        Raises `OSError`, `CmsfsError`.
        """


class FinderPort(Protocol):
    """Searches the service."""

    async def begin(self, text: str) -> SearchPort:
        """Start a search; sends no request except to resolve names in the query.

        Raises `UserError` for an invalid query, `FileNotFoundError` for an unknown folder or person, and as
        `SearchPort.more`.
        """


class TruncationNotice(VirtualFile):
    """An entry whose name tells that not all matches are shown."""

    def __init__(self, query: str, shown: int, total: int) -> None:
        super().__init__(("search cut", query), mtime_ns=0)
        self.name = f"(first {shown} of {total} matches)"
        said = (
            f"{total} items match this search; {shown} are shown.\n"
            "Other words, or filters such as in:FOLDER and type:file, find fewer.\n"
        )
        self._text = said.encode()
        self.size = len(self._text)

    async def open(self) -> bytes:
        return self._text


class MatchNames:
    """The names of one search's matches; `is_taken`: names used for other entries."""

    def __init__(self, is_taken: Callable[[str], bool] = lambda _: False) -> None:
        self._is_taken = is_taken
        self._given: dict[tuple[NodeKind, str], tuple[str, str]] = {}  # its path then, and its name
        self._taken: set[str] = set()

    def of(self, match: Match) -> str:
        """Return its own name if it is free; else with its folder's name in parentheses, else with its id."""
        key = (match.kind, match.id)
        if (known := self._given.get(key)) is not None:
            if known[0] == match.path:
                return known[1]
            self._taken.discard(known[1])
        folder, _, name = match.path.rpartition("/")
        above = folder.rpartition("/")[2] or "top"
        tags = (above, match.id, f"{match.kind.value} {match.id}")
        candidates = [name, *(naming.distinct(name, tag) for tag in tags)]
        chosen = next((one for one in candidates if self._is_free(one)), candidates[-1])
        self._taken.add(chosen)
        self._given[key] = (match.path, chosen)
        return chosen

    def _is_free(self, name: str) -> bool:
        return name not in self._taken and not self._is_taken(name)


class ResultList:
    """The results of a search at one time, which grow as they are read."""

    def __init__(self, query: str, search: SearchPort, names: MatchNames) -> None:
        self._query = query
        self._search = search
        self._names = names
        self._lock = trio.Lock()
        self._seen: set[tuple[NodeKind, str]] = set()
        self._here: list[Match] = []
        self.began = trio.current_time()
        self.began_ns = clock.time_ns()
        self.entries: list[tuple[str, VirtualNode]] = []
        self.by_name: dict[str, VirtualNode] = {}
        self.shown = 0
        self.is_whole = False

    @property
    def total(self) -> int:
        """The number of matches, including those that are not on the drive."""
        return max(self._search.total, self.shown)

    @property
    def partial(self) -> str:
        """The same as `SearchPort.partial`."""
        return self._search.partial

    @property
    def age(self) -> float:
        """Seconds since the search was started."""
        return trio.current_time() - self.began

    @property
    def is_stale(self) -> bool:
        """Whether it is too old, or contains items that were removed locally since."""
        return self.age >= FRESH_SECONDS or any(map(self._search.is_gone, self._here))

    async def reach(self, count: int) -> None:
        """Read until there are this many entries, or all.  Cancelled: received entries are kept."""
        while len(self.entries) < count and not self.is_whole:
            async with self._lock:
                if len(self.entries) < count and not self.is_whole:
                    await self._next()

    async def find(self, name: str) -> VirtualNode | None:
        """Return the entry with this name, reading as far as necessary."""
        while name not in self.by_name and not self.is_whole:
            await self.reach(len(self.entries) + 1)
        return self.by_name.get(name)

    async def _next(self) -> None:
        found = await self._search.more()
        # atomic: no await while the entries grow
        for match in found:
            if (match.kind, match.id) not in self._seen and self.shown < MAX_MATCHES:
                self._seen.add((match.kind, match.id))
                if not self._search.is_gone(match):
                    self._here.append(match)
                self._add(self._names.of(match), self._link(match))
                self.shown += 1
        if self._search.is_complete or self.shown >= MAX_MATCHES:
            self.is_whole = True
            if self.total > self.shown and self.shown >= MAX_MATCHES:
                told = TruncationNotice(self._query, self.shown, self.total)
                self._add(told.name, told)

    def _add(self, name: str, node: VirtualNode) -> None:
        self.entries.append((name, node))
        self.by_name[name] = node

    def _link(self, match: Match) -> VirtualLink:
        # From .search/QUERY/ up to the root, and down again.
        key = ("match", self._query, match.kind, match.id)
        return VirtualLink(key, os.fsencode(f"../../{match.path}"), mtime_ns=match.mtime_ns)


class _Known:
    def __init__(self) -> None:
        self.names = MatchNames()
        self.lock = trio.Lock()
        self.results: ResultList | None = None


class SearchCache:
    """A cache of the last searches, with their results and names."""

    def __init__(self, finder: FinderPort) -> None:
        self._finder = finder
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._complained: OrderedDict[tuple[str, str], None] = OrderedDict()

    def last(self, query: str) -> ResultList | None:
        """Return the last results of a query, whether fresh or not."""
        known = self._known.get(query)
        return known.results if known is not None else None

    async def results(self, query: str) -> ResultList:
        """Return the results, after a new search if they are stale; the first page is complete.

        Raises `OSError`, `CmsfsError`.
        """
        known = self._known.setdefault(query, _Known())
        self._known.move_to_end(query)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        async with known.lock:
            if known.results is None or known.results.is_stale:
                with self.explaining(query):
                    results = ResultList(query, await self._finder.begin(query), known.names)
                    await results.reach(1)
                known.results = results
            return known.results

    @contextmanager
    def explaining(self, query: str) -> Iterator[None]:
        """Translate errors of a search to `OSError`, each with one log line.

        The same error of a query is logged only once.
        """
        try:
            yield
        except (errors.UserError, errors.BadRequest) as error:
            self._complain(query, error.message)
            raise errno_map.oserror(errno.EINVAL, query) from error
        except FileNotFoundError as error:
            self._complain(query, f"There is no {error.filename}.")
            raise

    def _complain(self, query: str, reason: str) -> None:
        if (query, reason) in self._complained:
            return
        self._complained[query, reason] = None
        while len(self._complained) > REMEMBERED:
            self._complained.popitem(last=False)
        log.warning("the search %r failed: %s", query, reason)
