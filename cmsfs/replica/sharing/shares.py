"""The items shared with this account, and the folder in which they appear.

The service lists them beside one's own items in the root, under names that somebody else has chosen and may
change at any time.  Here they are in a folder of the drive, `Shared with me`, which the service does not
have: it corresponds to the root there, is created when something is shared, and removed when nothing is any
more.

Rule: `owned_by` determines an item's owner.  While the drive's owner is unknown, everything counts as one's
own; mistakes are corrected when it becomes known (`configure`).
"""

import functools
import json
from dataclasses import asdict, dataclass
from sqlite3 import Connection

from cmsfs.config import local_patterns
from cmsfs.models import wire_names
from cmsfs.replica import kv_store, naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind, Remote
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

NAME = local_patterns.SHARED
# Distinguishes it from an item of one's own with the same name.
BESIDE = "from others"

# In the folder itself, items are created, renamed or removed only as programs need it to save a shared file.
MODE = 0o755

_NODE = "SELECT ino, parent FROM node WHERE local AND local = 2"
_OWNER = "SELECT json_extract(item, '$.owned_by.id') FROM node WHERE ino = ?"

# Increment when the names reserved by `naming` change: then existing names are checked again.
RULES = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """The drive's owner, whether shared items appear in the root itself, further reserved names of the root,
    and whether the user is asked first (`offers`)."""

    me: str | None = None
    in_root: bool = False
    reserved: tuple[str, ...] = ()
    version: int = RULES
    asks: bool = False


def rules(conn: Connection) -> Rules:
    """Return the rules that the tree was built with."""
    return _read(kv_store.at(conn, kv_store.SHARES))


def rules_of(db: Database) -> Rules:
    """As `rules`, outside of a transaction."""
    return _read(kv_store.get(db, kv_store.SHARES))


# Called several times for each item, with the same result for as long as the drive runs.
@functools.lru_cache(maxsize=4)
def _read(text: str | None) -> Rules:
    if text is None:
        return Rules()
    found = json.loads(text)
    asks = found.get("asks", False)
    return Rules(found["me"], found["in_root"], tuple(found["reserved"]), found["version"], asks)


def keep(conn: Connection, wanted: Rules) -> bool:
    """Store the rules; whether they have changed."""
    if rules(conn) == wanted and kv_store.at(conn, kv_store.SHARES) is not None:
        return False
    kv_store.put(conn, kv_store.SHARES, json.dumps(asdict(wanted)))
    return True


def is_shared(found: Rules, remote: Remote) -> bool:
    """Whether an item itself is shared by others, not merely below a shared one."""
    if remote.parent_id != wire_names.ROOT_ID or found.me is None:
        return False
    return remote.user_id("owned_by") not in (None, found.me)


def owner_id(db: Database, ino: Ino) -> str | None:
    """Return the ID of an item's owner, as the service last reported it."""
    row = db.row(_OWNER, ino)
    return row[0] if row else None


def is_shared_node(conn: Connection, node: Node) -> bool:
    """As `is_shared`, for a node."""
    if node.remote_id is None:
        return False
    if node.parent is not None and tree.get(conn, node.parent).is_shelf:
        return True
    is_lost = node.base_parent is None and node.parent == ROOT and node.etag is not None
    if node.base_parent != wire_names.ROOT_ID and not is_lost:
        return False
    me = rules(conn).me
    owner = conn.execute(_OWNER, (node.ino,)).fetchone()[0]
    return me is not None and owner is not None and owner != me


def top(conn: Connection, ino: Ino) -> Node | None:
    """Return the shared item at or above a node; None if it is one's own, or no longer on the drive."""
    current: Ino | None = ino
    while current is not None and current != ROOT:
        if (node := tree.find_at(conn, current)) is None:
            return None
        if is_shared_node(conn, node):
            return node
        current = node.parent
    return None


def owner(db: Database, ino: Ino) -> str:
    """Return the owner of an item that is somebody else's; "" for one's own."""
    found = json.loads(tree.item_json(db, ino) or "{}").get("owned_by") or {}
    me = rules_of(db).me
    if me is None or found.get("id") in (None, me):
        return ""
    return str(found.get("name") or found.get("login") or found["id"])


def told_name(found: Rules, remote: Remote, parent: Ino) -> str:
    """Return an item's name in this folder, if it is free."""
    at_root = parent == ROOT
    return naming.file_name(
        remote.kind,
        remote.name,
        at_root=at_root,
        foreign=is_shared(found, remote),
        reserved=found.reserved if at_root else (),
    )


def find(conn: Connection) -> Ino | None:
    """Return the folder `Shared with me`, if it exists."""
    row = conn.execute(_NODE).fetchone()
    return row["ino"] if row is not None and row["parent"] is not None else None


def shelf(conn: Connection, changes: list[Change]) -> Ino:
    """Return the folder `Shared with me`; create it if it does not exist."""
    row = conn.execute(_NODE).fetchone()
    if row is not None and row["parent"] is not None:
        return int(row["ino"])
    name = _free_name(conn)
    now = clock.time_ns()
    if row is None:
        ino = tree.insert(conn, ROOT, name, NodeKind.FOLDER, now_ns=now, mode=MODE)
        node_rows.set_local(conn, ino, 2)
    else:
        ino = row["ino"]
        tree.place(conn, ino, ROOT, name)
    tree.mark_listed(conn, ino, at=now // 10**9)
    changes.append(Change(ChangeKind.ENTRY, ino, ROOT, name))
    return ino


def remove_if_empty(conn: Connection, changes: list[Change]) -> None:
    """Remove the folder if it is empty; otherwise restore its name if that is free."""
    ino = find(conn)
    if ino is None:
        return
    node = tree.get(conn, ino)
    if not tree.has_children(conn, ino):
        tree.detach(conn, ino)
        changes.append(Change(ChangeKind.GONE, ino, ROOT, node.name))
    elif node.name != NAME and tree.child_at(conn, ROOT, NAME) is None:
        _rename(conn, node, NAME, changes)


def yield_name(conn: Connection, node: Node, changes: list[Change]) -> None:
    """Rename the folder to free its name for an item of one's own."""
    _rename(conn, node, _free_name(conn), changes)


def _rename(conn: Connection, node: Node, name: str, changes: list[Change]) -> None:
    tree.place(conn, node.ino, ROOT, name)
    changes.append(Change(ChangeKind.ENTRY, node.ino, ROOT, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, ROOT, name))


def _free_name(conn: Connection) -> str:
    name, number = NAME, 1
    while tree.child_at(conn, ROOT, name) is not None:
        name = naming.distinct(NAME, BESIDE if number == 1 else f"{BESIDE}, {number}")
        number += 1
    return name
