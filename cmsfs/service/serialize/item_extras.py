"""Fields of items that come from other tables: watermarks, comments, shared links, sync state.

`item_serializer.ItemSerializer` loads them for all items of a response together, only the requested ones.
"""

import json
from collections.abc import Sequence
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.service.access import shared_links
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Read

FIELDS = frozenset(
    {
        *("watermark_info", "comment_count", "is_accessible_via_shared_link"),
        *("sync_state", "shared_link", "collections"),
    }
)

_IN = "IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"

# Bundles that macOS shows as one file and packs into one for the upload.
_PACKAGES = frozenset(("key", "numbers", "pages", "rtfd"))


def is_package(row: Row) -> bool:
    return row["extension"] in _PACKAGES


class ItemExtras:
    """The extra fields of the rows of one response."""

    def __init__(self) -> None:
        self._watermarked: set[int] = set()
        self._linked: set[int] = set()
        self._comments: dict[int, int] = {}
        self._synced: dict[int, str] = {}
        self._uses: dict[int, Row] = {}
        self._favorites: dict[int, int] = {}

    def look_up(self, read: Read, rows: Sequence[Row], wanted: set[str], user: int | None) -> None:
        if not wanted & FIELDS:
            return
        own = json.dumps([row["id"] for row in rows])
        line = json.dumps(sorted({one for row in rows for one in tree_paths.line(row)}))
        if "watermark_info" in wanted:
            self._watermarked = {
                one["item"] for one in read(f"SELECT item FROM watermark WHERE item {_IN}", line)
            }
        if "is_accessible_via_shared_link" in wanted:
            linked = read(f"SELECT * FROM item WHERE id {_IN} AND link IS NOT NULL", line)
            self._linked = {one["id"] for one in linked if shared_links.shape(one) is not None}
        if "comment_count" in wanted:
            sql = f"SELECT item, count(*) AS n FROM comment WHERE item {_IN} GROUP BY item"
            self._comments = {one["item"]: one["n"] for one in read(sql, own)}
        if "sync_state" in wanted:
            sql = f"SELECT * FROM sync_mark WHERE item {_IN}"
            self._synced = {one["item"]: one["state"] for one in read(sql, own)}
        if "collections" in wanted and user is not None:
            sql = f"SELECT account, item FROM favorite WHERE account = ? AND item {_IN}"
            self._favorites = {one["item"]: one["account"] for one in read(sql, user, own)}
        if any(row["link"] is not None for row in rows):
            self._uses = {one["item"]: one for one in read(f"SELECT * FROM link_use WHERE item {_IN}", own)}

    def watermark(self, row: Row) -> dict[str, bool]:
        inherited = any(one in self._watermarked for one in tree_paths.line(row)[:-1])
        return {
            "is_watermarked": inherited or row["id"] in self._watermarked,
            "is_watermark_inherited": inherited,
            "is_watermarked_by_access_policy": False,  # there are no such policies
        }

    def is_linked(self, row: Row) -> bool:
        """Return whether a shared link shows the item: its own or a parent folder's."""
        return any(one in self._linked for one in tree_paths.line(row))

    def comments(self, row: Row) -> int:
        return self._comments.get(row["id"], 0)

    def sync_state(self, row: Row) -> str:
        return self._synced.get(row["id"], "not_synced")

    def collections(self, row: Row) -> list[dict[str, str]]:
        """Return the requesting user's collections that hold the item; those of others are private."""
        user = self._favorites.get(row["id"])
        return [] if user is None else [collection(user)]

    def shared_link(self, row: Row) -> dict[str, Any] | None:
        link = shared_links.shape(row)
        uses = self._uses.get(row["id"])
        if link is not None and uses is not None:
            link |= {"download_count": uses["downloads"], "preview_count": uses["previews"]}
        return link


def set_sync_state(conn: Connection, row: Row, state: str | None) -> bool:
    """Set or clear a folder's sync state; return whether that changed anything."""
    if state is None or row["kind"] != ItemKind.FOLDER:
        return False
    if state == "not_synced":
        done = conn.execute("DELETE FROM sync_mark WHERE item = ?", (row["id"],))
    else:
        done = conn.execute(
            "INSERT INTO sync_mark VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET state = excluded.state"
            " WHERE sync_mark.state != excluded.state",
            (row["id"], state),
        )
    return done.rowcount > 0


def collection(user: int) -> dict[str, str]:
    """Return a user's only collection; its id is the user's."""
    return {"type": "collection", "id": str(user), "name": "Favorites", "collection_type": "favorites"}


def set_favorite(conn: Connection, row: Row, user: int, is_one: bool, *, now: int) -> None:
    """Add an item to a user's favorites, or remove it."""
    if is_one:
        conn.execute("INSERT INTO favorite VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (user, row["id"], now))
    else:
        conn.execute("DELETE FROM favorite WHERE account = ? AND item = ?", (user, row["id"]))
