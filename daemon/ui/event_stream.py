"""Server-sent events: a stream of states in one response, until the browser disconnects."""

import json
from collections.abc import Callable
from typing import Any

import trio
from starlette import responses, types

from daemon.ui import rendering
from daemon.ui.live import Live

# Sending something is the only way to detect that a browser has disconnected.
HEARTBEAT_SECONDS = 15.0


class EventStream(responses.Response):
    """Sends the state of the drive, now and whenever it changes; `sent` is called each time."""

    def __init__(self, live: Live, sent: Callable[[], None]) -> None:
        super().__init__(headers=rendering.HEADERS, media_type="text/event-stream")
        del self.headers["content-length"]
        self._live = live
        self._sent = sent

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with trio.open_nursery() as nursery:

            async def gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(gone)
            async with self._live.viewing():
                await self._tell(send)

    async def _tell(self, send: types.Send) -> None:
        before: dict[str, Any] | None = None
        while True:
            now = self._live.now
            data = b":\n\n" if now == before else f"data: {json.dumps(now)}\n\n".encode()
            before = now
            self._sent()
            await send({"type": "http.response.body", "body": data, "more_body": True})
            with trio.move_on_after(HEARTBEAT_SECONDS):
                await self._live.changed.wait()
