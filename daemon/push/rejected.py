"""Retries or discards changes that the service refused, at the user's request.

To discard a change is to accept the service's state: a new file is removed from the drive, a new version
gives way to the previous one, a rename or deletion is undone.  Contents that exist nowhere else are saved in
`recovered/` first.

Rule: only operations that are held or stuck can be discarded; a running one may have reached the service.
"""

import errno
import logging
import os
import shutil
from pathlib import Path
from sqlite3 import Connection

from cmsfs import durability, errors
from cmsfs.journal import ops, queue, sealing
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.ops import Op, OpKind
from cmsfs.models.content import items
from cmsfs.replica import inodes, item_details, kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, lineages
from cmsfs.replica.nodes import Node, remote_from_item
from cmsfs.replica.rows import node_rows
from cmsfs.replica.sharing import lost_access
from cmsfs.runtime import clock, threads
from daemon.push import loop_detector, recovered_files
from daemon.push.context import PushContext

log = logging.getLogger(__name__)

WRITTEN_AGAIN = "The file has been changed again, and that upload is pending."
UNDER_WAY = "It is being uploaded right now; try again when `cmsfs status` shows the result."

# Suffix of a file that lists the missing ranges of an incompletely saved file.
MISSING = ".missing"


async def retry(context: PushContext, path: str) -> None:
    """Retry the failed operations of the item at a path.  Raises `UserError` if there are none."""
    found = [op for op in queue.failed(context.db) if tree.path(context.db, op.ino) == path]
    if not found:
        raise errors.UserError(f"No rejected change of {path} to retry.")

    def txn(conn: Connection) -> None:
        for op in found:
            queue.release(conn, op, now_ns=clock.time_ns())

    await context.db.write(txn)


async def discard(context: PushContext, path: str, folder: Path) -> Path | None:
    """Discard the held or stuck operations of the item at a path; return where its contents are kept, if it
    had any of its own.

    Raises `UserError` if there is no such change, or something else must be decided first.
    """
    held = [
        op
        for op in queue.failed(context.db)
        if (op.state == "held" or loop_detector.is_looping(op)) and tree.path(context.db, op.ino) == path
    ]
    if not held:
        raise errors.UserError(f"No change of {path} was rejected; `cmsfs conflicts` lists rejected changes.")
    node = tree.find(context.db, held[0].ino)
    if node is None:
        raise errors.UserError(f"{path} is gone.")
    kept = None
    if any(op.kind is OpKind.UPLOAD for op in held):
        kept = await _keep(context, node, folder)
    theirs = await _theirs(context, node)

    def txn(conn: Connection) -> list[Change]:
        now = tree.get(conn, node.ino)
        if now.draft != node.draft:
            raise errors.UserError(WRITTEN_AGAIN)
        if "running" in ops.pending(conn, node.ino).values():
            raise errors.UserError(UNDER_WAY)
        if now.draft is not None:
            Drafts.delete(conn, now.draft)
        return _give_up(conn, now._replace(draft=None), held, theirs)

    context.remote_updates.publish(await context.db.write(txn))
    if node.draft is not None:
        context.commit.unlink(context.drafts.gone(node.draft))
    if node.sha1 is not None:
        await context.blocks.settle_clean(node.sha1)
    if kept is not None:
        recovered_files.mark_seen(folder, kept.name, f"{kept.name}{MISSING}")
    log.info("the user discarded a rejected change")
    return kept


async def _theirs(context: PushContext, node: Node) -> items.Item | None:
    """Return the item as the service has it; None if it is not there."""
    if node.remote_id is None:
        return None
    return await context.find(node.kind, node.remote_id)


async def keep_recovered(context: PushContext, node: Node, folder: Path) -> bool:
    """Save the contents of a local-only file in the recovered files before it is removed; return whether it
    may be removed."""
    if node.is_folder or not node.size:
        return True
    try:
        return await _keep(context, node, folder) is not None
    except (errors.CmsfsError, OSError) as error:
        log.info(
            "a local-only file stays, because its contents cannot be moved to the recovered files: %s", error
        )
        return False


async def _keep(context: PushContext, node: Node, folder: Path) -> Path | None:
    """Save the contents of a file durably in the recovered files, by link or copy."""
    if node.draft is not None:
        return await _keep_draft(context, node, node.draft, folder)
    if node.sha1 is None or node.sha1 == node.base_sha1:
        return None
    try:
        source = await context.blocks.complete_path(node.sha1)
    except errors.DamagedContent:
        source = context.blocks.path(node.sha1)  # possibly incomplete
    if source is None:
        return None
    return await threads.run_sync(_second_name, source, folder, node.name)


async def _keep_draft(context: PushContext, node: Node, draft_id: int, folder: Path) -> Path:
    """Like `_keep`, for a draft whose base is not available any more."""
    draft = context.drafts.find(draft_id)
    if draft is None or draft.writers or not draft.is_recorded:
        raise errors.UserError(WRITTEN_AGAIN)
    holes = draft.holes()

    def keep() -> Path:
        draft.make_file()
        target = _second_name(draft.path, folder, node.name)
        os.truncate(target, draft.size)
        if holes:
            lines = [f"{target.name}: these bytes were never downloaded and are zeros there:"]
            lines += [f"{start} to {end - 1}" for start, end in holes]
            target.with_name(f"{target.name}{MISSING}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return target

    return await threads.run_sync(keep)


def _second_name(source: Path, folder: Path, name: str) -> Path:
    number, target = 1, folder / name
    while target.exists():
        number += 1
        target = folder / f"{number} {name}"
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
    durability.sync(target)
    durability.sync(folder)
    return target


def _give_up(conn: Connection, node: Node, held: list[Op], theirs: items.Item | None) -> list[Change]:
    if node.is_folder and node.remote_id is None and tree.has_children(conn, node.ino):
        raise errors.UserError("The folder is not empty: discard or move its contents first.")
    for op in held:
        queue.cancel(conn, op)
        if op.kind is OpKind.DESCRIBE:
            item_details.discard_pending(conn, node.ino)
    if theirs is None:
        return _leave(conn, node)
    changes: list[Change] = []
    if inodes.is_open(conn, node.ino):
        # Who has it open goes on with what was given up; it is nothing that is to be sent any more.
        fresh = lineages.split_off(conn, node, changes)
        node_rows.take_as_sent(conn, node.ino)
        node = fresh
    # As if nothing had happened here: what the service says is then taken for all of it.
    here = remote_from_item(theirs)
    node_rows.go_back_to_base(conn, node.ino)
    if node.parent is None:
        tree.mark_unlisted(conn, node.ino)
    changes += apply_remote.apply(conn, [here], generation=kv_store.generation(conn))
    if node.sha1 is not None:
        sealing.release_content(conn, node.sha1)
    return [*changes, Change(ChangeKind.CONTENT, node.ino)]


def _leave(conn: Connection, node: Node) -> list[Change]:
    """The service has no such item: the drive has none either, then."""
    ops.drop(conn, node.ino, *OpKind)
    if node.parent is None:
        return []
    lineages.displace(conn, node)
    tree.detach(conn, node.ino)
    if node.sha1 is not None:
        node_rows.forget_content(conn, node.ino)
        sealing.release_content(conn, node.sha1)
    changes = [Change(ChangeKind.GONE, node.ino, node.parent, node.name)]
    lost_access.remove_if_empty(conn, node.parent, changes)
    return changes
