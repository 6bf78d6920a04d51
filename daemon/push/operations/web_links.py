"""Creates and changes web links from the contents of `.url` files.

A new file becomes a web link if its name fits and it contains nothing that a web link cannot store, so that
it can be restored exactly.  Writing to a web link changes its address and description; if it then contains
anything else it becomes a file, and the web link goes to the trash.

    here                                       at the service
    a new file, only an address of the web     a web link, called as the file without `.url`
    the same, and that name is taken           a web link, called as the file
    a new file, anything else                  a file
    a web link, another address                the address of the web link
    a web link, anything else                  the web link in the trash, a file
    a web link, emptied                        nothing; the change is held

Rule: a file that the service has as a file stays one, with its versions.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.config.abilities import Ability, not_offered
from cmsfs.crashpoints import Point
from cmsfs.journal import ops, queue, sealing
from cmsfs.models import url_files
from cmsfs.models.content import items
from cmsfs.models.url_files import ParsedShortcut, Shortcut
from cmsfs.replica import item_details, kv_store, link_texts, naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, local_work
from cmsfs.replica.nodes import Node, NodeKind, remote_from_item, shortcut_of
from cmsfs.replica.rows import in_flight
from cmsfs.runtime import clock
from daemon.push import conflicts, inflight_recovery
from daemon.push.context import REBASES, PushContext, reconsider

log = logging.getLogger(__name__)


async def upload(context: PushContext, task: queue.Task, node: Node) -> bool:
    """Carry out an UPLOAD of a web link, or of a new file that can become one.  False: it is a regular file,
    and nothing was done."""
    if node.kind is not NodeKind.LINK and not _may_become_link(context, node):
        return False
    data = await _read(context, node)
    found = url_files.parse(data)
    if node.kind is NodeKind.LINK:
        await _write(context, task, node, data, found)
    elif found is not None and _is_link(context, found):
        await _create(context, task, node, data, found.shortcut)
    else:
        return False
    return True


def _may_become_link(context: PushContext, node: Node) -> bool:
    """Whether the node is a new file that may become a web link, depending on its contents."""
    if context.client.offers.is_lacking(Ability.WEB_LINKS):
        return False
    if node.kind is not NodeKind.FILE or node.remote_id is not None or naming.link_name(node.name) is None:
        return False
    # The service stores no tags and metadata for web links.
    said = item_details.described(context.db, node.ino)
    return context.web_links != "never" and not said.tags and not said.metadata


def _is_link(context: PushContext, found: ParsedShortcut) -> bool:
    return found.is_all or context.web_links == "all"


async def _read(context: PushContext, node: Node) -> bytes:
    """Return the contents; for one too long for a web link, enough to show that."""
    assert node.sha1 is not None
    path = await context.blocks.complete_path(node.sha1) if node.size else None
    if path is None:
        return b""
    with path.open("rb") as file:
        return file.read(url_files.MAX_BYTES + 1)


# ---- a new one -----------------------------------------------------------------------------------


async def _create(
    context: PushContext, task: queue.Task, node: Node, data: bytes, shortcut: Shortcut
) -> None:
    assert task.parent is not None
    assert task.parent.remote_id is not None
    for name in (naming.link_name(node.name) or node.name, node.name):
        try:
            async with _making(context, node, shortcut, task.parent.remote_id, name):
                answer = await context.client.web_links.create(
                    shortcut.url, task.parent.remote_id, name=name, description=shortcut.description
                )
        except errors.Conflict as error:
            theirs = await conflicts.holder(context, error)
            if name != node.name and isinstance(theirs, items.File | items.Folder):
                continue  # `notes.url` and the folder `notes` can coexist, here and at the service
            await _name_in_use(context, task, node, data, shortcut, theirs)
        except errors.NotFound as error:
            await conflicts.missing(context, task, error)
        else:
            crashpoints.reached(Point.UPLOAD_SENT)
            await _done(context, task, node, answer, data)
        return


@asynccontextmanager
async def _making(
    context: PushContext, node: Node, shortcut: Shortcut, folder: str, name: str
) -> AsyncIterator[None]:
    """Record before the request that a web link may have been created, whatever happens."""
    sent = in_flight.SentRequest(
        node.ino, in_flight.link_digest(url_files.text(*shortcut)), folder=folder, name=name
    )
    with context.remote_updates.making(folder, name), context.health.request("web_link"):
        async with inflight_recovery.recorded(context, sent):
            yield


async def _name_in_use(
    context: PushContext,
    task: queue.Task,
    node: Node,
    data: bytes,
    shortcut: Shortcut,
    theirs: items.Item | None,
) -> None:
    if (
        isinstance(theirs, items.WebLink)
        and shortcut_of(theirs) == shortcut
        and conflicts.may_be_ours(context.db, node.ino, theirs)
    ):
        log.info("found an earlier web link whose response was lost; adopting it")
        await _done(context, task, node, theirs, data)
    elif theirs is not None and conflicts.is_leaving(context, task, node, theirs):
        await conflicts.wait_for_place(context, task, theirs)
    else:
        await conflicts.keep_both(context, task, theirs)


# ---- one that was written to ---------------------------------------------------------------------


async def _write(
    context: PushContext, task: queue.Task, node: Node, data: bytes, found: ParsedShortcut | None
) -> None:
    if found is not None and _is_link(context, found):
        await _change(context, task, node, data, found.shortcut)
    elif data:
        await _become_file(context, task, node)
    else:
        raise errors.Emptied(node.name)


async def _change(context: PushContext, task: queue.Task, node: Node, data: bytes, wanted: Shortcut) -> None:
    assert node.remote_id is not None
    before = url_files.of_item(tree.item_json(context.db, node.ino))
    if wanted == before:
        await _unchanged(context, task, node, data)
        return
    if context.client.offers.is_lacking(Ability.CHANGES):
        raise not_offered(Ability.CHANGES)
    etag = node.etag
    for _ in range(REBASES):
        try:
            with context.health.request("web_link"):
                answer = await context.client.web_links.update(
                    node.remote_id,
                    url=wanted.url if wanted.url != before.url else None,
                    description=wanted.description if wanted.description != before.description else None,
                    etag=etag,
                )
        except errors.NotFound as error:
            await conflicts.missing(context, task, error)
            return
        except errors.PreconditionFailed:
            theirs = await _theirs(context, task, node)
            if theirs is None:
                return
            now = shortcut_of(theirs)
            if now == wanted:
                await _done(context, task, node, theirs, data)
                return
            if now != before:
                await conflicts.keep_both(context, task, theirs, anew=True)
                return
            etag = theirs.etag  # renamed or moved remotely
        else:
            crashpoints.reached(Point.UPLOAD_SENT)
            await _done(context, task, node, answer, data)
            return
    await context.db.write(
        lambda conn: reconsider(context, conn, task.op, "The web link is being changed at the service.")
    )


async def _theirs(context: PushContext, task: queue.Task, node: Node) -> items.WebLink | None:
    """Return the web link as the service has it now; None if it is gone, which has been applied."""
    try:
        found = await context.get(NodeKind.LINK, node.remote_id or "")
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
        return None
    return found if isinstance(found, items.WebLink) else None


async def _become_file(context: PushContext, task: queue.Task, node: Node) -> None:
    """Replace the web link by a file: its contents do not fit a web link any more."""

    def txn(conn: Connection) -> None:
        now = tree.get(conn, node.ino)
        if now.kind is NodeKind.LINK and now.remote_id is not None:
            surplus = tree.insert(conn, None, now.name, NodeKind.LINK, now_ns=clock.time_ns())
            ops.transfer_identity(conn, now.ino, surplus)
            local_work.forget(conn, now.ino)
            link_texts.forget(conn, now.ino)
            ops.record(conn, surplus, ops.OpKind.TRASH, due_ns=clock.time_ns())
        queue.give_back(conn, task.op, not_before_ns=0)

    await context.db.write(txn)
    log.info("a web link was overwritten with other contents: moving it to the trash and uploading a file")


async def _unchanged(context: PushContext, task: queue.Task, node: Node, data: bytes) -> None:
    """Finish a web link whose address and description are unchanged."""

    def txn(conn: Connection) -> bool:
        queue.finish(conn, task.op)
        return _settle(conn, node, data)

    await _release(context, node, await context.db.write(txn))


async def _done(
    context: PushContext, task: queue.Task, node: Node, answer: items.WebLink, data: bytes
) -> None:
    """Record that the service has a web link with what the node contains."""
    theirs = remote_from_item(answer)

    def txn(conn: Connection) -> tuple[list[Change], bool]:
        in_flight.resolve(conn, node.ino, theirs.id)
        apply_remote.adopt(conn, node.ino, theirs, sent=node)
        queue.finish(conn, task.op)
        released = _settle(conn, node, data)
        now = tree.get(conn, node.ino)
        if node.remote_id is None and now.parent is not None and now.remote_id == theirs.id:
            ops.record_move(conn, tree.get(conn, now.ino), due_ns=clock.time_ns())
        changes = apply_remote.apply(conn, [theirs], generation=kv_store.generation(conn))
        if not url_files.says(data, shortcut_of(theirs.item)):
            # The service normalises the address.
            changes.append(Change(ChangeKind.CONTENT, node.ino))
        return changes, released

    changes, released = await context.db.write(txn)
    crashpoints.reached(Point.UPLOAD_ADOPTED)
    await context.remote_updates.answered(changes, answer)
    await _release(context, node, released)


def _settle(conn: Connection, node: Node, data: bytes) -> bool:
    """Mark the contents of `node` as uploaded, unless it has others by now; return whether they may be
    evicted."""
    assert node.sha1 is not None
    now = tree.get(conn, node.ino)
    if (
        now.kind is NodeKind.LINK
        and now.remote_id is not None
        and now.draft is None
        and now.sha1 == node.sha1
    ):
        link_texts.keep(conn, now.ino, data)
        ops.drop(conn, now.ino, ops.OpKind.TOUCH)
        return sealing.release_content(conn, node.sha1)
    if now.parent is not None:
        ops.record(conn, now.ino, ops.OpKind.UPLOAD, due_ns=clock.time_ns())
    return False


async def _release(context: PushContext, node: Node, released: bool) -> None:
    if released and node.sha1 is not None:
        await context.blocks.settle_clean(node.sha1)
