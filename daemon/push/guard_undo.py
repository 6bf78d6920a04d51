"""Undoes the changes of the programs that the guard stopped, as far as they are not at the service.

Files get the service's contents back, names and places are restored, deleted items reappear, and new items
are removed from the drive.  Contents that exist nowhere else are saved in `recovered/` first.

Rule: the undo is one transaction, and each change that cannot be undone has a reason.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Literal

import pydantic_core
import trio

from cmsfs import errors
from cmsfs.ipc import outcomes
from cmsfs.journal import ops, sealing
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.ops import OpKind
from cmsfs.models.content import items
from cmsfs.replica import inodes, kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, lineages
from cmsfs.replica.nodes import Ino, Node, NodeKind, Remote, remote_from_item
from cmsfs.replica.rows import in_flight, node_rows
from daemon.push import former_paths, guard_keep
from daemon.push.context import PushContext
from daemon.push.rejected import UNDER_WAY, WRITTEN_AGAIN

log = logging.getLogger(__name__)

Action = Literal["contents", "place", "deletion", "new", "times"]

OPEN = "A program has it open for writing; end the program first."
UNHEARD = "It may be at the service already; the answer is still to come."
NOT_EMPTY = "Something else is in it."
UNKNOWN = "What it was is not known here; try again with a connection to the service."

# Concurrent requests for items whose state at the service is not known here.
AT_ONCE = 8

_UNDONE = (OpKind.UPLOAD, OpKind.MOVE, OpKind.TRASH, OpKind.TOUCH, OpKind.MKDIR)


@dataclass(frozen=True, slots=True)
class _Undo:
    """One item, the change to undo, and the state at the service (None: not there or unknown)."""

    node: Node
    path: str
    action: Action
    reason: str = ""
    base: Remote | None = None

    @property
    def outcome(self) -> outcomes.UndoneChange:
        return outcomes.UndoneChange(path=self.path, action=self.action, reason=self.reason)


# For a child that is not undone: it stays.
_STAYS = outcomes.UndoneChange(path="", action="new", reason=NOT_EMPTY)


async def undo(context: PushContext, recovered: Path, *, dry_run: bool) -> outcomes.GuardUndone:
    """Undo the mass change, or only report it if `dry_run`; return the changes.

    Raises `UserError` if nothing is held, or one of the programs still runs.  Cancelled: all or nothing is
    undone.
    """
    guard = context.guard
    if (notice := guard.notice) is None:
        raise errors.UserError("The guard holds nothing.")
    running = guard.still_running()
    if running and not dry_run:
        raise errors.UserError(f"End {' and '.join(running)} first.")
    inos = list(guard.traces.found)
    found = await context.db.query(lambda conn: _plan(context, conn, inos))
    found = await _complete_from_service(context, found)
    keys = {(str(key[0]), key[1]) for key in guard.traces.found.values() if key is not None}
    keys |= await context.db.query(lambda conn: _keys(conn, inos))
    kept: Path | None = None
    if not dry_run:
        kept, found = await _carry_out(context, found, recovered)
        if not any(one.reason for one in found):
            await guard.release_after_undo()
    return outcomes.GuardUndone(
        changes=[one.outcome for one in found],
        items=sorted(keys),
        since=notice.since,
        folder=notice.folder,
        running=running,
        kept=str(kept) if kept is not None else "",
    )


# ---- planning ----------------------------------------------------------------


def _keys(conn: Connection, inos: Iterable[Ino]) -> set[tuple[str, str]]:
    nodes = (tree.find_at(conn, ino) for ino in inos)
    return {
        (str(node.kind), node.remote_id) for node in nodes if node is not None and node.remote_id is not None
    }


def _plan(context: PushContext, conn: Connection, inos: Iterable[Ino]) -> list[_Undo]:
    found: dict[Ino, _Undo] = {}
    for ino in inos:
        node = tree.find_at(conn, ino)
        if node is None or node.local:
            continue
        pending = ops.pending(conn, ino)
        if (action := _action(node, pending)) is not None:
            path = former_paths.at(conn, node)
            found[ino] = _Undo(node, path, action, _reason(context, conn, node, pending), _base(conn, node))
    # A new folder stays if something in it stays.
    new = [one for one in found.values() if one.action == "new" and one.node.is_folder]
    for one in sorted(new, key=lambda one: -one.path.count("/")):
        rows = conn.execute("SELECT ino FROM node WHERE parent = ?", (one.node.ino,))
        if not one.reason and any(found.get(row["ino"], _STAYS).reason for row in rows):
            found[one.node.ino] = replace(one, reason=NOT_EMPTY)
    return list(found.values())


def _action(node: Node, pending: dict[OpKind, str]) -> Action | None:
    if node.remote_id is None:
        return "new" if node.parent is not None else None
    if OpKind.TRASH in pending:
        return "deletion"
    if node.parent is None:
        return None
    if OpKind.UPLOAD in pending or node.draft is not None:
        return "contents"
    if OpKind.MOVE in pending:
        return "place"
    return "times" if OpKind.TOUCH in pending else None


def _reason(context: PushContext, conn: Connection, node: Node, pending: dict[OpKind, str]) -> str:
    if "running" in pending.values():
        return UNDER_WAY
    if node.remote_id is None and in_flight.is_pending(conn, node.ino):
        return UNHEARD
    draft = context.drafts.find(node.draft) if node.draft is not None else None
    return OPEN if draft is not None and (draft.writers or not draft.is_recorded) else ""


def _base(conn: Connection, node: Node) -> Remote | None:
    """Return the item as the service has it, from local data; None if it is not there or not known."""
    if node.remote_id is None or node.base_name is None or (size := _base_size(conn, node)) is None:
        return None
    item: dict[str, Any] = pydantic_core.from_json(tree.item_at(conn, node.ino) or "{}")
    item |= {
        "type": node.kind.value,
        "id": node.remote_id,
        "name": node.base_name,
        "etag": node.etag,
        "sequence_id": str(node.sequence),
        "parent": {"type": "folder", "id": node.base_parent} if node.base_parent is not None else None,
    }
    if node.kind is NodeKind.FILE:
        version = {"type": "file_version", "id": node.version} if node.version is not None else None
        item |= {"sha1": node.base_sha1, "size": size, "file_version": version}
    try:
        return remote_from_item(items.parse_item(item))
    except ValueError:
        return None


def _base_size(conn: Connection, node: Node) -> int | None:
    if node.kind is not NodeKind.FILE:
        return 0
    if node.draft is None and node.sha1 == node.base_sha1:
        return node.size
    known = conn.execute("SELECT size FROM content WHERE sha1 = ?", (node.base_sha1,)).fetchone()
    if known is None:
        known = conn.execute(
            "SELECT base_total AS size FROM draft WHERE id = ? AND base_sha1 = ?",
            (node.draft, node.base_sha1),
        ).fetchone()
    return None if known is None else int(known["size"])


async def _complete_from_service(context: PushContext, found: list[_Undo]) -> list[_Undo]:
    """Complete items whose state is not known here with the service's answers."""
    answers: dict[Ino, _Undo] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(one: _Undo) -> None:
        async with limit:
            try:
                assert one.node.remote_id is not None
                item = await context.get(one.node.kind, one.node.remote_id)
                answers[one.node.ino] = replace(one, base=remote_from_item(item))
            except errors.CmsfsError as error:
                log.info("what an item was is not known: %s", error)
                answers[one.node.ino] = replace(one, reason=UNKNOWN)

    async with trio.open_nursery() as nursery:
        for one in found:
            if one.action != "new" and one.base is None and not one.reason:
                nursery.start_soon(ask, one)
    return [answers.get(one.node.ino, one) for one in found]


