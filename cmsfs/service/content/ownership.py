"""Ownership: items belong to the owner of their tree and count against that user's quota.

Moving an item into somebody else's folder changes its owner, and so does making a collaborator the owner
(collaborations.py).

Rule: items under a legal hold or retention keep their owner, or the policy would no longer cover them.
"""

from sqlite3 import Connection, Row

from cmsfs.service.access import protection
from cmsfs.service.content import quota
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import ItemKind


def change_owner(conn: Connection, row: Row, owner: int, *, path: str, now: int) -> None:
    """Change the owner of an item and of everything below it, which has its new path already.

    403 if the new owner has too little space left, or if a policy protects any of it.
    """
    read = store.reader(conn)
    first, end = tree_paths.below(row)
    if path != row["path"]:
        first, end = f"{path}{row['id']}/", f"{path}{row['id']}0"
    numbers = "SELECT id FROM item WHERE id = ?1 OR (path >= ?2 AND path < ?3)"
    place = (row["id"], first, end) if row["kind"] == ItemKind.FOLDER else (row["id"], "", "")
    protection.check_owner_change(conn, *place, now=now)
    size = read(f"SELECT coalesce(sum(size), 0) AS n FROM version WHERE file IN ({numbers})", *place)[0]["n"]
    quota.check_space(read, owner, size)
    conn.execute("UPDATE account SET space_used = space_used - ? WHERE id = ?", (size, row["owner"]))
    conn.execute("UPDATE account SET space_used = space_used + ? WHERE id = ?", (size, owner))
    conn.execute(f"UPDATE item SET owner = ?4 WHERE id IN ({numbers})", (*place, owner))
    # An owner cannot be a collaborator on the same item.
    conn.execute(f"DELETE FROM collaboration WHERE account = ?4 AND item IN ({numbers})", (*place, owner))
    conn.execute(
        f"UPDATE collaboration SET enterprise = (SELECT enterprise FROM account WHERE id = ?4)"
        f" WHERE item IN ({numbers})",
        (*place, owner),
    )
