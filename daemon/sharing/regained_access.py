"""Retries operations that waited for permissions or quota when these have come back.

A role that is changed is told by an event, where there are events; that an owner has made room is told by
nothing, and neither is without events that something is shared again.  So what is held in what others share
is asked about from time to time: an upload by asking whether it would be taken, which sends no bytes; what
others no longer share by asking for it.

Rule: so many questions a round and no more; who has had a turn waits until the others have had theirs.
"""

import logging
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.journal import queue
from cmsfs.journal.ops import Op, OpKind
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.replica.sharing import lost_access, shares
from cmsfs.runtime import clock
from cmsfs.wakeup import Signal
from daemon.listing import deletion_check
from daemon.pull.new_folders import NewFolders
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher

log = logging.getLogger(__name__)

SECONDS = 300.0

# After an event that tells of rights: others may follow at once.
GATHER_SECONDS = 0.5

AT_ONCE = 20


class RegainedAccess:
    """The agent that retries them."""

    def __init__(self, context: PushContext, push: Dispatcher, new_folders: NewFolders) -> None:
        self._push_context = context
        self._push = push
        self._new_folders = new_folders
        self._changed = Signal()
        self._after = 0  # the last operation that had a turn

    def rights_changed(self) -> None:
        """Rights have changed somewhere: do not wait for the next round."""
        self._changed.set()

    async def run(self) -> None:
        """Ask for ever.  Cancelled: the next round begins anew."""
        while True:
            with trio.move_on_after(SECONDS):
                await self._changed.wait()
                await trio.sleep(GATHER_SECONDS)
            self._changed.clear()
            await self._push_context.health.reachable()
            try:
                await self.once()
            except errors.RemoteError as error:
                log.info("changes waiting for access could not be checked: %s", error)

    async def once(self) -> int:
        """One round; how many operations go on.  Raises `RemoteError`."""
        await self._look_for_lost()
        found = await self._push_context.db.query(lambda conn: _held(conn, self._after))
        self._after = found[-1][0].seq if len(found) == AT_ONCE else 0
        going = [op for op, node in found if await self._would_go(op, node)]
        if going:

            def txn(conn: Connection) -> None:
                for op in going:
                    queue.release(conn, op, now_ns=clock.time_ns())

            await self._push_context.db.write(txn)
            self._push.wake()
            log.info("retrying %d rejected changes", len(going))
        return len(going)

    async def _look_for_lost(self) -> None:
        context = self._push_context
        for node in await context.db.query(lambda conn: lost_access.highest_lost(conn, AT_ONCE)):
            assert node.remote_id is not None
            item = await deletion_check.fetch_item(context.client, context.health, node.kind, node.remote_id)
            if item is None:
                continue
            new = [node.remote_id] if node.is_folder else []
            await context.remote_updates.apply([item])
            self._new_folders.list_soon(new)
            self._push.wake()

    async def _would_go(self, op: Op, node: Node) -> bool:
        """Whether the service would take it now, as far as that can be asked without sending it."""
        if op.kind is not OpKind.UPLOAD or node.kind is not NodeKind.FILE:
            return True  # the change itself is as small as a question
        context = self._push_context
        try:
            with context.health.request("lookup"):
                if node.remote_id is not None:
                    await context.client.uploads.preflight_version(node.remote_id, size=node.size)
                else:
                    parent = await context.db.query(lambda conn: _folder(conn, node))
                    if parent is None:
                        return False
                    name = naming.remote_name(node)
                    await context.client.uploads.preflight(name, parent, size=node.size)
        except errors.Conflict:
            return True  # whose name it is, the upload itself decides
        except (errors.RateLimited, errors.ServerError, errors.Unauthorized):
            raise
        except errors.ApiError:
            return False
        return True


def _folder(conn: Connection, node: Node) -> str | None:
    return tree.at_service(conn, node.parent).remote_id if node.parent is not None else None


def _held(conn: Connection, after: int) -> list[tuple[Op, Node]]:
    """Held operations of what others share, in the order of the journal."""
    found: list[tuple[Op, Node]] = []
    for op in queue.held_behind(conn, after):
        node = tree.find_at(conn, op.ino)
        if node is None or op.error == lost_access.REASON:
            continue
        if shares.top(conn, node.ino) is not None:
            found.append((op, node))
        if len(found) == AT_ONCE:
            break
    return found
