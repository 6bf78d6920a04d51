"""Gathers what the service knows of a folder's past: its listing, the trash, events and versions.

Rule: versions are fetched only for files whose past contents no other source knows; one request a file.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import trio

from cmsfs import errors
from cmsfs.client.history import as_of
from cmsfs.client.history.as_of import Facts, HistoricalItem, ItemState, Key
from cmsfs.client.history.facts import EventStates, state_of, trashed, versions_of
from cmsfs.client.history.restore_plan import RestorePlan, make_plan
from cmsfs.client.session import Client

# Parallel requests: as many as a service answers for one account without rate-limiting it.
AT_ONCE = 8

T = TypeVar("T")


class PastOfFolder:
    """The past and current contents of one folder; each `load` fetches the current state again."""

    def __init__(self, client: Client, folder: str, moment: datetime) -> None:
        self._client = client
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self.folder = folder
        self.moment = moment
        self.facts = Facts()
        self._event_states = EventStates()
        self.present: dict[Key, ItemState] = {}
        self.then: dict[Key, HistoricalItem] = {}
        self.elsewhere: dict[Key, HistoricalItem] = {}

    async def load(self) -> None:
        """Raises what the service answers."""
        await self._event_states.read(self._client)
        facts = self.facts = Facts(
            reported=self._event_states.reported, reach=self._event_states.reach, versions=self.facts.versions
        )
        await self._list(self.folder)
        self.present = dict(facts.now)
        facts.now |= await trashed(self._client)
        # Items that were in the folder and are now elsewhere at the service.
        then = as_of.tree_at(facts, self.folder, self.moment)
        await self._each(self._fetch_item, [key for key, one in then.items() if one.now is None])
        wanted = as_of.files_without_content(facts, self.moment, {**then, **self.present})
        await self._each(self._fetch_versions, wanted)
        self.then = as_of.tree_at(facts, self.folder, self.moment)
        added = self.present.keys() - self.then.keys()
        others = {key: as_of.item_at(facts, key, self.moment) for key in added}
        self.elsewhere = {key: one for key, one in others.items() if one is not None}

    def plan(self) -> RestorePlan:
        """Return the steps that restore the folder to its past state."""
        trash = {key: one for key, one in self.facts.now.items() if one.is_trashed}
        gone = [key for key, one in self.then.items() if one.now is None]
        inside = {key for key in gone if as_of.trashed_root(self.facts.reported, trash, key) is not None}
        return make_plan(self.then, self.present, self.elsewhere, inside)

    async def _each(self, work: Callable[[T], Awaitable[None]], these: Iterable[T]) -> None:
        async def one(what: T) -> None:
            async with self._limit:
                await work(what)

        async with trio.open_nursery() as nursery:
            for what in these:
                nursery.start_soon(one, what)

    async def _list(self, folder: str) -> None:
        """List everything below a folder, several folders in parallel."""
        level = [folder]
        while level:
            below: list[str] = []

            async def one(number: str, into: list[str] = below) -> None:
                async for item in self._client.folders.items(number):
                    state = state_of(item)
                    self.facts.now[state.key] = state
                    if state.key[0] == "folder":
                        into.append(item.id)

            await self._each(one, level)
            level = below

    async def _fetch_item(self, key: Key) -> None:
        try:
            item = await self._client.items.get(*key)
        except errors.NotFound:
            return
        self.facts.now[key] = state_of(item)

    async def _fetch_versions(self, key: Key) -> None:
        """Fetch a file's versions, including trashed ones and the current one, as far as the service shows
        them."""
        now = self.facts.now[key]
        if now.is_trashed:
            # The service does not show the versions of a trashed file; its contents do not change in the
            # trash.
            return
        is_newer = as_of.is_newer(self.facts, key, self.moment)
        if (found := await versions_of(self._client, now, is_newer=is_newer)) is not None:
            self.facts.versions[key[1]] = found


class PastOfItems(PastOfFolder):
    """The past and current state of single items, wherever they are."""

    def __init__(self, client: Client, keys: Iterable[Key], moment: datetime) -> None:
        super().__init__(client, "", moment)
        self._keys = list(keys)

    async def load(self) -> None:
        """Raises what the service answers."""
        await self._event_states.read(self._client)
        facts = self.facts = Facts(
            reported=self._event_states.reported, reach=self._event_states.reach, versions=self.facts.versions
        )
        keys = self._keys
        if as_of.is_covered(facts, self.moment):
            # Items without an event since the moment are unchanged.
            keys = [
                key for key in keys if any(_is_after(one, self.moment) for one in facts.reported.get(key, []))
            ]
        found = await trashed(self._client)
        facts.now |= {key: found[key] for key in keys if key in found}
        await self._each(self._fetch_item, [key for key in keys if key not in facts.now])
        await self._each(self._fetch_versions, as_of.files_without_content(facts, self.moment, keys))
        then = {key: as_of.item_at(facts, key, self.moment) for key in keys}
        self.then = {key: one for key, one in then.items() if one is not None}
        self.present = {key: one for key, one in facts.now.items() if not one.is_trashed}


def _is_after(state: ItemState, moment: datetime) -> bool:
    return state.at is not None and state.at > moment


async def find_past_folder(client: Client, parent: str, name: str, moment: datetime) -> HistoricalItem | None:
    """Find the folder that had this parent and name at the moment, wherever it is now; None if it is gone.
    Raises the service's errors."""
    history = EventStates()
    await history.read(client)
    facts = Facts(now=await trashed(client), reported=history.reported, reach=history.reach)
    for key in dict.fromkeys([*facts.reported, *facts.now]):
        then = as_of.item_at(facts, key, moment) if key[0] == "folder" else None
        if then is None or (then.state.parent, then.state.name) != (parent, name):
            continue
        if then.now is not None:
            return then
        try:
            return replace(then, now=state_of(await client.items.get(*key)), unsure=frozenset())
        except errors.NotFound:
            continue  # permanently deleted, or trashed together with its parent
    return None
