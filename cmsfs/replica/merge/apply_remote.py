"""Applies remote items to the tree.

`apply` merges items of a listing or a change feed, by the table in `decisions`; `adopt` merges the response
to a change of ours; deletions are in `deletions`.  All run inside the caller's transaction and return the
changes to publish after its commit.

Rule: local changes that are not uploaded always survive.  A node with a pending operation keeps what the
operation is about (contents, place, times); only its base columns are updated.

Rule: `sequence` is that of the base.  Updates that are deferred, or that our own response may have hidden,
are recorded in the same transaction (`local_work`).
"""

from collections.abc import Iterable, Mapping
from sqlite3 import Connection
from typing import Any

from cmsfs.models import wire_names
from cmsfs.replica import inodes, kv_store, link_texts, local_attributes, naming, numbers, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import (
    bulk_insert,
    decisions,
    lineages,
    local_work,
    move_cycles,
    placement,
)
from cmsfs.replica.merge.decisions import Verdict
from cmsfs.replica.nodes import FILE_MODE, FOLDER_MODE, ROOT, Ino, Node, NodeKind, Remote, shortcut_of
from cmsfs.replica.rows import node_rows, op_rows
from cmsfs.replica.sharing import lost_access, shares

ROOT_ID = bulk_insert.ROOT_ID

# Up to this many updates of known items need fewer statements one by one than as a page.
FEW = 2

# The service's state of an item: the base that a later change of ours starts from.
BASE_COLUMNS = (
    "remote_id = :id, etag = :etag, sequence = :sequence, version = :version, base_sha1 = :sha1,"
    " base_parent = :parent, base_name = :name, base_key = coalesce(:key, base_key), item = :item"
)

# An etag that no item has: an upload conditional on it is rejected, and the conflict is resolved then.
NO_ETAG = "none"

# The `sequence` that a node had when its item was requested by id.
Believed = Mapping[tuple[NodeKind, str], int]


def apply(
    conn: Connection,
    remotes: Iterable[Remote],
    *,
    generation: int,
    is_listing: bool = False,
    believed: Believed | None = None,
) -> list[Change]:
    """Update the tree with these items; return the changes for the kernel.

    Items may come in any order: an unknown parent gets a placeholder, which its own item fills in later.  An
    item older than our state is ignored, unless it is `believed`: the response to a request for this item,
    without an update since.  With `is_listing`, an older item is deferred and requested: a service restored
    from a backup has older items than we know.
    """
    changes: list[Change] = []
    left = list(remotes)
    is_news = len(left) <= FEW and all(
        (node := tree.remote_at(conn, remote.kind, remote.id)) is not None and remote.sequence > node.sequence
        for remote in left
    )
    if not is_news:
        left = bulk_insert.insert(conn, left, generation, changes)
        left = bulk_insert.unchanged(conn, left, generation)
    for remote in left:
        node = tree.remote_at(conn, remote.kind, remote.id)
        is_believed = (
            node is None
            or remote.sequence >= node.sequence
            or (believed is not None and believed.get((remote.kind, remote.id)) == node.sequence)
        )
        if node is None or is_believed:
            _apply_one(conn, node, remote, generation, changes)
        else:
            _leave_old(conn, node, remote, generation, is_listing=is_listing)
    if any(change.parent is not None for change in changes):
        shares.remove_if_empty(conn, changes)
    return changes


def _leave_old(conn: Connection, node: Node, remote: Remote, generation: int, *, is_listing: bool) -> None:
    """Handle an item that is older, by its sequence, than our state."""
    if is_listing:
        local_work.defer(conn, local_work.DeferredUpdate(remote.kind, remote.id, local_work.ANYHOW, node.ino))
    tree.note_seen(conn, remote.kind, remote.id, generation)


def _apply_one(
    conn: Connection, node: Node | None, remote: Remote, generation: int, changes: list[Change]
) -> None:
    if remote.kind is NodeKind.FOLDER and remote.id == ROOT_ID:
        return
    pending: set[str] = set()
    if node is not None and node.ino != ROOT:
        conn.execute("UPDATE node SET seen = max(seen, ?) WHERE ino = ?", (generation, node.ino))
        if node.is_lost:
            lost_access.regain(conn, node, remote.parent_id)
        pending = tree.pending(conn, node.ino)
        if node.parent is None and "upload" in pending:
            # The local deletion includes the pending upload, should the item come back.
            op_rows.delete_waiting(conn, node.ino, "upload")
            pending = tree.pending(conn, node.ino)
    verdict = decisions.decide(conn, node, remote, pending)
    if verdict is Verdict.IGNORE:
        return
    if node is None:
        _appear(conn, remote, generation, changes)
    elif verdict is Verdict.ASIDE:
        _leave_news_aside(conn, node, remote)
        if "move" in pending:
            # Our move is sent before the item is requested, and has to tell what it changes.
            note_remote_name(conn, node.ino, remote.name, remote.parent_id)
    elif verdict is Verdict.BESIDE:
        _appear_beside(conn, node, remote, generation, changes)
    else:
        _merge(conn, node, remote, verdict, pending, changes)


