"""Retries rejected operations when the missing permission or quota may be available again.

Only services with events announce a changed role or a new share, and none announces that an owner has freed
quota.  So rejected operations on shared items are checked periodically: an upload by a preflight request,
which sends no bytes; an item that is no longer shared by requesting it.

Rule: the number of requests per round is limited, and operations take turns.
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

# Delay after an event about permissions: others may follow.
GATHER_SECONDS = 0.5

AT_ONCE = 20


class RegainedAccess:
    """The agent that retries these operations."""

    def __init__(self, context: PushContext, push: Dispatcher, new_folders: NewFolders) -> None:
        self._push_context = context
        self._push = push
        self._new_folders = new_folders
        self._changed = Signal()
        self._after = 0  # the last operation that was checked

    def rights_changed(self) -> None:
        """Start the next round now, since permissions have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run rounds forever.  Cancelled: the next run starts a new round."""
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
        """Run one round; return the number of operations to retry.  Raises `RemoteError`."""
        await self._recheck_lost_items()
        found = await self._push_context.db.query(lambda conn: _rejected_ops(conn, self._after))
        self._after = found[-1][0].seq if len(found) == AT_ONCE else 0
        retryable = [op for op, node in found if await self._would_succeed(op, node)]
        if retryable:

            def txn(conn: Connection) -> None:
                for op in retryable:
                    queue.release(conn, op, now_ns=clock.time_ns())

            await self._push_context.db.write(txn)
            self._push.wake()
            log.info("retrying %d rejected changes", len(retryable))
        return len(retryable)

    async def _recheck_lost_items(self) -> None:
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

    async def _would_succeed(self, op: Op, node: Node) -> bool:
        """Whether the service would accept it now, as far as a preflight can tell."""
        if op.kind is not OpKind.UPLOAD or node.kind is not NodeKind.FILE:
            return True  # the request itself is as cheap as a check
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
            return True  # the upload itself resolves name conflicts
        except (errors.RateLimited, errors.ServerError, errors.Unauthorized):
            raise
        except errors.ApiError:
            return False
        return True


def _folder(conn: Connection, node: Node) -> str | None:
    return tree.at_service(conn, node.parent).remote_id if node.parent is not None else None


def _rejected_ops(conn: Connection, after: int) -> list[tuple[Op, Node]]:
    """Return rejected operations on items that others share, in journal order."""
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
