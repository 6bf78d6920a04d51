"""Pinned items, and the disk space that they need.

A pin applies to an item and everything below it, now and later.  `daemon.fetch.pins` downloads; it calls
`survey` to find what is missing, and marks contents with `cache.content_table`.

Rule: a survey walks every pinned tree (some 20 ms for 5,000 files); call it in a thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from sqlite3 import Connection, Row

from cmsfs.replica.nodes import ROOT, TRASH, Content, Ino
from cmsfs.sqlite import Database

_BELOW = """
  WITH RECURSIVE below(ino) AS (
    SELECT ?1 UNION ALL SELECT n.ino FROM node AS n JOIN below AS b ON n.parent = b.ino
  )
"""
_FILES = (
    _BELOW
    + """
  SELECT n.sha1, ifnull(d.base_total, n.size) AS size, n.remote_id, n.version, n.base_sha1,
         c.sha1 IS NOT NULL AS known, c.dirty, c.pinned, c.bitmap IS NULL AND (c.verified OR c.dirty) AS whole
  FROM below AS b JOIN node AS n ON n.ino = b.ino LEFT JOIN content AS c ON c.sha1 = n.sha1
  LEFT JOIN draft AS d ON d.id = n.draft
  WHERE n.kind = 'file' AND n.sha1 IS NOT NULL AND (n.draft IS NULL OR d.base_sha1 = n.sha1)
    AND ifnull(d.base_total, n.size) > 0
"""
)
_UNLISTED = (
    _BELOW
    + """
  SELECT n.ino FROM below AS b JOIN node AS n ON n.ino = b.ino LEFT JOIN listing AS l ON l.ino = n.ino
  WHERE n.kind = 'folder' AND n.remote_id IS NOT NULL AND (l.listed_at IS NULL OR l.listed_at < 0)
"""
)
# CROSS JOIN: from the few pins to their nodes; the planner would scan all nodes.
_ROOTS = (
    "SELECT p.ino FROM pin AS p CROSS JOIN node AS n ON n.ino = p.ino WHERE n.parent IS NOT NULL OR n.ino = 1"
)


@dataclass(slots=True)
class Tree:
    """Progress of one pinned item; empty files are not counted, and drafts count with their base contents."""

    ino: Ino
    files: int = 0
    bytes: int = 0
    files_here: int = 0
    bytes_here: int = 0
    is_known: bool = True  # False: folders in it are not listed, so there may be more


@dataclass(slots=True)
class WantedContent:
    """A content that is not downloaded or not verified, and how often each pinned tree has it."""

    content: Content
    trees: list[Tree] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Survey:
    """The downloads that are still needed."""

    trees: list[Tree]
    wanted: list[WantedContent]
    unlisted: list[Ino]  # folders that are not listed completely yet, ancestors first
    mark: list[tuple[str, int]]  # contents (SHA-1, size) to protect from eviction
    release: list[str]  # protected contents that need no protection any more

    @property
    def wanted_bytes(self) -> int:
        return sum(one.content.size for one in self.wanted)


def add(conn: Connection, ino: Ino, *, at: int) -> bool:
    """Pin an item, unless it is already pinned; return whether it exists."""
    conn.execute("INSERT OR IGNORE INTO pin(ino, pinned_at) SELECT ino, ? FROM node WHERE ino = ?", (at, ino))
    return conn.execute("SELECT 1 FROM pin WHERE ino = ?", (ino,)).fetchone() is not None


def transfer(conn: Connection, old: Ino, new: Ino) -> None:
    """Move the pin on `old` to `new`, which may have one."""
    conn.execute("UPDATE OR IGNORE pin SET ino = ?2 WHERE ino = ?1", (old, new))


def remove(conn: Connection, ino: Ino) -> bool:
    """Remove the pin on an item; whether there was one on this item itself."""
    return conn.execute("DELETE FROM pin WHERE ino = ?", (ino,)).rowcount > 0


def remove_below(conn: Connection, ino: Ino) -> int:
    """Remove the pins on an item and everything below it; return how many."""
    return conn.execute(_BELOW + "DELETE FROM pin WHERE ino IN (SELECT ino FROM below)", (ino,)).rowcount


def pinned_contents(conn: Connection) -> set[str]:
    """Return the contents of all pinned items."""
    roots = conn.execute(_ROOTS).fetchall()
    return {row["sha1"] for root in roots for row in conn.execute(_FILES, (root["ino"],))}


def roots(db: Database) -> list[Ino]:
    """Return the pinned items that are on the drive."""
    return [row["ino"] for row in db.rows(_ROOTS)]


def any_left(db: Database) -> bool:
    """Whether there are pins, or contents still marked as pinned."""
    sql = "SELECT EXISTS (SELECT 1 FROM pin) OR EXISTS (SELECT 1 FROM content WHERE pinned)"
    return bool((db.row(sql) or [0])[0])


def holder(db: Database, ino: Ino) -> Ino | None:
    """Return the pinned item at or above this one; None if it is not pinned."""
    current: Ino | None = ino
    while current is not None and current != TRASH:
        if db.row("SELECT 1 FROM pin WHERE ino = ?", current) is not None:
            return current
        row = db.row("SELECT parent FROM node WHERE ino = ?", current)
        current = row["parent"] if row and current != ROOT else None
    return None


def survey(conn: Connection) -> Survey:
    """Return what is missing of all pinned items."""
    trees: list[Tree] = []
    wanted: dict[str, WantedContent] = {}
    mark: dict[str, int] = {}
    keep: set[str] = set()
    unlisted: dict[Ino, None] = {}
    for found in conn.execute(_ROOTS).fetchall():
        tree = Tree(found["ino"])
        trees.append(tree)
        folders = [row["ino"] for row in conn.execute(_UNLISTED, (tree.ino,))]
        tree.is_known = not folders
        unlisted.update(dict.fromkeys(folders))
        for row in conn.execute(_FILES, (tree.ino,)):
            _look(row, tree, wanted)
            keep.add(row["sha1"])
            if not row["pinned"]:
                mark[row["sha1"]] = row["size"]
    release = [sha1 for sha1 in _marked(conn) if sha1 not in keep]
    return Survey(trees, list(wanted.values()), list(unlisted), list(mark.items()), release)


def progress_of(conn: Connection, ino: Ino) -> Tree:
    """Return the progress of one item."""
    tree = Tree(ino, is_known=conn.execute(_UNLISTED, (ino,)).fetchone() is None)
    for row in conn.execute(_FILES, (ino,)):
        _look(row, tree, {})
    return tree


def missing_below(conn: Connection, ino: Ino) -> int:
    """Return the bytes to download to pin an item, as far as its contents are known."""
    wanted: dict[str, WantedContent] = {}
    tree = Tree(ino)
    for row in conn.execute(_FILES, (ino,)):
        _look(row, tree, wanted)
    return sum(one.content.size for one in wanted.values())


def _look(row: Row, tree: Tree, wanted: dict[str, WantedContent]) -> None:
    tree.files += 1
    tree.bytes += row["size"]
    if row["known"] and row["whole"]:
        tree.files_here += 1
        tree.bytes_here += row["size"]
    elif row["sha1"] == row["base_sha1"] and row["remote_id"] is not None:
        content = Content(row["sha1"], row["size"], row["remote_id"], row["version"])
        wanted.setdefault(row["sha1"], WantedContent(content)).trees.append(tree)


def _marked(conn: Connection) -> Iterator[str]:
    for row in conn.execute("SELECT sha1 FROM content WHERE pinned"):
        yield row["sha1"]
