"""Gathers what the service knows of a folder's past: what is in it, the trash, the events, the versions.

Rule: a version is asked for where nothing else says what a file said; a request for each such file.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import trio

from cmsfs import errors
from cmsfs.client.history import as_of
from cmsfs.client.history.as_of import Facts, ItemState, ItemThen, Key
from cmsfs.client.history.facts import HeardEvents, state_of, trashed, versions_of
from cmsfs.client.history.restore_plan import RestorePlan, make_plan
from cmsfs.client.session import Client

# Requests side by side: what a service answers to one account without complaint.
AT_ONCE = 8

T = TypeVar("T")


class PastOfFolder:
    """What was and what is below one folder; `load` asks for everything, and again for what is then."""

    def __init__(self, client: Client, folder: str, moment: datetime) -> None:
        self._client = client
        self._limit = trio.CapacityLimiter(AT_ONCE)
        self.folder = folder
        self.moment = moment
        self.facts = Facts()
        self._heard = HeardEvents()
        self.present: dict[Key, ItemState] = {}
        self.then: dict[Key, ItemThen] = {}
        self.elsewhere: dict[Key, ItemThen] = {}

    async def load(self) -> None:
        """Raises what the service answers."""
        await self._heard.read(self._client)
        facts = self.facts = Facts(
            told=self._heard.told, reach=self._heard.reach, versions=self.facts.versions
        )
        await self._list(self.folder)
        self.present = dict(facts.now)
        facts.now |= await trashed(self._client)
        # What was in it, and is now somewhere else on the service.
        then = as_of.tree_then(facts, self.folder, self.moment)
        await self._each(self._look, [key for key, one in then.items() if one.now is None])
        wanted = as_of.files_without_content(facts, self.moment, {**then, **self.present})
        await self._each(self._past, wanted)
        self.then = as_of.tree_then(facts, self.folder, self.moment)
        strangers = self.present.keys() - self.then.keys()
        others = {key: as_of.item_then(facts, key, self.moment) for key in strangers}
        self.elsewhere = {key: one for key, one in others.items() if one is not None}

    def plan(self) -> RestorePlan:
        """What brings the folder back to what it was."""
        return make_plan(self.then, self.present, self.elsewhere)

    async def _each(self, work: Callable[[T], Awaitable[None]], these: Iterable[T]) -> None:
        async def one(what: T) -> None:
            async with self._limit:
                await work(what)

        async with trio.open_nursery() as nursery:
            for what in these:
                nursery.start_soon(one, what)

    async def _list(self, folder: str) -> None:
        """All that is below a folder, several folders side by side."""
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

    async def _look(self, key: Key) -> None:
        try:
            item = await self._client.items.get(*key)
        except errors.NotFound:
            return
        self.facts.now[key] = state_of(item)

    async def _past(self, key: Key) -> None:
        """The versions of a file, in the trash, too; and the current one, as far as the service tells."""
        now = self.facts.now[key]
        if now.is_trashed:
            # Nobody is told the past of what is in the trash: it is what it was there.
            return
        is_newer = as_of.is_newer(self.facts, key, self.moment)
        if (found := await versions_of(self._client, now, is_newer=is_newer)) is not None:
            self.facts.versions[key[1]] = found


class PastOfItems(PastOfFolder):
    """What was and what is of some items alone, wherever they are."""

    def __init__(self, client: Client, keys: Iterable[Key], moment: datetime) -> None:
        super().__init__(client, "", moment)
        self._keys = list(keys)

    async def load(self) -> None:
        """Raises what the service answers."""
        await self._heard.read(self._client)
        facts = self.facts = Facts(
            told=self._heard.told, reach=self._heard.reach, versions=self.facts.versions
        )
        keys = self._keys
        if as_of.is_covered(facts, self.moment):
            # What nobody has changed since is what it was.
            keys = [
                key for key in keys if any(_is_after(one, self.moment) for one in facts.told.get(key, []))
            ]
        found = await trashed(self._client)
        facts.now |= {key: found[key] for key in keys if key in found}
        await self._each(self._look, [key for key in keys if key not in facts.now])
        await self._each(self._past, as_of.files_without_content(facts, self.moment, keys))
        then = {key: as_of.item_then(facts, key, self.moment) for key in keys}
        self.then = {key: one for key, one in then.items() if one is not None}
        self.present = {key: one for key, one in facts.now.items() if not one.is_trashed}


def _is_after(state: ItemState, moment: datetime) -> bool:
    return state.at is not None and state.at > moment


async def folder_then(client: Client, parent: str, name: str, moment: datetime) -> ItemThen | None:
    """The folder that was called so in another at the moment, wherever it is now; None if it is nowhere.
    Raises what the service answers."""
    heard = HeardEvents()
    await heard.read(client)
    facts = Facts(now=await trashed(client), told=heard.told, reach=heard.reach)
    for key in dict.fromkeys([*facts.told, *facts.now]):
        then = as_of.item_then(facts, key, moment) if key[0] == "folder" else None
        if then is None or (then.state.parent, then.state.name) != (parent, name):
            continue
        if then.now is not None:
            return then
        try:
            return replace(then, now=state_of(await client.items.get(*key)), unsure=frozenset())
        except errors.NotFound:
            continue  # deleted for good, or with the folder that it was in
    return None
