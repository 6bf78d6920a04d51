"""Bugs for `planted` that the product had: each takes back what mended one."""

from collections.abc import Callable
from typing import Any

from cmsfs.journal import queue
from cmsfs.replica.merge import decisions, deletions, local_work, placement
from cmsfs.replica.nodes import Node, Remote
from cmsfs.replica.rows import op_rows
from cmsfs.sqlite import Connection
from daemon.core.remote_updates import RemoteUpdates
from daemon.push.dispatcher import Dispatcher

Put = Callable[[Any, str, Any], None]


def names_not_given_back(put: Put) -> None:
    """Who made way for another of its name keeps the other name when that is free again."""
    put(placement, "restore_name", lambda *what, **how: None)


def lost_folder_takes_unsent_along(put: Put) -> None:
    """What only we have goes into a folder that is gone."""
    put(local_work, "has_unsent_below", lambda conn, ino: False)


def deletion_takes_unsent_along(put: Put) -> None:
    """A file that was deleted elsewhere goes with the bytes that only we have."""
    put(local_work, "has_bytes", lambda conn, node: False)


def folder_takes_moved_along(put: Put) -> None:
    """A folder that was deleted elsewhere takes along what was moved out of it here."""
    put(deletions, "_elsewhere", lambda conn, inos: set())


def early_children_collide(put: Put) -> None:
    """What came back before its folder stops all news if something of its name is in that by now."""

    def take_along(conn: Connection, old: int, new: int, changes: list[Any]) -> None:
        conn.execute("UPDATE node SET parent = ? WHERE parent = ?", (new, old))

    put(placement, "take_along", take_along)


def rings_not_opened(put: Put) -> None:
    """Operations that wait for each other wait for ever."""
    put(queue, "step_aside", lambda conn: None)


def clock_set_back_delays(put: Put) -> None:
    """What waits does so until the wall clock says what it said before it was set back."""

    async def nothing(self: Any) -> None:
        pass

    put(Dispatcher, "_follow_clock", nothing)
    put(op_rows, "bound", lambda conn, **how: None)


def numbers_of_a_backup_believed(put: Put) -> None:
    """A number that a restored service gives a second time is taken for what it stood for before."""

    def is_version(conn: Connection, node: Node, remote: Remote) -> bool:
        return node.etag is None or remote.sequence != node.sequence or remote.etag != node.etag

    put(decisions, "_is_version", is_version)


def deletions_of_a_backup_believed(put: Put) -> None:
    """What was deleted before a backup of the service was put back stays away, though it is there again."""
    put(RemoteUpdates, "disputed", lambda self: [])
    put(RemoteUpdates, "forget_deleted", lambda self: None)


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
)
