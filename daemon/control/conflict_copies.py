"""Lists the conflict copies on the drive."""

from datetime import UTC, datetime
from sqlite3 import Connection

from cmsfs.ipc import attention
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database

# Worded exactly as the condition of the partial index, or SQLite would not use it.
_COPIES = (
    f"SELECT ino FROM node WHERE parent IS NOT NULL AND instr(name, '{naming.CONFLICT_MARK}') > 0"
    " ORDER BY mtime_ns DESC"
)


async def copies(db: Database) -> list[attention.ConflictCopyStatus]:
    """Return every conflict copy, newest first."""

    def read(conn: Connection) -> list[Ino]:
        return [row["ino"] for row in conn.execute(_COPIES)]

    found = [_copy(db, ino) for ino in await db.query(read)]
    return [copy for copy in found if copy is not None]


def _copy(db: Database, ino: Ino) -> attention.ConflictCopyStatus | None:
    node = tree.find(db, ino)
    name = naming.original_name(node.name) if node is not None else None
    if node is None or node.parent is None or name is None:
        return None
    holder = tree.find_child(db, node.parent, name)
    return attention.ConflictCopyStatus(
        path=tree.path(db, ino),
        original=tree.path(db, holder.ino) if holder is not None else "",
        modified=datetime.fromtimestamp(node.mtime_ns / 10**9, UTC),
    )
