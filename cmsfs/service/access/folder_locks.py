"""Locks on folders: who owns a folder keeps it, and what is above it, from being moved or deleted.

Rule: a lock holds for everybody, the one who made it too; it is taken away first.
"""

from sqlite3 import Row

from cmsfs.service import problems
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Read

_BELOW = """
  SELECT 1 FROM folder_lock CROSS JOIN item
    WHERE item.id = folder AND deletes = 1 AND (folder = ? OR (path >= ? AND path < ?)) LIMIT 1
"""


def check_move(read: Read, row: Row) -> None:
    """403 if a folder is locked against being moved and renamed."""
    if row["kind"] == ItemKind.FOLDER and read(
        "SELECT 1 FROM folder_lock WHERE folder = ? AND moves = 1", row["id"]
    ):
        raise _locked("The folder is locked against being moved or renamed.")


def check_delete(read: Read, row: Row) -> None:
    """403 if a folder, or one below it, is locked against being deleted."""
    if read(_BELOW, row["id"], *tree_paths.below(row)):
        raise _locked("The folder, or one in it, is locked against being deleted.")


def _locked(said: str) -> problems.Refused:
    return problems.Refused(403, "access_denied_item_locked", said)