# ---- undoing ----------------------------------------------------------------------------


async def _carry_out(
    context: PushContext, found: list[_Undo], recovered: Path
) -> tuple[Path | None, list[_Undo]]:
    undoable = [one for one in found if not one.reason]
    kept = await guard_keep.save_all(_files_to_save(context, undoable), recovered)
    done: list[_Undo] = []

    def txn(conn: Connection) -> tuple[list[Change], list[_Undo]]:
        done.clear()
        still = [_recheck(conn, one) for one in undoable]
        changes = _restore(conn, [one for one in still if not one.reason])
        return changes, still

    with trio.CancelScope(shield=True):
        changes, still = await context.db.write(txn)
        context.remote_updates.publish(changes)
        for one in still:
            if not one.reason:
                await _clean_up(context, one.node)
    by_ino = {one.node.ino: one for one in still}
    return kept, [by_ino.get(one.node.ino, one) for one in found]


def _recheck(conn: Connection, one: _Undo) -> _Undo:
    """Return the item, with a reason not to undo it if it changed since the plan was made."""
    now = tree.find_at(conn, one.node.ino)
    if now is None or (now.draft, now.sha1, now.remote_id) != (
        one.node.draft,
        one.node.sha1,
        one.node.remote_id,
    ):
        return replace(one, reason=WRITTEN_AGAIN)
    return replace(one, reason=UNDER_WAY) if "running" in ops.pending(conn, now.ino).values() else one


