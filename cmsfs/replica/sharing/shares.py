"""The items shared with this account, and the folder in which they appear.

The service shows them beside what is in one's own root, under names that somebody else has chosen and may
change at any time.  Here they are in a folder of the drive's own, `Shared with me`, which the service does
not know: it stands for the root there, is made when something is shared, and goes when nothing is any more.

Rule: whose an item is, its `owned_by` says.  Of a root whose owner is not known everything is one's own; what
that got wrong is put right when it becomes known (`configure`).
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
# What it is called beside something of one's own that is called so.
BESIDE = "from others"

# Nothing is made, renamed or removed in the folder itself but what programs need to save a shared file.
MODE = 0o755

_NODE = "SELECT ino, parent FROM node WHERE local AND local = 2"
_OWNER = "SELECT json_extract(item, '$.owned_by.id') FROM node WHERE ino = ?"

# Raised when what `naming` reserves changes: known names are looked at again.
RULES = 1


@dataclass(frozen=True, slots=True)
class Rules:
    """Whose drive it is, whether what others share is shown in the root itself, which names of the root are
    the drive's own besides those that always are, and whether the person is asked first (`offers`)."""

    me: str | None = None
    in_root: bool = False
    reserved: tuple[str, ...] = ()
    version: int = RULES
    asks: bool = False


def rules(conn: Connection) -> Rules:
    """The rules that the tree was made by."""
    return _read(kv_store.at(conn, kv_store.SHARES))


def rules_of(db: Database) -> Rules:
    """As `rules`, as of the last commit."""
    return _read(kv_store.get(db, kv_store.SHARES))


# Asked for several times an item, and the same for as long as the drive runs.
@functools.lru_cache(maxsize=4)
def _read(text: str | None) -> Rules:
    if text is None:
        return Rules()
    found = json.loads(text)
    asks = found.get("asks", False)
    return Rules(found["me"], found["in_root"], tuple(found["reserved"]), found["version"], asks)


def keep(conn: Connection, wanted: Rules) -> bool:
    """Note the rules; whether they are others than before."""
    if rules(conn) == wanted and kv_store.at(conn, kv_store.SHARES) is not None:
        return False
    kv_store.put(conn, kv_store.SHARES, json.dumps(asdict(wanted)))
    return True


def is_shared(found: Rules, remote: Remote) -> bool:
    """Whether an item is one of those that others share, and not merely below one."""
    if remote.parent_id != wire_names.ROOT_ID or found.me is None:
        return False
    return remote.user_id("owned_by") not in (None, found.me)


def is_shared_node(conn: Connection, node: Node) -> bool:
    """As `is_shared`, of a node."""
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
    """What others share that a node is, or is below; None: it is one's own, or no more."""
    current: Ino | None = ino
    while current is not None and current != ROOT:
        if (node := tree.find_at(conn, current)) is None:
            return None
        if is_shared_node(conn, node):
            return node
        current = node.parent
    return None


def owner(db: Database, ino: Ino) -> str:
    """Whose an item is, if it is somebody else's; "" for one's own."""
    found = json.loads(tree.item_json(db, ino) or "{}").get("owned_by") or {}
    me = rules_of(db).me
    if me is None or found.get("id") in (None, me):
        return ""
    return str(found.get("name") or found.get("login") or found["id"])


def told_name(found: Rules, remote: Remote, parent: Ino) -> str:
    """What an item is called in this folder, if nothing else is called so."""
    at_root = parent == ROOT
    return naming.file_name(
        remote.kind,
        remote.name,
        at_root=at_root,
        foreign=is_shared(found, remote),
        reserved=found.reserved if at_root else (),
    )


def find(conn: Connection) -> Ino | None:
    """The folder `Shared with me`, if it is there."""
    row = conn.execute(_NODE).fetchone()
    return row["ino"] if row is not None and row["parent"] is not None else None


def shelf(conn: Connection, changes: list[Change]) -> Ino:
    """The folder `Shared with me`, made if it is not there."""
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
    """Take the folder away when it is empty, and give it its name back when that is free."""
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
    """The folder gives its name to something of one's own."""
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
