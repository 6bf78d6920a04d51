"""`.search`: each subfolder is a search, its matches are symbolic links into the tree.

    .search/                     lists the saved searches; any other name is a search too
    .search/budget type:file/    its matches, each a relative symbolic link such as `../../Legal/x.odt`

A lookup sends no request: requests are sent when a search is read.  A name cannot contain a slash, so a
backslash represents it, which no name at the service contains.

Rule: names that programs look up in every folder by themselves (`.git`, `.hidden`, `desktop.ini`) are not
searches, and never cause a request.
"""

import errno
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from cmsfs import errors
from cmsfs.config import saved_searches
from cmsfs.query import parser
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import VirtualFolder, VirtualNode
from cmsfs.vfs.virtual.search_results import LINK_SECONDS, FinderPort, ResultList, SearchCache

log = logging.getLogger(__name__)

QUERY = "user.cms.search.query"
TOTAL = "user.cms.search.total"
SHOWN = "user.cms.search.shown"
PARTIAL = "user.cms.search.partial"

# Number of entries returned at a time.
_PAGE = 256


class SavedSearchesPort(Protocol):
    """The saved searches (`config.saved_searches`)."""

    def all(self) -> Mapping[str, str]:
        """Return the queries by name.  Raises `UserError`."""

    def remove(self, name: str) -> bool:
        """Remove a saved search; return whether it existed.  Raises `UserError`."""


def query_of_name(name: str) -> str:
    r"""Return the query of a folder's name: `\` represents `/`, and `%5C` represents `\`."""
    return name.replace("\\", "/").replace("%5C", "\\").replace("%5c", "\\")


class SearchFolder(VirtualFolder):
    """The folder `.search`."""

    def __init__(self, finder: FinderPort, saved: SavedSearchesPort) -> None:
        # Constant: backup programs and file managers check whether a folder has changed.
        self._since_ns = clock.time_ns()
        super().__init__("searches", mtime_ns=self._since_ns)
        self._memory = SearchCache(finder)
        self._saved = saved
        self._complaint = ""

    async def child(self, name: str) -> VirtualNode:
        if not saved_searches.is_ordinary(name):
            raise errno_map.oserror(errno.ENOENT, name)
        return self._folder(name, self._queries().get(name))

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        found = sorted(self._queries().items())[position : position + _PAGE]
        return [(name, QueryFolder(self._memory, name, query, self._since_ns)) for name, query in found]

    async def remove(self, name: str, *, folder: bool) -> None:
        """Remove a saved search."""
        try:
            if folder and self._saved.remove(name):
                return
        except errors.UserError as error:
            log.warning("%s", error.message)
        raise errno_map.oserror(errno.EPERM, name)

    def _folder(self, name: str, query: str | None) -> "QueryFolder":
        if query is None:
            query = query_of_name(name)
            try:
                query.encode()
            except UnicodeEncodeError:
                raise errno_map.oserror(errno.EILSEQ, name) from None
            # Report invalid queries at once, to the command that uses the name (`cd`, `ls`).
            with self._memory.explaining(query):
                parser.parse(query)
        return QueryFolder(self._memory, name, query, self._since_ns)

    def _queries(self) -> Mapping[str, str]:
        try:
            found = self._saved.all()
        except errors.UserError as error:
            # Other searches still work.
            if error.message != self._complaint:
                log.warning("%s", error.message)
            self._complaint = error.message
            return {}
        self._complaint = ""
        return found


class QueryFolder(VirtualFolder):
    """One search.  `results`: the results for an open handle."""

    def __init__(
        self, memory: SearchCache, name: str, query: str, since_ns: int, results: ResultList | None = None
    ) -> None:
        last = results or memory.last(query)
        super().__init__(("search", name), mtime_ns=since_ns if last is None else last.began_ns)
        self._name = name
        self._memory = memory
        self._query = query
        self._since_ns = since_ns
        self._results = results

    async def opened(self) -> "QueryFolder":
        # A handle reads one result list to its end, even if others refresh the search meanwhile.
        results = await self._memory.results(self._query)
        return QueryFolder(self._memory, self._name, self._query, self._since_ns, results)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        results = self._results or await self._memory.results(self._query)
        with self._memory.explaining(self._query):
            await results.reach(position + 1)
        return results.entries[position : position + _PAGE]

    async def child(self, name: str) -> VirtualNode:
        last = self._memory.last(self._query)
        if last is not None and last.age < LINK_SECONDS and (node := last.by_name.get(name)) is not None:
            return node
        if not saved_searches.is_ordinary(name) and (last is None or not last.is_whole):
            raise errno_map.oserror(errno.ENOENT, name)
        results = await self._memory.results(self._query)
        with self._memory.explaining(self._query):
            node = await results.find(name)
        if node is None:
            raise errno_map.oserror(errno.ENOENT, name)
        return node

    async def xattrs(self) -> Mapping[str, bytes]:
        """Return what is known without a request, because `ls -l` reads all attributes."""
        found = {QUERY: self._query.encode()}
        if (last := self._memory.last(self._query)) is not None:
            found |= _counts(last)
        return found

    async def xattr(self, name: str) -> bytes | None:
        if name in (TOTAL, SHOWN, PARTIAL):
            return _counts(await self._memory.results(self._query)).get(name)
        return await super().xattr(name)


def _counts(results: ResultList) -> Mapping[str, bytes]:
    counts = {TOTAL: str(results.total).encode(), SHOWN: str(results.shown).encode()}
    return counts | {PARTIAL: results.partial.encode()} if results.partial else counts
