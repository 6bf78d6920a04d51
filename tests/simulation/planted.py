"""Mutation tests of the simulation: bugs to plant into the product, one at a time, which stories must find.

Each disables something that a promise of the drive depends on.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from cmsfs import errors
from cmsfs.cache import content_table
from cmsfs.journal import group_commit, queue, recovery
from cmsfs.journal.draft import Draft
from cmsfs.journal.extents import Extents
from cmsfs.replica import tree
from cmsfs.replica.changes import ChangeKind
from cmsfs.replica.inodes import Inodes
from cmsfs.replica.merge import apply_remote, lineages, local_work, name_conflicts
from cmsfs.replica.rows import in_flight, op_rows
from cmsfs.vfs.tree import files, renaming
from cmsfs.vfs.tree.attributes import OpenResult
from cmsfs.vfs.tree.filesystem import Filesystem
from daemon.listing.folder_lister import FolderItems
from daemon.pull import event_feed
from daemon.pull.base_bytes import BaseBytes
from daemon.pull.event_feed import EventFeed
from daemon.push import conflicts, error_policy
from tests.simulation import disk, planted_answers, planted_contents, planted_earlier, remembered, wire

Put = Callable[[Any, str, Any], None]


def no_if_match(put: Put) -> None:
    """Changes are sent without `If-Match`."""
    exchange = wire.Wire._exchange

    async def careless(self: Any, request: httpx.Request, **how: Any) -> httpx.Response:
        request.headers.pop("if-match", None)
        return await exchange(self, request, **how)

    put(wire.Wire, "_exchange", careless)


def no_fsync_of_drafts(put: Put) -> None:
    """Drafts are not fsynced."""
    on_fsync = disk.Disks.on_fsync
    put(disk.Disks, "on_fsync", lambda self, path: None if path.suffix == ".draft" else on_fsync(self, path))


def no_fsync_of_the_log(put: Put) -> None:
    """The database's WAL is not fsynced."""
    on_fsync = disk.Disks.on_fsync
    put(
        disk.Disks,
        "on_fsync",
        lambda self, path: None if path.name.endswith("-wal") else on_fsync(self, path),
    )


def no_fsync_of_names(put: Put) -> None:
    """Folders with new files are not fsynced."""
    on_fsync = disk.Disks.on_fsync
    put(disk.Disks, "on_fsync", lambda self, path: None if path.is_dir() else on_fsync(self, path))


def news_of_the_past(put: Put) -> None:
    """Outdated remote updates are applied."""
    merge = apply_remote.apply

    def apply(conn: Any, remotes: Any, **how: Any) -> Any:
        return merge(conn, [one._replace(sequence=one.sequence + 10**6) for one in remotes], **how)

    put(apply_remote, "apply", apply)


def refusal_taken_for_success(put: Put) -> None:
    """An upload rejected because of a newer version counts as done."""

    async def done(context: Any, task: Any, theirs: Any, *, anew: bool = False) -> None:
        def txn(conn: Any) -> None:
            node = tree.get(conn, task.node.ino)
            conn.execute("UPDATE node SET base_sha1 = sha1, etag = ? WHERE ino = ?", (theirs.etag, node.ino))
            queue.finish(conn, task.op)

        await context.db.write(txn)

    put(conflicts, "keep_both", done)


def failure_given_up(put: Put) -> None:
    """A failed operation is not retried."""
    put(queue, "retry", lambda conn, op, **how: op_rows.delete(conn, op.seq))


def our_changes_overlooked(put: Put) -> None:
    """Remote updates are applied without checking for pending local changes."""
    put(tree, "pending", lambda conn, ino: set())


def deferred_news_forgotten(put: Put) -> None:
    """Remote updates deferred because of pending local changes are dropped."""
    put(local_work, "defer", lambda conn, update: None)


def lineage_not_split(put: Put) -> None:
    """A remote version replaces the bytes of an open file."""
    put(lineages, "split_off", lambda conn, node, changes: node)


def no_invalidation(put: Put) -> None:
    """The kernel's caches are never invalidated."""

    async def tell(self: Any, changes: Any) -> list[Any]:
        return []

    put(remembered.KernelCache, "invalidate", tell)