def _merge(
    conn: Connection, node: Node, remote: Remote, verdict: Verdict, pending: set[str], changes: list[Change]
) -> None:
    """Update the node's place, and its contents as far as the verdict allows."""
    if verdict in (Verdict.PART, Verdict.PART_DISARM):
        node = lineages.split_off(conn, node, changes)
        pending = tree.pending(conn, node.ino)
    if verdict in (Verdict.DISARM, Verdict.PART_DISARM):
        conn.execute("UPDATE node SET mode = mode & ~? WHERE ino = ?", (decisions.EXECUTE, node.ino))
    if verdict is Verdict.KEEP:
        _leave_news_aside(conn, node, remote)
        if remote.etag == node.etag:
            # The same version has other contents than our base: no upload may overwrite them as if they were
            # the base.
            conn.execute("UPDATE node SET etag = ? WHERE ino = ?", (NO_ETAG, node.ino))
    elif verdict is not Verdict.PLACE:
        _update_content(conn, node, remote, pending, changes)
    _update_place(conn, node, remote, pending, changes)


def _appear_beside(
    conn: Connection, node: Node, remote: Remote, generation: int, changes: list[Change]
) -> None:
    """Create a new node for the item; `node`, which had it and is detached, is local-only from now on."""
    into = tree.remote_at(conn, NodeKind.FOLDER, remote.parent_id) if remote.parent_id is not None else None
    if into is not None and not move_cycles.is_open(conn, node.ino, into.ino, changes):
        _leave_aside(conn, node, remote.sequence)
        return
    was_shown = node.is_folder and tree.was_shown(conn, node.ino)
    local_work.forget(conn, node.ino)
    _appear(conn, remote, generation, changes)
    if (theirs := tree.remote_at(conn, remote.kind, remote.id)) is not None:
        lineages.set_successor(conn, node.ino, theirs.ino)
        if was_shown:
            lineages.transfer_item_data(conn, node.ino, theirs)
            # Its children arrived before it.
            placement.take_along(conn, node.ino, theirs.ino, changes)


def note_remote_name(conn: Connection, ino: Ino, name: str, parent_id: str | None = None) -> None:
    """Record the current name of a node's item at the service, and its folder if given."""
    conn.execute(
        "UPDATE node SET base_name = ?, base_key = ?, base_parent = coalesce(?, base_parent) WHERE ino = ?",
        (name, wire_names.name_key(name), parent_id, ino),
    )


def _update_content(
    conn: Connection, node: Node, remote: Remote, pending: set[str], changes: list[Change]
) -> None:
    """Update the node to the item's version; unsent contents stay, with the same base as before."""
    is_link = node.kind is NodeKind.LINK
    same = (
        is_link
        and link_texts.remote_shortcut(conn, node.ino) == shortcut_of(remote.item)
        and remote.sha1 == node.base_sha1
    )
    conn.execute(
        "UPDATE node SET etag = ?, sequence = ?, version = ?, base_sha1 = ?, item = ? WHERE ino = ?",
        (remote.etag, remote.sequence, remote.version, remote.sha1, remote.json, node.ino),
    )
    if "upload" in pending or node.draft is not None:
        # The contents stay ours; attributes such as a lock are the service's.
        changes.append(Change(ChangeKind.ATTRIBUTES, node.ino))
        return
    if same:
        # Its mtime follows its target, and its text may be the one that was written here.
        link_texts.restore(conn, node.ino)
        changes.append(Change(ChangeKind.ATTRIBUTES, node.ino))
        return
    is_later = "touch" not in pending and not same_time(node.mtime_ns, remote.mtime_ns)
    conn.execute(
        "UPDATE node SET sha1 = ?1, size = ?2, mtime_ns = coalesce(?3, mtime_ns),"
        " ctime_ns = max(ctime_ns, coalesce(?3, 0)) WHERE ino = ?4",
        (remote.sha1, remote.size, remote.mtime_ns if is_later else None, node.ino),
    )
    if is_link:
        link_texts.follow(conn, node.ino)
    what = ChangeKind.CONTENT if remote.sha1 != node.sha1 or is_link else ChangeKind.ATTRIBUTES
    changes.append(Change(what, node.ino))


