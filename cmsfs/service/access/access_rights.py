"""A caller's rights on an item, from ownership, collaborations, shared links and downscoped tokens.

`calls` asks for the rights on one item, `item_serializer.ItemSerializer` for those of a page of items; search
and the listing of a root ask for `top_shared_items`: other people's items that the user sees, each with
everything below it.  An item belongs to the owner of its tree; whoever sees only part of that tree sees it
below their own root.

Rule: `View.rights` alone decides who may see what.
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

# Grants to a user and to their groups, unexpired; ?1 is the user, ?2 the current time.
_IN_FORCE = "c.status = 'accepted' AND (c.expires_at IS NULL OR c.expires_at > ?2)"
_GRANTS = f"""
  SELECT c.item, c.role, c.can_view_path FROM collaboration AS c
  WHERE {group_rights.HELD} AND {_IN_FORCE}
"""
_TOPS = f"""
  SELECT item.*, c.access_only FROM collaboration AS c JOIN item ON item.id = c.item
  WHERE {group_rights.HELD} AND {_IN_FORCE} AND item.status = 0 AND item.owner != ?1
"""
_USERS_WHO_SEE = f"""
  SELECT DISTINCT account.id, account.enterprise FROM collaboration AS c
    LEFT JOIN membership ON membership.user_group = c.user_group
    JOIN account ON account.id = coalesce(c.account, membership.account)
  WHERE c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?1)) AND {_IN_FORCE}
"""


class Viewer(Protocol):
    """The user whose view is computed; a `calls.Caller` is one."""

    @property
    def id(self) -> int: ...
    @property
    def bound(self) -> int | None: ...
    @property
    def forbidden_rights(self) -> ItemRight: ...
    @property
    def shared(self) -> shared_links.Shared | None: ...


@dataclass(frozen=True, slots=True)
class NotifiedUser:
    """A user who does not make the request: a recipient of an event, for example."""

    id: int
    bound: int | None = None
    shared: shared_links.Shared | None = None
    forbidden_rights: ItemRight = roles.NONE


@dataclass(frozen=True, slots=True)
class _Grant:
    rights: ItemRight
    shows_path: bool

    def union(self, other: "_Grant") -> "_Grant":
        """Return the union of two grants, such as a user's own role and those of groups."""
        return _Grant(self.rights | other.rights, self.shows_path or other.shows_path)


class View:
    """What a viewer sees and may do.  Create one per response or check.

    Without a viewer, each item is seen as its owner sees it.  `links` are shared links that count beside the
    one of the viewer's request, by the item that each shows.
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
        self._owner_invites_only: set[int] = set()  # folders where editors may not invite
        self._looked_up: set[int] = set()

    def look_up(self, rows: Sequence[Row]) -> None:
        """Load what these rows need, in two reads, or none if all are the viewer's own."""
        if self._viewer is None:
            return
        wanted = {
            one for row in rows if row["owner"] != self._viewer.id for one in tree_paths.line(row)
        } - self._looked_up
        if not wanted:
            return
        self._looked_up |= wanted
        numbers = json.dumps(sorted(wanted))
        sql = f"{_GRANTS} AND c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?3))"
        for one in self._read(sql, self._viewer.id, _now(), numbers):
            made = _Grant(roles.ROLES[one["role"]], bool(one["can_view_path"]))
            known = self._grants.get(one["item"])
            self._grants[one["item"]] = made if known is None else known.union(made)
        if self._grants:
            sql = "SELECT folder FROM folder_terms WHERE non_owners_invite = 0"
            found = self._read(
                f"{sql} AND folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers
            )
            self._owner_invites_only |= {one["folder"] for one in found}

    def rights(self, row: Row) -> ItemRight:
        """Return the viewer's rights on an item; with none, the item does not exist for them."""
        viewer = self._viewer
        if viewer is None:
            return roles.ROOT if row["status"] == ItemStatus.ROOT else roles.ALL
        return self._unrestricted_rights(viewer, row) & ~viewer.forbidden_rights

    def _unrestricted_rights(self, viewer: Viewer, row: Row) -> ItemRight:
        if viewer.bound is not None and viewer.bound not in tree_paths.line(row):
            return roles.NONE
        if row["owner"] == viewer.id:
            return roles.ROOT if row["status"] == ItemStatus.ROOT else roles.ALL
        if row["status"] == ItemStatus.ROOT:
            return roles.NONE
        return self._collaboration_rights(row) | self._link_rights(row)

    def _collaboration_rights(self, row: Row) -> ItemRight:
        self.look_up([row])
        found, above, closed = roles.NONE, roles.NONE, False
        for number in tree_paths.line(row):
            closed = closed or number in self._owner_invites_only
            grant = self._grants.get(number)
            if grant is None:
                continue
            found |= grant.rights
            if number != row["id"]:
                above |= grant.rights
        # A move takes the item out of its folder; a role on the item alone gives no right on the folder.
        if ItemRight.MOVE not in above:
            found &= ~ItemRight.MOVE
        if closed and ItemRight.MANAGE not in found:
            found &= ~ItemRight.INVITE
        return found

    def _link_rights(self, row: Row) -> ItemRight:
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
        """Return whether the viewer owns every folder above an item and sees them."""
        viewer = self._viewer
        return viewer is None or (
            row["owner"] == viewer.id and viewer.bound is None and viewer.shared is None
        )

    def folders_above(self, row: Row) -> list[int | None]:
        """Return the folders above an item that the viewer sees, from the top; None is the viewer's root."""
        above = tree_paths.line(row)[:-1]
        viewer = self._viewer
        if viewer is None:
            return [*above]
        # A request's link or a bound token limits the view to its item: nothing above is shown.
        for top in (viewer.shared.item if viewer.shared is not None else None, viewer.bound):
            if top is not None and top in (*above, row["id"]):
                return [*_path_from(above, top)]
        if row["owner"] == viewer.id:
            return [*above]
        self.look_up([row])
        for number in (*above, row["id"]):
            if number in self._grants:
                return [*above] if self._grants[number].shows_path else [None, *_path_from(above, number)]
            if number in self._links:
                return [*_path_from(above, number)]
        return []