def old_pages_kept(put: Put) -> None:
    """Opening a file keeps the cached pages of its previous version."""
    put(files, "OpenResult", lambda fh, **how: OpenResult(fh, keep_cache=True))
    put(Inodes, "tell_news", lambda self, ino, *, is_news: (False, False))


def name_unlinked_early(put: Put) -> None:
    """A draft is unlinked before the transaction that supersedes it is durable."""

    def unlink(self: Any, path: Path) -> None:
        path.unlink(missing_ok=True)

    put(group_commit.GroupCommit, "unlink", unlink)


def order_ignored(put: Put) -> None:
    """Operations do not wait for their dependencies."""
    put(queue, "waits_for", lambda conn, op, node, parent: None)


def lost_answer_forgotten(put: Put) -> None:
    """An upload whose response was lost is not looked up before its item is created again."""
    put(in_flight, "new_items", lambda db, ino: [])


def later_wish_forgotten(put: Put) -> None:
    """An operation is deleted as done although it was changed while it ran."""

    def delete(conn: Any, seq: int, *, revision: int) -> bool:
        conn.execute("DELETE FROM op WHERE seq = ?", (seq,))
        return True

    put(op_rows, "delete_unchanged", delete)


def begun_counts_as_running(put: Put) -> None:
    """After a kill, operations that were running are not restarted."""
    put(op_rows, "reset_running", lambda conn: None)


def drafts_not_mended(put: Put) -> None:
    """After a kill, drafts are not repaired."""
    put(recovery, "_repair_draft", lambda conn, drafts, draft: drafts.path(draft).name)


def names_not_told(put: Put) -> None:
    """The kernel's cached names are not invalidated."""
    tell = remembered.KernelCache.invalidate

    async def some(self: Any, changes: Any) -> list[Any]:
        return await tell(self, [one for one in changes if one.what is not ChangeKind.ENTRY])

    put(remembered.KernelCache, "invalidate", some)


def contents_not_told(put: Put) -> None:
    """The kernel's cached contents and attributes are not invalidated."""
    tell = remembered.KernelCache.invalidate

    async def some(self: Any, changes: Any) -> list[Any]:
        return await tell(self, [one for one in changes if one.what in (ChangeKind.ENTRY, ChangeKind.GONE)])

    put(remembered.KernelCache, "invalidate", some)


def forgotten_twice(put: Put) -> None:
    """`FORGET` subtracts twice the lookup count."""
    forgotten = Inodes.forgotten
    put(Inodes, "forgotten", lambda self, ino, count: forgotten(self, ino, min(2 * count, self.lookups(ino))))


def name_taken_over(put: Put) -> None:
    """On a name conflict no conflict copy is made."""
    put(name_conflicts, "make_conflict_copy", lambda conn, node, changes: node.name)


def failure_is_final(put: Put) -> None:
    """Every failed operation is held for the user."""
    put(error_policy, "_is_final", lambda error: True)


def unread_news_dropped(put: Put) -> None:
    """An item that could not be fetched when its event came is not fetched later."""
    resolve = EventFeed._resolve

    async def some(self: Any, verdicts: Any) -> Any:
        found = await resolve(self, verdicts)
        found.unread.clear()
        return found

    put(EventFeed, "_resolve", some)


def position_before_news(put: Put) -> None:
    """The event cursor is stored before the events up to it are applied."""
    apply = EventFeed._apply

    async def early(self: Any, news: Any, *, touched: Any, position: Any, asked_at: float) -> None:
        await self._context.db.write(lambda conn: event_feed._keep(conn, position, asked_at))
        await apply(self, news, touched=touched, position=position, asked_at=asked_at)

    put(EventFeed, "_apply", early)


def exchange_is_a_rename(put: Put) -> None:
    """`RENAME_EXCHANGE` replaces the target like a plain rename."""
    rename = Filesystem.rename

    async def plain(self: Any, parent: Any, name: str, new_parent: Any, new_name: str, flags: int) -> None:
        await rename(self, parent, name, new_parent, new_name, 0)

    put(Filesystem, "rename", plain)