def _update_place(
    conn: Connection, node: Node, remote: Remote, pending: set[str], changes: list[Change]
) -> None:
    if (node.base_parent, node.base_name) == (remote.parent_id, remote.name):
        _update_local_place(conn, node, remote, pending, changes)
        return
    conn.execute(
        "UPDATE node SET base_parent = ?, base_name = ?, base_key = ? WHERE ino = ?",
        (remote.parent_id, remote.name, wire_names.name_key(remote.name), node.ino),
    )
    _update_local_place(conn, node, remote, pending, changes)
    placement.restore_base_name(conn, node, changes)


def _update_local_place(
    conn: Connection, node: Node, remote: Remote, pending: set[str], changes: list[Change]
) -> None:
    if "move" in pending:
        if not placement.is_in_place(conn, node, remote):
            # Our move may have reached the service already, with this one after it.
            _leave_aside(conn, node, remote.sequence)
        return
    parent, name = placement.place_of(conn, remote, changes, before=node.parent)
    if parent is None or (node.parent, node.name) == (parent, name):
        return
    if not tree.is_below(conn, parent, ROOT) and local_work.has_unsent_below(conn, node.ino):
        # It may have been deleted with the folder, or the folder is restored or created by this page, or our
        # deletion of the folder is pending: unsent contents stay visible until that is known.
        _leave_aside(conn, node, remote.sequence)
        return
    is_moved_folder = node.parent != parent and node.is_folder
    if is_moved_folder and not move_cycles.is_open(conn, node.ino, parent, changes):
        # One of a pair of folder moves would form a cycle until the other arrives; it may have been missed.
        _leave_aside(conn, node, remote.sequence)
        for folder in move_cycles.between(conn, parent, node.ino):
            _leave_aside(conn, folder, local_work.ANYHOW)
        return
    if placement.keeps_addition(conn, node, remote, parent, name):
        return
    tree.detach(conn, node.ino)
    made: list[Change] = []
    if (parent, placement.place_detached(conn, node.ino, remote, parent, name, made)) == (
        node.parent,
        node.name,
    ):
        changes += [change for change in made if change.ino != node.ino]
        return
    if node.parent is not None:
        changes.append(Change(ChangeKind.ENTRY, node.ino, node.parent, node.name))
    changes += made
    if node.parent is None and node.etag is None:
        numbers.give_below(conn, node.ino)
    inodes.note_fresh(conn, node.ino)
    if node.parent is not None:
        placement.restore_name(conn, node.parent, node.name, changes)


def place_from_remote(conn: Connection, node: Node, remote: Remote, changes: list[Change]) -> None:
    """Update the node's place and name as if the service had just reported them."""
    _update_place(conn, node, remote, tree.pending(conn, node.ino), changes)


def _leave_aside(conn: Connection, node: Node, sequence: int) -> None:
    assert node.remote_id is not None
    local_work.defer(conn, local_work.DeferredUpdate(node.kind, node.remote_id, sequence, node.ino))


def _leave_news_aside(conn: Connection, node: Node, remote: Remote) -> None:
    # A service restored from a backup reuses sequence numbers: by its number the item may not be newer.
    _leave_aside(conn, node, remote.sequence if remote.sequence > node.sequence else local_work.ANYHOW)


def _appear(conn: Connection, remote: Remote, generation: int, changes: list[Change]) -> None:
    parent, name = placement.place_of(conn, remote, changes)
    holder = tree.child_at(conn, parent, name) if parent is not None else None
    is_shared = shares.is_shared(shares.rules(conn), remote)
    if (
        holder is not None
        and holder.remote_id is None
        and not is_shared
        and _is_same(conn, holder, remote, name)
    ):
        # The item that we were about to create exists already: our own request whose response was lost, or
        # the same contents from somebody else.
        _become_base(conn, holder, remote)
        op_rows.delete_kinds(conn, holder.ino, "mkdir", "upload", "move")
        local_work.give_up_requests(conn, holder, folder=remote.parent_id, name=remote.name)
        # The folder may have children of somebody else that we do not know.
        tree.mark_unlisted(conn, holder.ino)
        return
    if remote.sha1 is not None:
        op_rows.release_uploads_over(conn, remote.sha1)
    mode = FOLDER_MODE if remote.kind is NodeKind.FOLDER else FILE_MODE
    ino = tree.insert(conn, None, name, remote.kind, now_ns=remote.mtime_ns, mode=mode)
    conn.execute(
        f"UPDATE node SET {BASE_COLUMNS}, seen = :seen, size = :size, sha1 = :sha1 WHERE ino = :ino",
        _base_values(remote, ino) | {"seen": generation, "size": remote.size},
    )
    local_attributes.restore(conn, [ino])
    if parent is not None:
        placement.place_detached(conn, ino, remote, parent, name, changes)
        numbers.give(conn, ino)