def _restore(conn: Connection, undoable: list[_Undo]) -> list[Change]:
    changes: list[Change] = []
    back: list[tuple[int, Remote]] = []
    for one in undoable:
        node = tree.get(conn, one.node.ino)
        if node.draft is not None:
            Drafts.delete(conn, node.draft)
            node = node._replace(draft=None)
        ops.drop(conn, node.ino, *_UNDONE)
        if one.base is None:
            continue
        if node.parent is not None and one.action == "contents" and inodes.is_open(conn, node.ino):
            # Open handles keep the undone contents, which must not be uploaded any more.
            fresh = lineages.split_off(conn, node, changes)
            node_rows.take_as_sent(conn, node.ino)
            node = fresh
        if node.is_folder and node.parent is None:
            tree.mark_unlisted(conn, node.ino)
        if not node.is_folder and node.parent is not None and not ops.is_at_base(conn, node):
            # It may occupy the former name of another item.
            tree.detach(conn, node.ino)
            changes.append(Change(ChangeKind.ENTRY, node.ino, node.parent, node.name))
        node_rows.go_back_to_base(conn, node.ino)
        back.append((_remote_depth(conn, one.base), one.base))
    new = [one.node for one in undoable if one.base is None]
    for node in new:
        if not node.is_folder:
            changes += _remove_new(conn, node)
    # Folders are restored before their contents.
    back.sort(key=lambda pair: (pair[1].kind is not NodeKind.FOLDER, pair[0]))
    changes += apply_remote.apply(conn, [remote for _, remote in back], generation=kv_store.generation(conn))
    for node in sorted((node for node in new if node.is_folder), key=lambda node: -_local_depth(conn, node)):
        if not tree.has_children(conn, node.ino):
            changes += _remove_new(conn, node)
    for one in undoable:
        if one.node.sha1 is not None and one.node.sha1 != one.node.base_sha1:
            sealing.release_content(conn, one.node.sha1)
        if one.base is not None and one.base.kind is NodeKind.FILE:
            changes.append(Change(ChangeKind.CONTENT, one.node.ino))
    return changes


def _remove_new(conn: Connection, node: Node) -> list[Change]:
    """Remove an item that was never uploaded from the drive."""
    if node.parent is None:
        return []
    lineages.displace(conn, node)
    tree.detach(conn, node.ino)
    node_rows.forget_content(conn, node.ino)
    return [Change(ChangeKind.GONE, node.ino, node.parent, node.name)]


def _remote_depth(conn: Connection, remote: Remote) -> int:
    count, above, seen = 0, remote.parent_id, set[str]()
    while above is not None and above not in seen:
        seen.add(above)
        count += 1
        folder = tree.remote_at(conn, NodeKind.FOLDER, above)
        above = folder.base_parent if folder is not None else None
    return count


def _local_depth(conn: Connection, node: Node) -> int:
    count, above = 0, node.parent
    while above is not None:
        count += 1
        above = tree.parent_at(conn, above)
    return count


async def _clean_up(context: PushContext, node: Node) -> None:
    if node.draft is not None:
        context.commit.unlink(context.drafts.gone(node.draft))
    if node.sha1 is not None and node.sha1 != node.base_sha1:
        await context.blocks.settle_clean(node.sha1)
    context.ended(node.ino)
    if node.is_folder and node.remote_id is not None:
        back = tree.find_remote(context.db, node.kind, node.remote_id)
        if back is not None:
            context.hydrator.list_soon(back.ino)


def _files_to_save(context: PushContext, undoable: list[_Undo]) -> list[guard_keep.SavedFile]:
    """Return the files to save: contents that exist nowhere else."""
    found: list[guard_keep.SavedFile] = []
    for one in undoable:
        node = one.node
        if node.is_folder or node.parent is None:
            continue
        draft = context.drafts.find(node.draft) if node.draft is not None else None
        if draft is not None and draft.size:
            found.append(guard_keep.of_draft(one.path, draft))
        elif node.sha1 not in (None, node.base_sha1) and node.size:
            source = context.blocks.path(node.sha1 or "")
            if source is not None:
                found.append(guard_keep.of_file(one.path, source))
    return found
