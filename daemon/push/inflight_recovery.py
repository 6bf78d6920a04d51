"""Finds out whether a create or upload without a response succeeded.

A repeated request to the same place finds the earlier one: the name is in use.  But if the item has been
renamed, moved, deleted or has taken over another's identity meanwhile, nothing would find it, and it would
appear as somebody else's item.  So before such a change is sent, the original place is checked.
"""

import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.transport import retry
from cmsfs.config.abilities import Ability
from cmsfs.journal import ops, queue
from cmsfs.models import url_files
from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import Ino, remote_from_item, shortcut_of
from cmsfs.replica.rows import in_flight
from cmsfs.replica.rows.in_flight import SentRequest
from cmsfs.runtime import clock
from daemon.core import item_search, root_check
from daemon.push import conflicts
from daemon.push.context import PushContext

log = logging.getLogger(__name__)

# Clock skew: a folder of ours may appear older than our request.
SKEW_SECONDS = 600


class Superseded(errors.CmsfsError):
    """The contents being sent are outdated."""


class HasItem(errors.CmsfsError):
    """A node that was to become a new item has become an existing one, or a file of this machine only."""


@asynccontextmanager
async def recorded(context: PushContext, sent: SentRequest) -> AsyncIterator[None]:
    """Record durably, before the first byte is sent, that the request may arrive, whatever happens inside.

    Raises `HasItem`: no operation might look for another item of the node.
    """
    noted = context.noted.pop(sent.ino, None)
    is_first = noted == sent
    if not is_first:
        added = await context.db.write(lambda conn: _note(conn, sent, instead_of=noted))
        if added is None:
            raise HasItem
        is_first = added
        await context.db.sync_log()
    try:
        yield
    except errors.CmsfsError as error:
        if is_first and _has_no_effect(error):
            await context.db.write(lambda conn: in_flight.not_sent(conn, sent))
        raise


def _note(conn: Connection, sent: SentRequest, *, instead_of: SentRequest | None) -> bool | None:
    """As `in_flight.note`; None if the node is not to be created any more."""
    if instead_of is not None:
        in_flight.not_sent(conn, instead_of)
    node = tree.find_at(conn, sent.ino)
    if sent.remote_id is None and (node is None or node.remote_id is not None or node.local):
        return None
    return in_flight.note(conn, sent)


def _has_no_effect(error: errors.CmsfsError) -> bool:
    """Whether a request that failed like this certainly had no effect."""
    if isinstance(error, errors.Offline):
        return retry.never_connected(error)
    return isinstance(error, Superseded) or (
        isinstance(error, errors.ApiError) and not isinstance(error, errors.ServerError)
    )


async def before_create(context: PushContext, task: queue.Task) -> None:
    """Before an item is created: resolve earlier requests with another name or folder that created it."""
    node = task.node
    here = (task.parent.remote_id if task.parent else None, naming.remote_name(node))
    for place, requests in _by_place(context, node.ino).items():
        if (node.remote_id is not None or place != here) and await _find_out(context, requests):
            return


async def before_delete(context: PushContext, ino: Ino) -> None:
    """Before a deletion: find out whether the item was created."""
    for requests in _by_place(context, ino).values():
        if await _find_out(context, requests):
            return


def _by_place(context: PushContext, ino: Ino) -> dict[tuple[str | None, str | None], list[SentRequest]]:
    """Return a node's requests for a new item by its folder (id) and name."""
    found: dict[tuple[str | None, str | None], list[SentRequest]] = {}
    for sent in in_flight.new_items(context.db, ino):
        found.setdefault((sent.folder, sent.name), []).append(sent)
    return found


async def _find_out(context: PushContext, requests: list[SentRequest]) -> bool:
    """Adopt the item that one of these requests, all for the same place, created; return whether one did."""
    first = requests[0]
    asked = functools.partial(holder_at, context, first.folder or "", first.name or "")
    theirs = await root_check.ask(context.db, context.client, context.health, asked)
    is_ours = (
        theirs is not None
        and conflicts.may_be_ours(context.db, first.ino, theirs)
        # Each version of a file that nothing was heard of was sent as a new file.
        and any([await _is_ours(context, sent, theirs) for sent in requests])
    )

    def txn(conn: Connection) -> None:
        if is_ours and theirs is not None:
            in_flight.resolve(conn, first.ino)
            apply_remote.adopt(conn, first.ino, remote_from_item(theirs))
            if tree.get(conn, first.ino).parent is not None:
                ops.record_move(conn, tree.get(conn, first.ino), due_ns=clock.time_ns())
        else:
            in_flight.resolve_place(conn, first.ino, first.folder, first.name or "")

    await context.db.write(txn)
    if is_ours and theirs is not None:
        await context.remote_updates.follow_deletion(theirs)
        log.info("found an item created by an earlier request whose response was lost; adopting it")
    elif theirs is not None:
        # Earlier pages with it were ignored while it might have been ours.
        await context.remote_updates.apply([theirs])
        context.list_soon(theirs)
    return is_ours


async def _is_ours(context: PushContext, sent: SentRequest, theirs: items.Item) -> bool:
    """Whether the item has what was sent, or is a folder created since our request."""
    if isinstance(theirs, items.WebLink):
        return in_flight.link_digest(url_files.text(*shortcut_of(theirs))) == sent.sha1
    if sent.asked_at is None:
        return isinstance(theirs, items.File) and theirs.sha1 == sent.sha1
    if not isinstance(theirs, items.Folder):
        return False
    with context.health.request("lookup"):
        made = await context.client.folders.origin(theirs.id)
        me = await context.client.users.me()
    is_mine = made.created_by is None or made.created_by.id == me.id
    return is_mine and (
        made.created_at is None or made.created_at.timestamp() >= sent.asked_at - SKEW_SECONDS
    )


async def holder_at(context: PushContext, folder: str, name: str) -> items.Item | None:
    """Return the item with this name in this folder, of which the id is given."""
    if Ability.PREFLIGHT in context.client.offers.lacking:
        with context.health.request("lookup"):
            return await item_search.at_place(context.client, folder, name)
    try:
        with context.health.request("lookup"):
            await context.client.uploads.preflight(name, folder)
    except errors.Conflict as error:
        return await conflicts.holder(context, error)
    except (errors.RateLimited, errors.ServerError, errors.Unauthorized):
        raise
    except errors.ApiError as error:
        log.debug("nothing can be there: %s", error)
    return None
