"""What the merge must know of operations that are not sent yet."""

from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.merge import deferred_updates
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import op_rows


def record(conn: Connection, ino: Ino, kind: str) -> None:
    """Have something sent at once."""
    op_rows.record_once(conn, ino, kind)


def pending(conn: Connection, ino: Ino) -> set[str]:
    """The kinds of changes of a node that are still to be sent."""
    return {row[0] for row in conn.execute("SELECT kind FROM op WHERE ino = ?", (ino,))}


def has_bytes(conn: Connection, node: Node) -> bool:
    """Whether the node has bytes that only we have."""
    return node.draft is not None or "upload" in pending(conn, node.ino)


def has_unsent_below(conn: Connection, ino: Ino) -> bool:
    """Whether there are bytes or folders at the node or below it that the service does not have."""
    for one in tree.subtree(conn, ino):
        if pending(conn, one) & {"upload", "mkdir"} or tree.get(conn, one).draft is not None:
            return True
    return False


def forget(conn: Connection, ino: Ino) -> None:
    """The service does not have this node, or has it as another's: it is only ours, and no web link, then."""
    conn.execute(
        "UPDATE node SET kind = CASE kind WHEN 'web_link' THEN 'file' ELSE kind END,"
        " remote_id = NULL, etag = NULL, version = NULL, base_sha1 = NULL,"
        " base_parent = NULL, base_name = NULL, base_key = NULL, sequence = 0 WHERE ino = ?",
        (ino,),
    )


def recreate(conn: Connection, node: Node) -> None:
    """The service no longer has the node (or shows it to us): as it is here it is an item to be made."""
    if node.remote_id is not None:
        # The answer to what we are sending at this moment may bring it back, though not here.
        deferred_updates.note(
            conn,
            deferred_updates.DeferredUpdate(node.kind, node.remote_id, deferred_updates.ANYHOW, node.ino),
        )
    if node.base_sha1 is not None and node.remote_id is not None:
        # What it was laid over can be had there again, should the item come back.
        tree.keep_version(conn, node.base_sha1, node.remote_id, node.version)
    forget(conn, node.ino)
    op_rows.delete_kinds(conn, node.ino, "move", "touch", "trash")
    if node.is_folder:
        record(conn, node.ino, "mkdir")


def resume_after_base(conn: Connection, sha1: str) -> None:
    """The service shows these bytes (again): what waits for them, since it was written over them, goes on."""
    op_rows.release_uploads_over(conn, sha1)
