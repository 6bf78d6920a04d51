"""Bugs for `planted` that the product once had: each reverts a fix."""

from collections.abc import Callable
from typing import Any

from cmsfs.journal import deadlocks
from cmsfs.replica.merge import apply_remote, decisions, deletions, local_work, placement
from cmsfs.replica.nodes import Node, Remote
from cmsfs.replica.rows import op_rows
from cmsfs.sqlite import Connection
from daemon.core.remote_updates import RemoteUpdates
from daemon.push.dispatcher import Dispatcher
from daemon.push.operations import moves

Put = Callable[[Any, str, Any], None]


def names_not_given_back(put: Put) -> None:
    """An item renamed locally for a name conflict keeps that name when the original is free again."""
    put(placement, "restore_name", lambda *what, **how: None)


def lost_folder_takes_unsent_along(put: Put) -> None:
    """A folder that is no longer available takes unsent local items with it."""
    put(local_work, "has_unsent_below", lambda conn, ino: False)


def deletion_takes_unsent_along(put: Put) -> None:
    """A remote deletion removes a file with unsent local bytes."""
    put(local_work, "has_bytes", lambda conn, node: False)


def folder_takes_moved_along(put: Put) -> None:
    """A remote deletion of a folder removes items that were moved out of it locally."""
    put(deletions, "_elsewhere", lambda conn, inos: set())


def early_children_collide(put: Put) -> None:
    """Restored children that precede their folder block all remote updates if their name is taken in it."""

    def take_along(conn: Connection, old: int, new: int, changes: list[Any]) -> None:
        conn.execute("UPDATE node SET parent = ? WHERE parent = ?", (new, old))

    put(placement, "take_along", take_along)


def rings_not_opened(put: Put) -> None:
    """Cycles of operations that wait for each other are not broken."""
    put(deadlocks, "step_aside", lambda conn: None)


def clock_set_back_delays(put: Put) -> None:
    """After the clock is set back, delayed operations wait for the old wall-clock time."""

    async def nothing(self: Any) -> None:
        pass

    put(Dispatcher, "_follow_clock", nothing)
    put(op_rows, "bound", lambda conn, **how: None)


def numbers_of_a_backup_believed(put: Put) -> None:
    """A version number that a restored service reuses is taken for the earlier version."""

    def is_version(conn: Connection, node: Node, remote: Remote) -> bool:
        return node.etag is None or remote.sequence != node.sequence or remote.etag != node.etag

    put(decisions, "_is_version", is_version)


def deletions_of_a_backup_believed(put: Put) -> None:
    """Items whose deletion is undone by a restored backup stay deleted locally."""
    put(RemoteUpdates, "disputed", lambda self: [])
    put(RemoteUpdates, "forget_deleted", lambda self, conn: None)


def late_answer_is_the_base(put: Put) -> None:
    """An answer that arrives after a later version of the item becomes the base of the next upload."""
    put(apply_remote, "_was_overtaken", lambda there, answer, sent: False)


def taken_back_move_forgotten(put: Put) -> None:
    """A rename whose answer was lost stays at the service when it is taken back locally."""

    async def changes_there(context: Any, node: Any, *, is_new: bool) -> tuple[bool, bool]:
        return False, False

    put(op_rows, "end_move", lambda conn, ino, due_ns: op_rows.delete_waiting(conn, ino, "move"))
    put(moves, "_changes_there", changes_there)


EARLIER: tuple[Callable[[Put], None], ...] = (
    names_not_given_back,
    lost_folder_takes_unsent_along,
    deletion_takes_unsent_along,
    folder_takes_moved_along,
    early_children_collide,
    rings_not_opened,
    clock_set_back_delays,
    numbers_of_a_backup_believed,
    deletions_of_a_backup_believed,
    late_answer_is_the_base,
    taken_back_move_forgotten,
)
