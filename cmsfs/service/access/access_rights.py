"""A caller's rights on an item, from ownership, collaborations, shared links and downscoped tokens.

`access` asks here for one item and `item_serializer.ItemSerializer` for a page of them; search and the
listing of a root ask for `tops`: the items of others that are seen, each with all below.  An item belongs
to the owner of the tree that it is in; for whoever sees only a part of that tree, the part hangs below the
own root.

Rule: who may see what is decided by `View.rights`, and by nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Row
from typing import Protocol

from cmsfs.runtime import clock
from cmsfs.service.access import group_rights, roles, shared_links
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import ItemKind, ItemStatus
from cmsfs.service.storage.store import Read

# A user has what was given to them and to the groups that they are in; ?1 is the user, ?2 this moment.
_LIVING = "c.status = 'accepted' AND (c.expires_at IS NULL OR c.expires_at > ?2)"
_GRANTS = f"""
  SELECT c.item, c.role, c.can_view_path FROM collaboration AS c
  WHERE {group_rights.HELD} AND {_LIVING}
"""
_TOPS = f"""
  SELECT item.*, c.access_only FROM collaboration AS c JOIN item ON item.id = c.item
  WHERE {group_rights.HELD} AND {_LIVING} AND item.status = 0 AND item.owner != ?1
"""
_SEERS = f"""
  SELECT DISTINCT account.id, account.enterprise FROM collaboration AS c
    LEFT JOIN membership ON membership.user_group = c.user_group
    JOIN account ON account.id = coalesce(c.account, membership.account)
  WHERE c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?1)) AND {_LIVING}
"""


class Viewer(Protocol):
    """Whose view it is; an `calls.Caller` is one."""

    @property
    def id(self) -> int: ...
    @property
    def bound(self) -> int | None: ...
    @property
    def barred(self) -> ItemRight: ...
    @property
    def shared(self) -> shared_links.Shared | None: ...


@dataclass(frozen=True, slots=True)
class NotifiedUser:
    """Somebody who is not calling: whoever an event is told to."""

    id: int
    bound: int | None = None
    shared: shared_links.Shared | None = None
    barred: ItemRight = roles.NONE


@dataclass(frozen=True, slots=True)
class _Grant:
    rights: ItemRight
    shows_path: bool

    def and_also(self, other: "_Grant") -> "_Grant":
        """Both together: a user's own role, and those of groups."""
        return _Grant(self.rights | other.rights, self.shows_path or other.shows_path)


class View:
    """What a viewer sees and may do.  Made for one answer, or one question.

    Without a viewer it is each item's owner.  `links` are shared links that count beside the viewer's own
    request, by the item that each shows.
    """

    def __init__(
        self,
        read: Read,
        viewer: Viewer | None,
        *,
        links: Mapping[int, shared_links.Shared] | None = None,
    ) -> None:
        self._read = read
        self._viewer = viewer
        self._links = {} if links is None else dict(links)
        if viewer is not None and viewer.shared is not None:
            self._links[viewer.shared.item] = viewer.shared
        self._grants: dict[int, _Grant] = {}
        self._closed: set[int] = set()  # folders into which editors invite nobody
        self._known: set[int] = set()

    def look_up(self, rows: Sequence[Row]) -> None:
        """Find what is needed for these rows in two reads, or none if all are the viewer's own."""
        if self._viewer is None:
            return
        wanted = {
            one for row in rows if row["owner"] != self._viewer.id for one in tree_paths.line(row)
        } - self._known
        if not wanted:
            return
        self._known |= wanted
        numbers = json.dumps(sorted(wanted))
        sql = f"{_GRANTS} AND c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?3))"
        for one in self._read(sql, self._viewer.id, _now(), numbers):
            made = _Grant(roles.ROLES[one["role"]], bool(one["can_view_path"]))
            known = self._grants.get(one["item"])
            self._grants[one["item"]] = made if known is None else known.and_also(made)
        if self._grants:
            sql = "SELECT folder FROM folder_terms WHERE non_owners_invite = 0"
            found = self._read(
                f"{sql} AND folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers
            )
            self._closed |= {one["folder"] for one in found}

    def rights(self, row: Row) -> ItemRight:
        """What the viewer may do with an item; nothing at all: it does not exist for them."""
        viewer = self._viewer
        if viewer is None:
            return roles.ROOT if row["status"] == ItemStatus.ROOT else roles.ALL
        return self._of(viewer, row) & ~viewer.barred

    def _of(self, viewer: Viewer, row: Row) -> ItemRight:
        if viewer.bound is not None and viewer.bound not in tree_paths.line(row):
            return roles.NONE
        if row["owner"] == viewer.id:
            return roles.ROOT if row["status"] == ItemStatus.ROOT else roles.ALL
        if row["status"] == ItemStatus.ROOT:
            return roles.NONE
        return self._given(row) | self._linked(row)

    def _given(self, row: Row) -> ItemRight:
        self.look_up([row])
        found, above, closed = roles.NONE, roles.NONE, False
        for number in tree_paths.line(row):
            closed = closed or number in self._closed
            grant = self._grants.get(number)
            if grant is None:
                continue
            found |= grant.rights
            if number != row["id"]:
                above |= grant.rights
        # Moving an item takes it out of its folder, on which a role on the item alone gives no right.
        if ItemRight.MOVE not in above:
            found &= ~ItemRight.MOVE
        if closed and ItemRight.MANAGE not in found:
            found &= ~ItemRight.INVITE
        return found

    def _linked(self, row: Row) -> ItemRight:
        found = roles.NONE
        for shared in self._links.values():
            if shared.shows(row):
                found |= ItemRight.SEE | ItemRight.PREVIEW
                if shared.can_download:
                    found |= ItemRight.DOWNLOAD
                if shared.can_edit:
                    found |= ItemRight.EDIT
        return found

    def sees_all_above(self, row: Row) -> bool:
        """Whether every folder above an item is the viewer's own and shown."""
        viewer = self._viewer
        return viewer is None or (
            row["owner"] == viewer.id and viewer.bound is None and viewer.shared is None
        )

    def folders_above(self, row: Row) -> list[int | None]:
        """The folders above an item that the viewer sees, from the top; None is the viewer's own root."""
        above = tree_paths.line(row)[:-1]
        viewer = self._viewer
        if viewer is None:
            return [*above]
        # A link that was named, and a bound token, are all there is: nothing above is shown.
        for top in (viewer.shared.item if viewer.shared is not None else None, viewer.bound):
            if top is not None and top in (*above, row["id"]):
                return [*_from(above, top)]
        if row["owner"] == viewer.id:
            return [*above]
        self.look_up([row])
        for number in (*above, row["id"]):
            if number in self._grants:
                return [*above] if self._grants[number].shows_path else [None, *_from(above, number)]
            if number in self._links:
                return [*_from(above, number)]
        return []


