"""Reads and changes the account's favorites.

Listings do not show which items are favorites, and no event reports a change: the whole collection is read on
demand, at most every few minutes, and stored for the next start.

Rule: what is shown passively (an emblem) never waits for the service; an explicit request may, for a while.
"""

import errno
import json
import logging

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.replica import kv_store
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT, Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core.health import Health
from daemon.core.supervisor import Starts

log = logging.getLogger(__name__)

FRESH_SECONDS = 300.0
# Cache time if the service has no favorites.
REFUSED_SECONDS = 3600.0
WAIT_SECONDS = 5.0

# Key of `cursor`: the favorites as last read, `kind/id` each.
KNOWN = "favorites"

_KINDS = (NodeKind.FILE, NodeKind.FOLDER, NodeKind.LINK)


class Favorites:
    """Implements `FavoritesPort` of the vfs."""

    def __init__(self, db: Database, client: Client, health: Health, hub: Hub, nursery: Starts) -> None:
        self._db = db
        self._client = client
        self._health = health
        self._hub = hub
        self._nursery = nursery
        text = kv_store.get(db, KNOWN)
        self._known: frozenset[str] | None = None if text is None else frozenset(json.loads(text))
        self._current_until = 0.0
        self._asking: trio.Event | None = None
        self._changes = 0

    def doubt(self) -> None:
        """Read the favorites again before they are shown next."""
        self._current_until = 0.0

    def is_one(self, node: Node) -> bool:
        """Whether an item is known to be a favorite; refreshes old data in the background."""
        self._begin()
        return self._known is not None and _key(node) in self._known

    async def find(self, node: Node) -> bool | None:
        """See `ports.FavoritesPort.find`."""
        if node.kind not in _KINDS:
            return None
        if (asking := self._begin()) is not None:
            with trio.move_on_after(WAIT_SECONDS):
                await asking.wait()
        return None if self._known is None else _key(node) in self._known

    async def set(self, node: Node, *, is_one: bool) -> None:
        """See `ports.FavoritesPort.set`."""
        if node.local or node.kind not in _KINDS or node.ino == ROOT:
            raise errno_map.oserror(errno.ENOTSUP, node.name)
        if node.remote_id is None:
            raise errno_map.oserror(errno.EBUSY, f"{node.name}: not uploaded yet")
        self._health.check()
        try:
            with trio.fail_after(WAIT_SECONDS), self._health.request("favorites"):
                await self._client.favorites.set(node.kind.value, node.remote_id, is_one=is_one)
        except trio.TooSlowError:
            raise errno_map.oserror(errno.ETIMEDOUT, node.name) from None
        except (errors.NotFound, errors.NotSupported, errors.BadRequest) as error:
            raise errno_map.oserror(errno.ENOTSUP, f"{node.name}: {error}") from error
        except errors.RemoteError as error:
            raise errno_map.to_oserror(error) from error
        self._changes += 1
        known = self._known or frozenset()
        await self._keep(known | {_key(node)} if is_one else known - {_key(node)})
        self._hub.publish([Change(ChangeKind.ATTRIBUTES, node.ino)])

    def _begin(self) -> trio.Event | None:
        """Start reading if the known favorites are old; None if they are not, or the service is
        unreachable."""
        if self._asking is None and clock.monotonic() >= self._current_until and self._health.can_ask:
            self._asking = trio.Event()
            self._nursery.start_soon(self._ask, self._asking, name="favorites")
        return self._asking

    async def _ask(self, done: trio.Event) -> None:
        try:
            changes = self._changes
            with self._health.request("favorites"):
                entries = await self._client.favorites.list()
                found = frozenset([f"{item.type}/{item.id}" async for item in entries])
            if changes == self._changes:  # else the answer is older than a local change
                self._current_until = clock.monotonic() + FRESH_SECONDS
                await self._keep(found)
        except (errors.Forbidden, errors.NotFound, errors.NotSupported):
            self._current_until = clock.monotonic() + REFUSED_SECONDS
        except errors.RemoteError as error:
            log.info("the favorites could not be read: %s", error)
        finally:
            self._asking = None
            done.set()

    async def _keep(self, found: frozenset[str]) -> None:
        if found != self._known:
            self._known = found
            text = json.dumps(sorted(found))
            await self._db.write(lambda conn: kv_store.put(conn, KNOWN, text))


def _key(node: Node) -> str:
    return f"{node.kind.value}/{node.remote_id}"
