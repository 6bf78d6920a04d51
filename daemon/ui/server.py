"""Serves the web page on loopback, only while it is in use.

`cmsfs ui` requests a URL over the control socket; the first request opens a port, which the kernel chooses,
and it is closed some time after the last viewer has left.  Clients must run as this user (`peers`), and have
a key or a cookie (`door`).

Rule: nothing is imported and nothing listens before the first request.
"""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import trio

from cmsfs import errors
from cmsfs.runtime import threads
from daemon.core.supervisor import Starts
from daemon.ui import peers
from daemon.ui.history import History

if TYPE_CHECKING:
    from daemon.control.commands import Answers
    from daemon.ui.door import PageDoor
    from daemon.ui.live import Live
    from daemon.ui.site import Site

log = logging.getLogger(__name__)

# Time without requests after which the port is closed; users then run `cmsfs ui` again.
UNSEEN_SECONDS = 600.0

# Maximum number of connections; a browser opens six, and one more for each page with live data.
MOST_CONNECTIONS = 64

KEEP_ALIVE_SECONDS = 30.0

# Interval for checking whether there are still viewers.
LOOK_SECONDS = 30.0

# The sections that can be opened, with their pages.
SECTIONS = {
    "": "",
    "overview": "",
    "activity": "activity",
    "attention": "attention",
    "conflicts": "attention",
    "conflict": "conflict",
    "item": "item",
    "sharing": "sharing",
    "storage": "storage",
    "pins": "storage",
    "cache": "storage",
    "trash": "trash",
    "search": "search",
    "settings": "settings",
    "accounts": "accounts",
    "doctor": "accounts",
}


class PageServer:
    """The web server of one drive."""

    def __init__(
        self, drive: "Answers", nursery: Starts, history: History, *, table: Path = peers.TABLE
    ) -> None:
        self._history = history
        self._drive = drive
        self._nursery = nursery
        self._table = table
        self._opening = trio.Lock()
        self._door: PageDoor | None = None
        self.closed = trio.Event()  # no longer listening

    @property
    def is_open(self) -> bool:
        """Whether it is listening."""
        return self._door is not None

    async def open(self, section: str, path: str) -> str:
        """Return a single-use URL of a section, optionally for the item at a path; it expires soon.

        Raises `UserError` if there is no such section, or no port can be opened.
        """
        if (page := SECTIONS.get(section)) is None:
            raise errors.UserError(
                f"The page has no section {section!r}; it has {', '.join(filter(None, SECTIONS))}."
            )
        to = f"/{page}" + (f"?path={quote(path, safe='')}" if path else "")
        async with self._opening:
            if self._door is None:
                self._door = await self._start()
            return self._door.new_key(to)

    async def _start(self) -> "PageDoor":
        # Imported on first use: most drives do not need these libraries.
        from daemon.ui.door import PageDoor
        from daemon.ui.live import Live
        from daemon.ui.site import Site

        try:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        except OSError as error:
            raise errors.UserError(f"The page cannot be served: {error.strerror}.") from error
        door, live = PageDoor(listener.socket.getsockname()[1]), Live(self._drive)
        self._nursery.start_soon(
            self._serve, listener, door, live, Site(self._drive, door, live, self._history)
        )
        self.closed = trio.Event()
        return door

    async def _serve(
        self, listener: trio.SocketListener, door: "PageDoor", live: "Live", site: "Site"
    ) -> None:
        from cmsfs.service.server.http1 import Http1Server

        server = Http1Server(site, scheme="http", keep_alive_seconds=KEEP_ALIVE_SECONDS)
        room = trio.CapacityLimiter(MOST_CONNECTIONS)

        async def handle(stream: trio.SocketStream) -> None:
            try:
                room.acquire_nowait()
            except trio.WouldBlock:
                await trio.aclose_forcefully(stream)
                return
            try:
                async with stream:
                    if await self._is_ours(stream):
                        await server.serve(stream)
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the browser has disconnected
            finally:
                room.release()

        log.info("the page is open")
        try:
            async with listener, trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, handle, [listener])
                site.nursery = nursery
                nursery.start_soon(live.run)
                await self._unseen(door, live, site)
                self._door = None  # later requests open a new one
                nursery.cancel_scope.cancel()
        finally:
            if self._door is door:
                self._door = None
            self.closed.set()
        log.info("the page is closed")

    async def _unseen(self, door: "PageDoor", live: "Live", site: "Site") -> None:
        """Return when there were no viewers for some time, and there is no valid key."""
        while True:
            is_seen = live.is_watched or door.is_expected
            if not is_seen and trio.current_time() > site.seen + UNSEEN_SECONDS:
                return
            await trio.sleep(LOOK_SECONDS)

    async def _is_ours(self, stream: trio.SocketStream) -> bool:
        client, server = stream.socket.getpeername(), stream.socket.getsockname()
        uid = await threads.run_sync(peers.owner, client, server, self._table)
        if uid != os.geteuid():
            log.warning("another user's program asked for the page and was turned away")
            return False
        return True