def tail_comes_back(put: Put) -> None:
    """Truncated bytes reappear when the file grows."""
    put(Draft, "_cut", lambda self, size: None)
    put(Extents, "clip", lambda self, size: None)


def unsent_counts_as_sent(put: Put) -> None:
    """Contents that were never uploaded may be evicted."""
    put(content_table, "record_dirty", _after(content_table.record_dirty, content_table.mark_clean))


def name_not_waited_for(put: Put) -> None:
    """An item is sent although another one still has its name at the service."""
    put(queue, "_holder_of", lambda conn, node, parent: None)


def bytes_not_waited_for(put: Put) -> None:
    """A file is deleted at the service although a local file needs its bytes (guarded in two places)."""
    put(queue, "needs_bytes_of", lambda conn, node: None)

    async def nothing(self: Any, remote_id: str | None) -> None:
        pass

    put(BaseBytes, "before_deletion", nothing)


def fsync_not_waited_for(put: Put) -> None:
    """`fsync` returns without waiting."""

    async def nothing(self: Any, fh: int) -> None:
        pass

    put(Filesystem, "fsync", nothing)


def base_too_new(put: Put) -> None:
    """The base version of a local change is set to a later one."""
    merge = apply_remote.apply

    def apply(conn: Any, remotes: Any, **how: Any) -> Any:
        made = merge(conn, remotes, **how)
        for one in remotes:
            conn.execute("UPDATE node SET etag = ? WHERE remote_id = ?", (one.etag, one.id))
        return made

    put(apply_remote, "apply", apply)


def listed_without_a_page(put: Put) -> None:
    """A folder whose listing failed halfway counts as listed."""
    once = FolderItems._once

    async def some(self: Any, *what: Any) -> bool:
        try:
            return await once(self, *what)
        except errors.RemoteError:
            return True

    put(FolderItems, "_once", some)


def folder_takes_no_child_along(put: Put) -> None:
    """Renaming a folder drops the pending operations of its children."""
    rename = renaming.apply

    def apply(conn: Any, call: Any, met: Any, *rest: Any, **how: Any) -> Any:
        lost = rename(conn, call, met, *rest, **how)
        conn.execute("DELETE FROM op WHERE ino IN (SELECT ino FROM node WHERE parent = ?)", (met.node.ino,))
        return lost

    put(renaming, "apply", apply)


def _after(first: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    def both(conn: Any, sha1: str, size: int) -> None:
        first(conn, sha1, size)
        then(conn, sha1)

    return both


PLANTED: dict[str, Callable[[Put], None]] = {
    one.__name__: one
    for one in (
        no_if_match,
        no_fsync_of_drafts,
        no_fsync_of_the_log,
        no_fsync_of_names,
        news_of_the_past,
        refusal_taken_for_success,
        failure_given_up,
        our_changes_overlooked,
        deferred_news_forgotten,
        lineage_not_split,
        no_invalidation,
        old_pages_kept,
        name_unlinked_early,
        order_ignored,
        lost_answer_forgotten,
        later_wish_forgotten,
        begun_counts_as_running,
        drafts_not_mended,
        names_not_told,
        contents_not_told,
        forgotten_twice,
        name_taken_over,
        failure_is_final,
        unread_news_dropped,
        position_before_news,
        exchange_is_a_rename,
        tail_comes_back,
        unsent_counts_as_sent,
        name_not_waited_for,
        bytes_not_waited_for,
        fsync_not_waited_for,
        base_too_new,
        listed_without_a_page,
        folder_takes_no_child_along,
        planted_answers.damaged_download_shown,
        planted_answers.odd_event_ends_its_page,
        planted_contents.early_hash_taken_for_later,
        planted_contents.wrong_range_resumed,
        *planted_earlier.EARLIER,
    )
}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plant the named bug for the duration of the context; None: no bug."""
    with contextlib.ExitStack() as stack:

        def put(holder: Any, attribute: str, value: Any) -> None:
            stack.callback(setattr, holder, attribute, getattr(holder, attribute))
            setattr(holder, attribute, value)

        if name is not None:
            PLANTED[name](put)
        yield
