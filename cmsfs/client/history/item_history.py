"""The history of single items from events and versions: who did what, and when.

Events are read once, then incrementally; the latest ones of each item are kept.
"""

from collections import OrderedDict, deque
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.client.history import change_notes
from cmsfs.client.session import Client
from cmsfs.models.content import events, versions

# Limits: notes kept for each item, and items with notes.
MAX_NOTES = 50
MAX_ITEMS = 20_000

# Duplicates of an event are at most this many events apart.
_DEDUPLICATION_WINDOW = 10_000

Note = tuple[datetime, str, str]


class ItemHistory:
    """Keeps the notes of past events; `of` reads new events first."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._notes: OrderedDict[tuple[str, str], deque[Note]] = OrderedDict()
        self._reach: datetime | None = None
        self._position: events.Position = 0
        self._seen: deque[str] = deque(maxlen=_DEDUPLICATION_WINDOW)
        self._lock = trio.Lock()

    async def of(self, kind: str, item_id: str) -> list[Note]:
        """Return time, user and action of each change, newest last.  Raises the service's errors.

        Cancelled: what was read is kept, and the next call continues from there.
        """
        async with self._lock:
            await self._read()
        found = list(self._notes.get((kind, item_id), ()))
        if kind == "file":
            found = [*await self._uploads(item_id), *found]
        return sorted(found)[-MAX_NOTES:]

    async def _read(self) -> None:
        while True:
            page = await self._client.events.since(self._position, stream="all")
            seen = set(self._seen)
            for event in page.entries:
                if event.event_id not in seen:
                    self._seen.append(event.event_id)
                    self._record(event)
            if not page.entries or page.next_stream_position == self._position:
                return
            self._position = page.next_stream_position

    def _record(self, event: events.Event) -> None:
        at, item = event.created_at, event.item()
        if at is None:
            return
        if self._reach is None or at < self._reach:
            self._reach = at
        if item is None:
            return
        notes = self._notes.setdefault((item.type, item.id), deque(maxlen=MAX_NOTES))
        notes.append((at, change_notes.author_of(event), change_notes.action_of(event)))
        self._notes.move_to_end((item.type, item.id))
        if len(self._notes) > MAX_ITEMS:
            self._notes.popitem(last=False)

    async def _uploads(self, file_id: str) -> list[Note]:
        """Return the uploads from before the oldest event, taken from the file's versions."""
        try:
            found = await self._client.versions.past(file_id)
        except (errors.NotFound, errors.Forbidden, errors.NotSupported):
            return []
        return [
            (one.created_at, _uploader(one), change_notes.DONE[events.UPLOAD])
            for one in found
            if one.created_at is not None and (self._reach is None or one.created_at < self._reach)
        ]


def _uploader(version: versions.FileVersion) -> str:
    by = version.modified_by
    return version.uploader_display_name or (by.name if by is not None and by.name else "")
