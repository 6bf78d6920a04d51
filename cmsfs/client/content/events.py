"""The events endpoint: events since a stream position, and long polling for more.

The stream is read with `since` until a page is empty; `wait` then returns when there is something to read.

Rule: positions are kept as they came; only the service knows what they mean.
"""

from collections.abc import Sequence
from datetime import datetime

from cmsfs import errors
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import base
from cmsfs.models.content import events

# Bounds for the long-poll timeout that the service announces, in seconds.
SHORTEST_WAIT, LONGEST_WAIT = 10.0, 610.0

PAGE = 500  # the maximum of events per page


class EventsApi:
    """/events, and the long-poll server that it names."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/events"
        self._server: events.RealtimeServer | None = None

    async def position(self) -> events.Position:
        """Return the current end of the stream."""
        return (await self.since("now", limit=1)).next_stream_position

    async def since(
        self, position: events.Position, *, stream: str = "changes", limit: int = PAGE
    ) -> events.EventPage:
        """Return the events after a position, oldest first; some may be duplicates."""
        params = {"stream_type": stream, "stream_position": str(position), "limit": str(limit)}
        return await self._wire.ask(events.EventPage, "GET", self._url, repeat=Repeat.READ, params=params)

    async def of_enterprise(
        self,
        position: events.Position = 0,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
        words: Sequence[str] = (),
    ) -> events.EventPage:
        """Return the enterprise's events, for administrators: in a time range, and of the types `words`.

        Raises `Forbidden` for other users, or if the application may not manage the enterprise's properties.
        """
        params = {
            "stream_type": "admin_logs",
            "stream_position": str(position),
            "limit": str(PAGE),
            "created_after": "" if after is None else base.format_timestamp(after),
            "created_before": "" if before is None else base.format_timestamp(before),
            "event_type": ",".join(words),
        }
        given = {name: value for name, value in params.items() if value}
        return await self._wire.ask(events.EventPage, "GET", self._url, repeat=Repeat.READ, params=given)

    async def wait(self, position: events.Position) -> bool:
        """Long-poll for events after a position; whether there are any.  False: the poll timed out, so repeat
        it.

        A service that distinguishes sessions does not report this client's own changes, which it knows from
        their responses (`wire.applying_answers`).

        Raises as any request does.  Cancelled: nothing is left behind.
        """
        server = self._server or await self._find_server()
        self._server = None
        try:
            notice = await self._wire.ask(
                events.RealtimeNotice,
                "GET",
                server.url,
                repeat=Repeat.CHANGE,  # the caller decides about retries
                params={"stream_position": str(position)},
                headers=self._wire.session,
                silence=min(max(SHORTEST_WAIT, server.retry_timeout), LONGEST_WAIT),
            )
        except errors.RemoteTimeout:
            return False
        if notice.message == events.NEW_CHANGE:
            self._server = server
            return True
        return False

    async def _find_server(self) -> events.RealtimeServer:
        found = await self._wire.ask(events.RealtimeServers, "OPTIONS", self._url, repeat=Repeat.READ)
        if not found.entries:
            raise errors.ProtocolError("the service names no server for long polls")
        return found.entries[0]
