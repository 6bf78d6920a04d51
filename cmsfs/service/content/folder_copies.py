"""Recursive copies of folders; of files only the current version is copied.

What is to be copied is found first, and is refused if it is too much.  Then it is made in slices, so that
nobody else who writes waits for all of it; what changes meanwhile is copied as it is found or left out.  A
copy that cannot go on, because there is no space left, say, is in the trash: whoever put something into it
meanwhile loses nothing.

Rule: each slice judges space and rights once more.
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

# More than people have in a folder, and what a few of these calls can add to a store is bounded.
MAX_ITEMS = 50_000

# In one transaction, some tenths of a second at most.
SLICE = 500

_BELOW = "SELECT id FROM item WHERE path >= ? AND path < ? AND status = 0 ORDER BY length(path), id LIMIT ?"
_STILL = (
    "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    " AND path >= ? AND path < ? AND status = 0"
)


class FolderCopy:
    """A copy in the making: `begin`, then `go_on` until there is nothing left, each in a transaction."""

    def __init__(self, call: calls.Call) -> None:
        self._call = call
        self._by = call.caller.id
        self._left: list[int] = []
        self._made: dict[int, int] = {}
        self._source = 0
        self.top = 0

    def begin(self, conn: Connection, row: Row, parent: Row, name: str) -> None:
        """Make the folder itself, and the first slice.  The name was checked and is free."""
        read = store.reader(conn)
        found = read(_BELOW, *tree_paths.below(row), MAX_ITEMS + 1)
        if len(found) > MAX_ITEMS:
            said = f"A folder with more than {MAX_ITEMS} items is not copied as a whole."
            raise problems.Refused(403, "operation_limit_exceeded", said)
        quota.check_space(read, parent["owner"], row["size"])
        new = items.New(ItemKind.FOLDER, name, description=row["description"], tags=row["tags"])
        top = items.insert(conn, parent, new, by=self._by, now=self._call.store.now(), event=None)
        instances.copy(conn, row["id"], top["id"])
        self._source, self.top = row["id"], top["id"]
        self._made = {row["id"]: top["id"]}
        self._left = [one["id"] for one in found]
        self._slice(conn, row)

    def go_on(self, conn: Connection) -> bool:
        """Make the next slice; whether there was one."""
        if not self._left:
            return False
        read = store.reader(conn)
        top = items.find(conn, self.top)
        if top is None or not items.is_active(top):
            raise problems.Refused(409, "operation_blocked_temporary", "The copy was deleted meanwhile.")
        calls.require(read, self._call.caller, top, ItemRight.UPLOAD)
        row = calls.get_item(
            read, self._call.caller, ItemKind.FOLDER, str(self._source), needed=ItemRight.DOWNLOAD
        )
        self._slice(conn, row)
        return True

    def end(self, conn: Connection) -> Row:
        """Tell of the copy, which is whole: one event, who follows the stream lists what is below."""
        top = items.find(conn, self.top)
        if top is None:
            raise problems.Refused(409, "operation_blocked_temporary", "The copy was deleted meanwhile.")
        service_events.record(conn, top, events.COPY, by=self._by, now=self._call.store.now())
        return top

    def give_up(self, conn: Connection) -> None:
        """Put what is there of the copy into the trash."""
        top = items.find(conn, self.top)
        if top is not None and items.is_active(top):
            trash.put(conn, top, by=self._by, now=self._call.store.now())

    def _slice(self, conn: Connection, row: Row) -> None:
        read = store.reader(conn)
        wanted, self._left = self._left[:SLICE], self._left[SLICE:]
        found = {one["id"]: one for one in read(_STILL, json.dumps(wanted), *tree_paths.below(row))}
        parents: dict[int, Row | None] = {}
        top = items.find(conn, self.top)
        size = sum(one["size"] for one in found.values() if one["kind"] == ItemKind.FILE)
        quota.check_space(read, top["owner"], size)
        for number in wanted:
            one = found.get(number)
            into = None if one is None else self._made.get(one["parent"])
            if one is None or into is None:
                continue
            if into not in parents:
                parents[into] = items.find(conn, into)
            above = parents[into]
            if above is not None and items.is_active(above):
                self._make(conn, one, above)

    def _make(self, conn: Connection, one: Row, above: Row) -> None:
        now, read = self._call.store.now(), store.reader(conn)
        items.check_free(read, above["id"], one["name"])  # somebody may have put something there
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
        self._made[one["id"]] = made["id"]
