"""The account as it was at one moment, folder by folder as each is looked into.

`gathering` asks for all of a folder at once, to plan; this asks for what somebody looks at.  A folder is what
is listed in it now, less what was elsewhere, with what events and the trash tell that was in it.

Rule: a folder that may have held more than is known says so (`is_complete`).
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.client.history import as_of
from cmsfs.client.history.as_of import Facts, ItemState, ItemThen, Key
from cmsfs.client.history.facts import HeardEvents, state_of, versions_of
from cmsfs.client.session import Client

# Requests side by side: what a service answers to one account without complaint.
AT_ONCE = 8

# Sorting out what was where goes over all that is known; others have their turn after so many items.
_IN_A_ROW = 500


@dataclass(frozen=True, slots=True)
class FolderThen:
    """What was in a folder, and whether that is all."""

    items: Sequence[ItemThen]
    is_complete: bool


class PastTree:
    """What was at a moment; what is known once stays known, as the past does not change."""

    def __init__(
        self, client: Client, moment: datetime, heard: HeardEvents, trash: Mapping[Key, ItemState]
    ) -> None:
        self.moment = moment
        self._client = client
        self._facts = Facts(now=dict(trash), told=heard.told, reach=heard.reach)
        self._trash = trash
        # What events and the trash tell of, by the folder that it was in.
        self._told_in: dict[str | None, list[Key]] | None = None
        self._folders: dict[str, FolderThen] = {}
        self._turn = trio.Lock()

    @property
    def reach(self) -> datetime | None:
        """From when on every change is known."""
        return self._facts.reach

    def known(self, folder: str) -> FolderThen | None:
        """What was in a folder, if it was asked for before."""
        return self._folders.get(folder)

    def remembers(self, key: Key) -> bool:
        """Whether `item` needs nothing of the service."""
        return key in self._facts.now

    async def item(self, key: Key) -> ItemThen | None:
        """An item as it was; None if it was not there.  Raises what the service answers."""
        async with self._turn:
            if key not in self._facts.now:
                await self._look(key)
            return as_of.item_then(self._facts, key, self.moment)

    async def folder(self, number: str) -> FolderThen:
        """What was in a folder.  Raises what the service answers."""
        async with self._turn:
            if (known := self._folders.get(number)) is None:
                known = self._folders[number] = await self._gather(number)
            return known

    async def _gather(self, number: str) -> FolderThen:
        if self._told_in is None:
            self._told_in = await self._sorted()
        facts, told = self._facts, self._told_in.get(number, [])
        listed = await self._list(number)
        await self._each(self._look, [key for key in told if key not in facts.now])
        keys = list(dict.fromkeys([*told, *(listed or [])]))
        asked = as_of.files_without_content(facts, self.moment, keys)
        # Nobody is told the past of what is in the trash.
        await self._each(self._ask_versions, [key for key in asked if not facts.now[key].is_trashed])
        found = [as_of.item_then(facts, key, self.moment) for key in keys]
        inside = [one for one in found if one is not None and one.state.parent == number]
        return FolderThen(inside, self._is_complete(number, is_listed=listed is not None))

    async def _sorted(self) -> dict[str | None, list[Key]]:
        found: dict[str | None, list[Key]] = {}
        for place, key in enumerate(list(dict.fromkeys([*self._facts.told, *self._facts.now]))):
            if place % _IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()
            if (then := as_of.item_then(self._facts, key, self.moment)) is not None:
                found.setdefault(then.state.parent, []).append(key)
        return found

    async def _list(self, number: str) -> list[Key] | None:
        """What is in a folder now; None: the service lists it for nobody."""
        if self._went_with(("folder", number)) is not None:
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
        """Nothing can have left a folder without an event that is known, and what stayed was listed, or came
        with one, too."""
        if not as_of.is_covered(self._facts, self.moment):
            return False
        if is_listed:
            return True
        key, reach = ("folder", number), self._facts.reach
        states = [*self._facts.told.get(key, []), *([self._facts.now[key]] if key in self._facts.now else [])]
        made = next((one.created for one in states if one.created is not None), None)
        return made is not None and reach is not None and made >= reach

    async def _look(self, key: Key) -> None:
        if (above := self._went_with(key)) is not None:
            # The service tells nobody of it until the folder comes back.
            if key not in self._facts.now and (told := self._facts.told.get(key)):
                self._facts.now[key] = replace(told[-1], at=above.at, is_trashed=True)
            return
        try:
            self._facts.now[key] = state_of(await self._client.items.get(*key))
        except errors.NotFound:
            return

    def _went_with(self, key: Key) -> ItemState | None:
        """The item of the trash that an item is, or went there with, by what was last told of its place."""
        seen: set[Key] = set()
        while key not in seen:
            seen.add(key)
            if (found := self._trash.get(key)) is not None:
                return found
            if not (told := self._facts.told.get(key)) or told[-1].parent is None:
                return None
            key = ("folder", told[-1].parent)
        return None

    async def _ask_versions(self, key: Key) -> None:
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
