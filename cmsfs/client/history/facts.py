"""Fetches what the service knows of the past: new events since the last read, the trash, a file's versions.

Rule: an event reports an item's state after it, but its folder only if the event names a parent.
"""

import logging
from datetime import datetime

from cmsfs import errors
from cmsfs.client.content.items import AnyItem
from cmsfs.client.history.as_of import ItemState, Key, VersionState
from cmsfs.client.session import Client
from cmsfs.models import url_files
from cmsfs.models.content import events, items

log = logging.getLogger(__name__)


class EventStates:
    """The item states that events reported (`reported`, oldest first), and the time of the oldest event
    (`reach`)."""

    def __init__(self) -> None:
        self.reported: dict[Key, list[ItemState]] = {}
        self.reach: datetime | None = None
        self._position: events.Position = 0
        self._seen: set[str] = set()

    async def read(self, client: Client) -> None:
        """Read all events since the last call.  Raises the service's errors."""
        while True:
            page = await client.events.since(self._position, stream="all")
            for event in page.entries:
                if event.event_id not in self._seen:
                    self._seen.add(event.event_id)
                    self._record(event)
            if not page.entries or page.next_stream_position == self._position:
                return
            self._position = page.next_stream_position

    def _record(self, event: events.Event) -> None:
        if event.created_at is None:
            return
        if self.reach is None or event.created_at < self.reach:
            self.reach = event.created_at
        if (item := event.item()) is None or item.parent is None or not item.name:
            return
        is_trashed = event.event_type == events.TRASH
        state = state_of(item, at=event.created_at, cause=event.event_type, is_trashed=is_trashed)
        states = self.reported.setdefault(state.key, [])
        states.append(state)
        if len(states) > 1 and _when(states[-2]) > event.created_at:
            states.sort(key=_when)


def _when(state: ItemState) -> datetime:
    assert state.at is not None
    return state.at


async def trashed(client: Client) -> dict[Key, ItemState]:
    """Return the items that were trashed themselves (not with their folder).  Raises the service's errors."""
    found = [state_of(item, is_trashed=True) async for item in client.trash.items()]
    return {state.key: state for state in found}


async def versions_of(client: Client, now: ItemState, *, is_newer: bool) -> list[VersionState] | None:
    """Return the versions of a file, including trashed ones; also the current version, unless it is known to
    be newer than the moment (`is_newer`).  None: the service does not show them."""
    _, number = now.key
    try:
        found = await client.versions.past(number)
        if now.version is not None and not is_newer:
            found.append(await client.versions.get(number, now.version))
    except (errors.NotFound, errors.Forbidden) as error:
        log.info("the versions of %s are not available: %s", number, error)
        return None
    return [
        VersionState(one.id, made, one.sha1, int(one.size or 0), one.name, one.trashed_at is not None)
        for one in found
        if (made := one.created_at or one.modified_at) is not None and one.sha1 is not None
    ]


def state_of(
    item: AnyItem, *, at: datetime | None = None, cause: str | None = None, is_trashed: bool = False
) -> ItemState:
    """Convert an item of the service to its state."""
    file = item if isinstance(item, items.File) else None
    link = None
    if isinstance(item, items.WebLink) and item.url is not None:
        link = url_files.Shortcut(item.url, item.description or "")
    return ItemState(
        (item.type, item.id),
        item.name or "",
        item.parent.id if item.parent else None,
        at=at or (item.trashed_at if is_trashed else item.modified_at),
        created=item.created_at,
        cause=cause,
        version=file.file_version.id if file is not None and file.file_version else None,
        sha1=file.sha1 if file is not None else None,
        size=int(file.size or 0) if file is not None else 0,
        is_trashed=is_trashed,
        mtime=getattr(item, "content_modified_at", None) or item.modified_at or item.created_at,
        link=link,
        owner=item.owned_by.id if item.owned_by is not None else None,
    )
