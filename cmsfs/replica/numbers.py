"""The inode numbers that programs see of files: by where a file first was, not by its row.

Programs that remember inode numbers (git's index, backups) take a file with another number for another file,
and read it.  Row IDs are of this machine, and of this copy of the tree.  A number by folder and name is the
same on every machine, and after the local state was lost; from then on it stays with its row, however that is
renamed.  The kernel goes on naming files by their row IDs, which are never used twice.  Folders, links, and
files whose number is taken have the number of their row.

Rule: no two rows have one number, and no row gets or loses one while somebody has it open.
"""

import zlib
from sqlite3 import Connection

from cmsfs.replica import inodes
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database

# Above every row ID, and below every number that is no row's.
FIRST = 1 << 56
LAST = (1 << 57) - 1

_FOLDER_BITS = 24

# Files of folders that nobody had heard of when the files came.
_BELOW = """
  WITH RECURSIVE below(ino) AS (
    SELECT ?1 UNION ALL
    SELECT n.ino FROM below AS b CROSS JOIN node AS n ON n.parent = b.ino WHERE n.kind = 'folder')
  SELECT n.ino FROM below AS b CROSS JOIN node AS n ON n.parent = b.ino
  WHERE n.kind = 'file' AND n.number IS NULL
"""


def of_place(folder: str, name: str) -> int:
    """The number of the first file of this name in a folder (its path).

    The files of a folder are close together, so that a listing changes few pages of the index.
    """
    above = zlib.crc32(folder.encode("utf-8", "surrogateescape")) & ((1 << _FOLDER_BITS) - 1)
    return FIRST | above << 32 | zlib.crc32(name.encode("utf-8", "surrogateescape"))


def folder_path(conn: Connection, folder: Ino) -> str | None:
    """The path of a folder from the root of the drive; None if it is not below that, or not known to be."""
    names: list[str] = []
    current: Ino | None = folder
    while current != ROOT:
        row = conn.execute("SELECT parent, name FROM node WHERE ino = ?", (current,)).fetchone()
        if row is None or row[0] is None:
            return None
        current = row[0]
        names.append(row[1])
    return "/".join(reversed(names))


def for_new(conn: Connection, folder: Ino, name: str) -> int | None:
    """The number for a file that appears at this place; None: that of its row."""
    path = folder_path(conn, folder)
    if path is None:
        return None
    number = of_place(path, name)
    holder = conn.execute("SELECT ino, parent FROM node WHERE number = ?", (number,)).fetchone()
    if holder is None:
        return number
    if holder[1] is not None or inodes.is_open(conn, holder[0]):
        return None
    # What was removed from here, and nobody can look at any more.
    conn.execute("UPDATE node SET number = NULL WHERE ino = ?", (holder[0],))
    return number


def give(conn: Connection, ino: Ino) -> None:
    """A number for a file that nobody has seen yet, now that its place is known."""
    row = conn.execute("SELECT parent, name FROM node WHERE ino = ? AND kind = 'file'", (ino,)).fetchone()
    if row is not None and row[0] is not None:
        number = for_new(conn, row[0], row[1])
        conn.execute("UPDATE node SET number = ? WHERE ino = ?", (number, ino))


def give_below(conn: Connection, folder: Ino) -> None:
    """Numbers for all files below a folder that nobody could come to yet."""
    for row in conn.execute(_BELOW, (folder,)).fetchall():
        give(conn, row[0])


def inodes_of(db: Database, shown: set[int]) -> set[Ino]:
    """The inodes that have these numbers, as programs and the kernel's own tables show them."""
    found: set[Ino] = set()
    for number in shown:
        if FIRST <= number <= LAST:
            row = db.row("SELECT ino FROM node WHERE number = ?", number)
            found |= set() if row is None else {row["ino"]}
        else:
            found.add(number)
    return found
