"""Gathers what the service knows of a folder's past: what is in it, the trash, the events, the versions.

Rule: a version is asked for where nothing else says what a file said; a request for each such file.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TypeVar

import trio

from cmsfs import errors
from cmsfs.client.content.items import AnyItem
from cmsfs.client.history import as_of
from cmsfs.client.history.as_of import Facts, ItemState, ItemThen, Key, VersionState
from cmsfs.client.session import Client
from cmsfs.models.content import events, items

log = logging.getLogger(__name__)

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
        self.present: dict[Key, ItemState] = {}
        self.then: dict[Key, ItemThen] = {}
        self.elsewhere: dict[Key, ItemThen] = {}

    async def load(self) -> None:
        """Raises what the service answers."""
        facts = self.facts = Facts(versions=self.facts.versions)
        await self._read_events()
        await self._list(self.folder)
        self.present = dict(facts.now)
        async for item in self._client.trash.items():
            state = _state(item, is_trashed=True)
            facts.now[state.key] = state
        # What was in it, and is now somewhere else on the service.
        then = as_of.tree_then(facts, self.folder, self.moment)
        await self._each(self._look, [key for key, one in then.items() if one.now is None])
        wanted = as_of.files_without_content(facts, self.moment)
        there = {key[1] for key in (*then, *self.present)}
        await self._each(self._past, [one for one in wanted if one in there])
        self.then = as_of.tree_then(facts, self.folder, self.moment)
        strangers = self.present.keys() - self.then.keys()
        others = {key: as_of.item_then(facts, key, self.moment) for key in strangers}
        self.elsewhere = {key: one for key, one in others.items() if one is not None}

    async def _each(self, work: Callable[[T], Awaitable[None]], these: Iterable[T]) -> None:
        async def one(what: T) -> None:
            async with self._limit:
                await work(what)

        async with trio.open_nursery() as nursery:
            for what in these:
                nursery.start_soon(one, what)

    async def _read_events(self) -> None:
        position: events.Position = 0
        seen: set[str] = set()
        while True:
            page = await self._client.events.since(position, stream="all")
            for event in page.entries:
                if event.event_id not in seen:
                    seen.add(event.event_id)
                    self._heard(event)
            if not page.entries or page.next_stream_position == position:
                break
            position = page.next_stream_position
        for states in self.facts.told.values():
            states.sort(key=lambda one: one.at or self.moment)

    def _heard(self, event: events.Event) -> None:
        facts = self.facts
        if event.created_at is not None and (facts.reach is None or event.created_at < facts.reach):
            facts.reach = event.created_at
        if event.created_at is None or (item := event.item()) is None:
            return
        is_trashed = event.event_type == events.TRASH
        state = _state(item, at=event.created_at, cause=event.event_type, is_trashed=is_trashed)
        # An event may name an item without saying where it is: nothing is learned of its place by that.
        if item.parent is not None and item.name:
            facts.told.setdefault(state.key, []).append(state)

    async def _list(self, folder: str) -> None:
        """All that is below a folder, several folders side by side."""
        level = [folder]
        while level:
            below: list[str] = []

            async def one(number: str, into: list[str] = below) -> None:
                async for item in self._client.folders.items(number):
                    state = _state(item)
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
        self.facts.now[key] = _state(item)

    async def _past(self, file_id: str) -> None:
        """The versions of a file, in the trash, too; and the current one, as far as the service tells."""
        now = self.facts.now[("file", file_id)]
        if now.is_trashed:
            # Nobody is told the past of what is in the trash: it is what it was there.
            return
        try:
            found = await self._client.versions.past(file_id)
            if now.version is not None:
                found.append(await self._client.versions.get(file_id, now.version))
        except (errors.NotFound, errors.Forbidden) as error:
            log.info("the versions of %s are not told: %s", file_id, error)
            return
        self.facts.versions[file_id] = [
            VersionState(one.id, made, one.sha1, int(one.size or 0), one.name, one.trashed_at is not None)
            for one in found
            if (made := one.created_at or one.modified_at) is not None and one.sha1 is not None
        ]


def _state(
    item: AnyItem, *, at: datetime | None = None, cause: str | None = None, is_trashed: bool = False
) -> ItemState:
    is_file = isinstance(item, items.File)
    version = item.file_version.id if isinstance(item, items.File) and item.file_version else None
    return ItemState(
        (item.type, item.id),
        item.name or "",
        item.parent.id if item.parent else None,
        at=at or (item.trashed_at if is_trashed else item.modified_at),
        created=item.created_at,
        cause=cause,
        version=version,
        sha1=item.sha1 if isinstance(item, items.File) else None,
        size=int(item.size or 0) if is_file and isinstance(item, items.File) else 0,
        is_trashed=is_trashed,
    )