def _is_same(conn: Connection, holder: Node, remote: Remote, name: str) -> bool:
    if holder.kind is not remote.kind or holder.is_shelf or holder.name != name:
        return False
    if remote.kind is NodeKind.FOLDER:
        return True
    return holder.draft is None and holder.sha1 is not None and holder.sha1 == remote.sha1


def adopt(conn: Connection, ino: Ino, answer: Remote, *, sent: Node | None = None) -> Node:
    """Apply the response to the creation or replacement of node `ino`'s item; return the node that has the
    item now.

    Since the request, the node may have been renamed, deleted, written again, or given the identity of
    another item.  So the response is applied to the node that has the item now; an item without a node is
    surplus and is deleted.  `sent`: the node as it was when the request for a new version was made.
    """
    there = tree.remote_at(conn, answer.kind, answer.id)
    if there is not None:
        if sent is not None and _was_overtaken(there, answer, sent):
            _leave_aside(conn, there, there.sequence)
        else:
            _become_base(conn, there, answer)
        return tree.get(conn, there.ino)
    now = tree.get(conn, ino)
    may_be_link = now.parent is None or naming.link_name(now.name) is not None
    if now.remote_id is None and not now.local and (may_be_link or answer.kind is not NodeKind.LINK):
        _become_base(conn, now, answer)
        return tree.get(conn, ino)
    # The node has another item by now, to which its contents are being uploaded too; or it stays on this
    # machine by now; or it has a name that only a file can have.
    surplus = tree.insert(conn, None, answer.name, answer.kind, now_ns=answer.mtime_ns)
    _become_base(conn, tree.get(conn, surplus), answer)
    node_rows.set_content(conn, surplus, sha1=answer.sha1, size=answer.size)
    op_rows.record_once(conn, surplus, "trash")
    return tree.get(conn, surplus)


def _was_overtaken(there: Node, answer: Remote, sent: Node) -> bool:
    """Whether a later version has become the base during the request: another local file took over the item
    and was uploaded meanwhile.

    A sequence or contents that the node had when the request was made may as well be somebody else's doing,
    or a restored backup's.
    """
    if sent.remote_id != answer.id or there.ino == sent.ino:
        return False
    return there.sequence > max(answer.sequence, sent.sequence) and there.base_sha1 != sent.base_sha1


def _become_base(conn: Connection, before: Node, remote: Remote) -> None:
    """Make the item the base of a node that already equals it; its local place and contents stay.

    A newer update may have arrived before the response: the item is requested again.
    """
    if before.remote_id == remote.id and before.kind is remote.kind and before.sequence > remote.sequence:
        _leave_aside(conn, before, before.sequence)
    # A listing that started earlier has not seen it and must not remove it.
    conn.execute(
        f"UPDATE node SET {BASE_COLUMNS}, seen = {kv_store.NEWEST_LISTING}, kind = :kind, local = 0"
        " WHERE ino = :ino",
        _base_values(remote, before.ino, before.base_name) | {"kind": remote.kind},
    )


def _base_values(remote: Remote, ino: Ino, known_name: str | None = None) -> dict[str, Any]:
    """`known_name`: the base name that the row already has, with its key."""
    return {
        "ino": ino,
        "id": remote.id,
        "etag": remote.etag,
        "sequence": remote.sequence,
        "version": remote.version,
        "sha1": remote.sha1,
        "parent": remote.parent_id,
        "name": remote.name,
        "key": None if remote.name == known_name else wire_names.name_key(remote.name),
        "item": remote.json,
    }


def same_time(ours_ns: int, theirs_ns: int) -> bool:
    """Whether the service's time equals ours, truncated to the service's resolution."""
    return theirs_ns in (ours_ns, ours_ns // 1000 * 1000, ours_ns // 10**6 * 10**6, ours_ns // 10**9 * 10**9)
