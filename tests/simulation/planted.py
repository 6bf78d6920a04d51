"""Bugs to be planted into the product, one at a time: a simulation that does not find them is not believed.

Each takes something away on which a promise stands.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from cmsfs.journal import group_commit, queue
from cmsfs.replica import tree
from cmsfs.replica.merge import apply_remote, lineages, local_work
from cmsfs.replica.rows import in_flight, op_rows
from cmsfs.vfs.tree import files
from cmsfs.vfs.tree.attributes import OpenResult
from daemon.push import conflicts
from tests.simulation import disk, remembered, wire

Put = Callable[[Any, str, Any], None]


def no_if_match(put: Put) -> None:
    """No change says which version it started from."""
    exchange = wire.Wire._exchange

    async def careless(self: Any, request: httpx.Request) -> httpx.Response:
        request.headers.pop("if-match", None)
        return await exchange(self, request)

    put(wire.Wire, "_exchange", careless)


def no_fsync_of_drafts(put: Put) -> None:
    """Written bytes are not brought to the disk."""
    heard = disk.Disks.heard
    put(disk.Disks, "heard", lambda self, path: None if path.suffix == ".draft" else heard(self, path))


def no_fsync_of_the_log(put: Put) -> None:
    """The rows that speak of them are not."""
    heard = disk.Disks.heard
    put(disk.Disks, "heard", lambda self, path: None if path.name.endswith("-wal") else heard(self, path))


def no_fsync_of_names(put: Put) -> None:
    """The names of new files are not."""
    heard = disk.Disks.heard
    put(disk.Disks, "heard", lambda self, path: None if path.is_dir() else heard(self, path))


def news_of_the_past(put: Put) -> None:
    """News count however old they are."""
    merge = apply_remote.apply

    def apply(conn: Any, remotes: Any, **how: Any) -> Any:
        return merge(conn, [one._replace(sequence=one.sequence + 10**6) for one in remotes], **how)

    put(apply_remote, "apply", apply)


def refusal_taken_for_success(put: Put) -> None:
    """An upload that was refused, since there is another version, counts as done."""

    async def done(context: Any, task: Any, theirs: Any, *, anew: bool = False) -> None:
        def txn(conn: Any) -> None:
            node = tree.get(conn, task.node.ino)
            conn.execute("UPDATE node SET base_sha1 = sha1, etag = ? WHERE ino = ?", (theirs.etag, node.ino))
            queue.finish(conn, task.op)

        await context.db.write(txn)

    put(conflicts, "keep_both", done)


def failure_given_up(put: Put) -> None:
    """What failed once is not tried again."""
    put(queue, "retry", lambda conn, op, **how: op_rows.delete(conn, op.seq))


def our_changes_overlooked(put: Put) -> None:
    """News do not look whether something of ours is still to be sent."""
    put(local_work, "pending", lambda conn, ino: set())


def deferred_news_forgotten(put: Put) -> None:
    """What came while work of ours was in its way is not looked at again."""
    put(local_work, "defer", lambda conn, update: None)


def lineage_not_split(put: Put) -> None:
    """Other bytes come into a file that is open."""
    put(lineages, "split_off", lambda conn, node, changes: node)


def no_invalidation(put: Put) -> None:
    """The kernel is not told of what has changed."""

    async def tell(self: Any, changes: Any) -> list[Any]:
        return []

    put(remembered.Remembered, "tell", tell)


def old_pages_kept(put: Put) -> None:
    """Whoever opens a file keeps the pages of the version before."""
    put(files, "OpenResult", lambda fh, **how: OpenResult(fh, keep_cache=True))


def name_unlinked_early(put: Put) -> None:
    """A draft's name goes before the row that makes it superfluous is on the disk."""

    def unlink(self: Any, path: Path) -> None:
        path.unlink(missing_ok=True)

    put(group_commit.GroupCommit, "unlink", unlink)


def order_ignored(put: Put) -> None:
    """Operations do not wait for those that they depend on."""
    put(queue, "_waits_for", lambda conn, op, node: None)


def lost_answer_forgotten(put: Put) -> None:
    """What was sent without an answer is not looked for before its item is made elsewhere."""
    put(in_flight, "new_items", lambda db, ino: [])


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
    )
}

# Those that only a power cut tells.
OF_THE_DISK = {"no_fsync_of_drafts", "no_fsync_of_the_log", "no_fsync_of_names", "name_unlinked_early"}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """While this lasts the product has this bug; None: no more than it has."""
    with contextlib.ExitStack() as stack:

        def put(holder: Any, attribute: str, value: Any) -> None:
            stack.callback(setattr, holder, attribute, getattr(holder, attribute))
            setattr(holder, attribute, value)

        if name is not None:
            PLANTED[name](put)
        yield
