"""The inode numbers (`st_ino`) that programs see for files: derived from a file's first place, not from its
row.

Programs that remember inode numbers (git's index, backups) read a file again if its number has changed.  Row
ids are specific to this machine and this replica.  A number derived from folder and name is the same on every
machine, and after the local state was lost; then it stays with its row, even if that is renamed.  The kernel
still uses row ids, which are never reused.  Folders, links, and files whose number is taken use their row id.

Rule: no two rows have the same number, and no row gets or loses one while it is open.
"""

import zlib
from sqlite3 import Connection

from cmsfs.replica import inodes
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database

# Above every row id, and below every number that is not of a row.
FIRST = 1 << 56
LAST = (1 << 57) - 1

_FOLDER_BITS = 24

# Files in folders that were unknown when the files arrived.
_BELOW = """
  WITH RECURSIVE below(ino) AS (
    SELECT ?1 UNION ALL
    SELECT n.ino FROM below AS b CROSS JOIN node AS n ON n.parent = b.ino WHERE n.kind = 'folder')
  SELECT n.ino FROM below AS b CROSS JOIN node AS n ON n.parent = b.ino
  WHERE n.kind = 'file' AND n.number IS NULL
"""


def of_place(folder: str, name: str) -> int:
    """Return the number for the first file of this name in a folder (its path).

    The numbers of a folder's files are close together, so that a listing changes few pages of the index.
    """
    above = zlib.crc32(folder.encode("utf-8", "surrogateescape")) & ((1 << _FOLDER_BITS) - 1)
    return FIRST | above << 32 | zlib.crc32(name.encode("utf-8", "surrogateescape"))


def folder_path(conn: Connection, folder: Ino) -> str | None:
    """Return the path of a folder from the drive's root; None if it is not, or not known to be, below it."""
    names: list[str] = []
    current: Ino | None = folder
    while current != ROOT:
        row = conn.execute("SELECT parent, name FROM node WHERE ino = ?", (current,)).fetchone()
        if row is None or row[0] is None:
            return None
        current = row[0]
        names.append(row[1])
    return "/".join(reversed(names))


def for_new(conn: Connection, folder: Ino | None, name: str, *, path: str | None = None) -> int | None:
    """Return the number for a new file at this place; None: use its row id.  `path`: its folder's, if the
    caller has it."""
    if path is None and folder is not None:
        path = folder_path(conn, folder)
    if path is None:
        return None
    number = of_place(path, name)
    holder = conn.execute("SELECT ino, parent FROM node WHERE number = ?", (number,)).fetchone()
    if holder is None:
        return number
    if holder[1] is not None or inodes.is_open(conn, holder[0]):
        return None
    # The holder was removed from here and can no longer be accessed.
    conn.execute("UPDATE node SET number = NULL WHERE ino = ?", (holder[0],))
    return number


def give(conn: Connection, ino: Ino) -> None:
    """Assign a number to a file that no program has seen yet, now that its place is known."""
    row = conn.execute("SELECT parent, name FROM node WHERE ino = ? AND kind = 'file'", (ino,)).fetchone()
    if row is not None and row[0] is not None:
        number = for_new(conn, row[0], row[1])
        conn.execute("UPDATE node SET number = ? WHERE ino = ?", (number, ino))


def give_below(conn: Connection, folder: Ino) -> None:
    """Assign numbers to all files below a folder that was not reachable so far."""
    for row in conn.execute(_BELOW, (folder,)).fetchall():
        give(conn, row[0])


def inodes_of(db: Database, shown: set[int]) -> set[Ino]:
    """Return the inodes with these numbers, as shown to programs and in the kernel's tables."""
    found: set[Ino] = set()
    for number in shown:
        if FIRST <= number <= LAST:
            row = db.row("SELECT ino FROM node WHERE number = ?", number)
            found |= set() if row is None else {row["ino"]}
        else:
            found.add(number)
    return found