def _from(above: list[int], top: int) -> list[int]:
    return above[above.index(top) :] if top in above else []


def top_shared_items(read: Read, user: int, *, listed: bool = False) -> list[Row]:
    """The items of others that a user collaborates on and that are in no folder of that kind.

    `listed`: only what the listing of their root shows.
    """
    found: dict[int, Row] = {}
    for row in read(_TOPS, user, _now()):
        # Whoever has an item in several ways has it listed if one of them lists it.
        if row["id"] not in found or found[row["id"]]["access_only"]:
            found[row["id"]] = row
    outer = [row for row in found.values() if found.keys().isdisjoint(tree_paths.line(row)[:-1])]
    return [row for row in outer if not (listed and row["access_only"])]


def seers(read: Read, row: Row) -> list[NotifiedUser]:
    """Everybody who sees an item: its owner first, then collaborators."""
    found = read(_SEERS, json.dumps(tree_paths.line(row)), _now())
    return [
        NotifiedUser(row["owner"]),
        *(NotifiedUser(one["id"]) for one in found if one["id"] != row["owner"]),
    ]


def trashed_elsewhere(read: Read, viewer: Viewer) -> list[int]:
    """What a user has put in the trash of others, and may still put there: it is in theirs, too."""
    rows = read("SELECT * FROM item WHERE trashed_by = ? AND status = 1 AND owner != ?", viewer.id, viewer.id)
    view = View(read, viewer)
    view.look_up(rows)
    return [row["id"] for row in rows if ItemRight.MOVE in view.rights(row)]


def collaborated(read: Read, rows: Sequence[Row]) -> set[int]:
    """Those items that somebody collaborates on, or is invited to, there or in a folder above."""
    numbers = {one for row in rows for one in tree_paths.line(row)}
    sql = (
        "SELECT DISTINCT item FROM collaboration WHERE status != 'rejected'"
        " AND coalesce(expires_at > ?, true) AND item IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    )
    found = {one["item"] for one in read(sql, _now(), json.dumps(sorted(numbers)))}
    return {row["id"] for row in rows if not found.isdisjoint(tree_paths.line(row))}


def folder_terms(read: Read, rows: Sequence[Row]) -> dict[int, Row]:
    """What folders say about collaborating, of those that say anything."""
    numbers = json.dumps([row["id"] for row in rows if row["kind"] == ItemKind.FOLDER])
    sql = "SELECT * FROM folder_terms WHERE folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    return {one["folder"]: one for one in read(sql, numbers)}


def _now() -> int:
    return clock.time_ns() // 1000