def _path_from(above: list[int], top: int) -> list[int]:
    return above[above.index(top) :] if top in above else []


def top_shared_items(read: Read, user: int, *, listed: bool = False) -> list[Row]:
    """Return other people's items that a user collaborates on, without those inside another such item.

    `listed`: only those that the listing of the user's root shows.
    """
    found: dict[int, Row] = {}
    for row in read(_TOPS, user, _now()):
        # Of several collaborations on an item, one that is listed is enough.
        if row["id"] not in found or found[row["id"]]["access_only"]:
            found[row["id"]] = row
    outer = [row for row in found.values() if found.keys().isdisjoint(tree_paths.line(row)[:-1])]
    return [row for row in outer if not (listed and row["access_only"])]


def users_who_see(read: Read, row: Row) -> list[NotifiedUser]:
    """Return everybody who sees an item: its owner first, then collaborators."""
    found = read(_USERS_WHO_SEE, json.dumps(tree_paths.line(row)), _now())
    return [
        NotifiedUser(row["owner"]),
        *(NotifiedUser(one["id"]) for one in found if one["id"] != row["owner"]),
    ]


def trashed_from_others(read: Read, viewer: Viewer) -> list[int]:
    """Return others' items that a user trashed and may still trash: the user's trash lists them, too."""
    rows = read("SELECT * FROM item WHERE trashed_by = ? AND status = 1 AND owner != ?", viewer.id, viewer.id)
    view = View(read, viewer)
    view.look_up(rows)
    return [row["id"] for row in rows if ItemRight.MOVE in view.rights(row)]


def with_collaborations(read: Read, rows: Sequence[Row]) -> set[int]:
    """Return the items with collaborators or invitations, on the item or on a folder above."""
    numbers = {one for row in rows for one in tree_paths.line(row)}
    sql = (
        "SELECT DISTINCT item FROM collaboration WHERE status != 'rejected'"
        " AND coalesce(expires_at > ?, true) AND item IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    )
    found = {one["item"] for one in read(sql, _now(), json.dumps(sorted(numbers)))}
    return {row["id"] for row in rows if not found.isdisjoint(tree_paths.line(row))}


def folder_terms(read: Read, rows: Sequence[Row]) -> dict[int, Row]:
    """Return the collaboration settings of those folders that have any."""
    numbers = json.dumps([row["id"] for row in rows if row["kind"] == ItemKind.FOLDER])
    sql = "SELECT * FROM folder_terms WHERE folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    return {one["folder"]: one for one in read(sql, numbers)}


def _now() -> int:
    return clock.time_ns() // 1000
