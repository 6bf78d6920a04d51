"""The account as it was at one moment, loaded folder by folder on demand.

`gathering` fetches a whole folder tree at once, to plan a restore; this module fetches only the folders that
are opened.  A past folder is its current listing, minus items that were elsewhere, plus items that events and
the trash place in it.

Rule: a folder that may have held more than is known has `is_complete` False.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.client.history import as_of
from cmsfs.client.history.as_of import Facts, HistoricalItem, ItemState, Key
from cmsfs.client.history.facts import EventStates, state_of, versions_of
from cmsfs.client.session import Client

# Parallel requests: as many as a service answers for one account without rate-limiting it.
AT_ONCE = 8

# Grouping the items by past folder goes over everything known; yield to other tasks after this many items.
_ITEMS_PER_CHECKPOINT = 500


@dataclass(frozen=True, slots=True)
class HistoricalFolder:
    """The past contents of a folder, and whether they are complete."""

    items: Sequence[HistoricalItem]
    is_complete: bool


class PastTree:
    """The tree at a moment; results are cached without expiry, since the past does not change."""

    def __init__(
        self, client: Client, moment: datetime, history: EventStates, trash: Mapping[Key, ItemState]
    ) -> None:
        self.moment = moment
        self._client = client
        self._facts = Facts(now=dict(trash), reported=history.reported, reach=history.reach)
        self._trash = trash
        # The items known from events and the trash, by the folder that they were in.
        self._known_by_folder: dict[str | None, list[Key]] | None = None
        self._folders: dict[str, HistoricalFolder] = {}
        self._lock = trio.Lock()

    @property
    def reach(self) -> datetime | None:
        """The time since when every change is known."""
        return self._facts.reach

    def cached_folder(self, folder: str) -> HistoricalFolder | None:
        """Return the past contents of a folder if they were loaded before."""
        return self._folders.get(folder)

    def is_cached(self, key: Key) -> bool:
        """Whether `item` needs no request to the service."""
        return key in self._facts.now

    async def item(self, key: Key) -> HistoricalItem | None:
        """Return an item as it was; None if it did not exist.  Raises the service's errors."""
        async with self._lock:
            if key not in self._facts.now:
                await self._fetch_item(key)
            return as_of.item_at(self._facts, key, self.moment)

    async def folder(self, number: str) -> HistoricalFolder:
        """Return the past contents of a folder.  Raises the service's errors."""
        async with self._lock:
            if (cached := self._folders.get(number)) is None:
                cached = self._folders[number] = await self._load_folder(number)
            return cached

    async def _load_folder(self, number: str) -> HistoricalFolder:
        if self._known_by_folder is None:
            self._known_by_folder = await self._group_by_folder()
        facts, known = self._facts, self._known_by_folder.get(number, [])
        listed = await self._list(number)
        await self._each(self._fetch_item, [key for key in known if key not in facts.now])
        keys = list(dict.fromkeys([*known, *(listed or [])]))
        wanted = as_of.files_without_content(facts, self.moment, keys)
        # The service does not show the versions of trashed files.
        await self._each(self._fetch_versions, [key for key in wanted if not facts.now[key].is_trashed])
        found = [as_of.item_at(facts, key, self.moment) for key in keys]
        inside = [one for one in found if one is not None and one.state.parent == number]
        return HistoricalFolder(inside, self._is_complete(number, is_listed=listed is not None))

    async def _group_by_folder(self) -> dict[str | None, list[Key]]:
        found: dict[str | None, list[Key]] = {}
        for index, key in enumerate(list(dict.fromkeys([*self._facts.reported, *self._facts.now]))):
            if index % _ITEMS_PER_CHECKPOINT == 0:
                await trio.lowlevel.checkpoint()
            if (then := as_of.item_at(self._facts, key, self.moment)) is not None:
                found.setdefault(then.state.parent, []).append(key)
        return found

    async def _list(self, number: str) -> list[Key] | None:
        """List a folder's current contents; None if the service does not list it (trashed or gone)."""
        if self._trashed_root_of(("folder", number)) is not None:
            return None
        found = []
        try:
            async for item in self._client.folders.items(number):
                state = state_of(item)
                self._facts.now[state.key] = state
                found.append(state.key)
        except errors.NotFound:
            return None
        return found

    def _is_complete(self, number: str, *, is_listed: bool) -> bool:
        """Whether every item that was in the folder is known: what left it has an event, and what stayed was
        listed or arrived with an event."""
        if not as_of.is_covered(self._facts, self.moment):
            return False
        if is_listed:
            return True
        key, reach = ("folder", number), self._facts.reach
        states = [
            *self._facts.reported.get(key, []),
            *([self._facts.now[key]] if key in self._facts.now else []),
        ]
        made = next((one.created for one in states if one.created is not None), None)
        return made is not None and reach is not None and made >= reach

    async def _fetch_item(self, key: Key) -> None:
        if (above := self._trashed_root_of(key)) is not None:
            # The service does not show the item until its folder is restored.
            if key not in self._facts.now and (reported := self._facts.reported.get(key)):
                self._facts.now[key] = replace(reported[-1], at=above.at, is_trashed=True)
            return
        try:
            self._facts.now[key] = state_of(await self._client.items.get(*key))
        except errors.NotFound:
            return

    def _trashed_root_of(self, key: Key) -> ItemState | None:
        return as_of.trashed_root(self._facts.reported, self._trash, key)

    async def _fetch_versions(self, key: Key) -> None:
        is_newer = as_of.is_newer(self._facts, key, self.moment)
        if (found := await versions_of(self._client, self._facts.now[key], is_newer=is_newer)) is not None:
            self._facts.versions[key[1]] = found

    async def _each(self, work: Callable[[Key], Awaitable[None]], these: Iterable[Key]) -> None:
        limit = trio.CapacityLimiter(AT_ONCE)

        async def one(what: Key) -> None:
            async with limit:
                await work(what)

        async with trio.open_nursery() as nursery:
            for what in these:
                nursery.start_soon(one, what)
