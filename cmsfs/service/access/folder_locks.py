"""Folder locks: a folder's owner protects it and its parent folders from being moved or deleted.

Rule: a lock binds everybody, its creator included, until it is removed.
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
    """Raise 403 if a folder is locked against moving and renaming."""
    if row["kind"] == ItemKind.FOLDER and read(
        "SELECT 1 FROM folder_lock WHERE folder = ? AND moves = 1", row["id"]
    ):
        raise _locked("The folder is locked against being moved or renamed.")


def check_delete(read: Read, row: Row) -> None:
    """Raise 403 if a folder, or one below it, is locked against deletion."""
    if read(_BELOW, row["id"], *tree_paths.below(row)):
        raise _locked("The folder, or one in it, is locked against being deleted.")


def _locked(message: str) -> problems.Refused:
    return problems.Refused(403, "access_denied_item_locked", message)
