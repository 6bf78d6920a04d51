"""Recursive copies of folders; only the current version of each file is copied.

The items to copy are listed first; too many are refused.  Then they are copied in batches, so that other
writers do not wait for the whole copy; items that change meanwhile are copied in their new state or skipped.
A copy that cannot finish, for example for lack of space, goes to the trash: nothing that others added to it
meanwhile is lost.

Rule: each batch checks space and rights again.
"""

import json
from sqlite3 import Connection, Row

from cmsfs.models.content import events
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.content import files, instances, items, quota, trash
from cmsfs.service.events import events as service_events
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import ItemKind

# More than folders usually hold; it also bounds how much a few of these calls can add to a store.
MAX_ITEMS = 50_000

# Items copied per transaction, which takes a few tenths of a second at most.
BATCH = 500

_BELOW = "SELECT id FROM item WHERE path >= ? AND path < ? AND status = 0 ORDER BY length(path), id LIMIT ?"
_STILL_BELOW = (
    "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    " AND path >= ? AND path < ? AND status = 0"
)


class FolderCopy:
    """A copy in progress: call `begin`, then `copy_next_batch` until it returns False; a transaction each."""

    def __init__(self, call: calls.Call) -> None:
        self._call = call
        self._by = call.caller.id
        self._remaining: list[int] = []
        self._copies: dict[int, int] = {}
        self._source = 0
        self.top = 0

    def begin(self, conn: Connection, row: Row, parent: Row, name: str) -> None:
        """Create the folder itself and copy the first batch.  The name must be checked and free."""
        read = store.reader(conn)
        found = read(_BELOW, *tree_paths.below(row), MAX_ITEMS + 1)
        if len(found) > MAX_ITEMS:
            message = f"A folder with more than {MAX_ITEMS} items is not copied as a whole."
            raise problems.Refused(403, "operation_limit_exceeded", message)
        quota.check_space(read, parent["owner"], row["size"])
        new = items.New(ItemKind.FOLDER, name, description=row["description"], tags=row["tags"])
        top = items.insert(conn, parent, new, by=self._by, now=self._call.store.now(), event=None)
        instances.copy(conn, row["id"], top["id"])
        self._source, self.top = row["id"], top["id"]
        self._copies = {row["id"]: top["id"]}
        self._remaining = [one["id"] for one in found]
        self._copy_batch(conn, row)

    def copy_next_batch(self, conn: Connection) -> bool:
        """Copy the next batch; return False if nothing is left."""
        if not self._remaining:
            return False
        read = store.reader(conn)
        top = items.find(conn, self.top)
        if top is None or not items.is_active(top):
            raise problems.Refused(409, "operation_blocked_temporary", "The copy was deleted meanwhile.")
        calls.require(read, self._call.caller, top, ItemRight.UPLOAD)
        row = calls.get_item(
            read, self._call.caller, ItemKind.FOLDER, str(self._source), needed=ItemRight.DOWNLOAD
        )
        self._copy_batch(conn, row)
        return True

    def finish(self, conn: Connection) -> Row:
        """Record one event for the finished copy: clients that follow the stream list what is below it."""
        top = items.find(conn, self.top)
        if top is None:
            raise problems.Refused(409, "operation_blocked_temporary", "The copy was deleted meanwhile.")
        service_events.record(conn, top, events.COPY, by=self._by, now=self._call.store.now())
        return top

    def abort(self, conn: Connection) -> None:
        """Move the unfinished copy to the trash."""
        top = items.find(conn, self.top)
        if top is not None and items.is_active(top):
            trash.move_to_trash(conn, top, by=self._by, now=self._call.store.now())

    def _copy_batch(self, conn: Connection, row: Row) -> None:
        read = store.reader(conn)
        wanted, self._remaining = self._remaining[:BATCH], self._remaining[BATCH:]
        found = {one["id"]: one for one in read(_STILL_BELOW, json.dumps(wanted), *tree_paths.below(row))}
        parents: dict[int, Row | None] = {}
        top = items.find(conn, self.top)
        size = sum(one["size"] for one in found.values() if one["kind"] == ItemKind.FILE)
        quota.check_space(read, top["owner"], size)
        for number in wanted:
            one = found.get(number)
            into = None if one is None else self._copies.get(one["parent"])
            if one is None or into is None:
                continue
            if into not in parents:
                parents[into] = items.find(conn, into)
            above = parents[into]
            if above is not None and items.is_active(above):
                self._copy_item(conn, one, above)

    def _copy_item(self, conn: Connection, one: Row, above: Row) -> None:
        now, read = self._call.store.now(), store.reader(conn)
        items.check_free(read, above["id"], one["name"])  # somebody may have created one meanwhile
        if one["kind"] == ItemKind.FILE:
            calls.check_download(self._call, one)
            version = files.find_version(read, one, None)
            files.duplicate(conn, one, version, above, one["name"], by=self._by, now=now, event=None)
            return
        new = items.New(
            ItemKind(one["kind"]),
            one["name"],
            url=one["url"],
            description=one["description"],
            tags=one["tags"],
        )
        made = items.insert(conn, above, new, by=self._by, now=now, event=None)
        instances.copy(conn, one["id"], made["id"])
        self._copies[one["id"]] = made["id"]
