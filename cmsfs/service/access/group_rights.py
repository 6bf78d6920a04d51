"""Rights through groups: members get the group's collaborations, group admins manage the group itself.

A collaboration of a group counts for each of its members like their own; `HELD` is that SQL condition, for
every query of a user's collaborations.

Rule: a group of another enterprise does not exist.
"""

import enum
import json
from sqlite3 import Row
from typing import Any, Final, Protocol

from cmsfs.service.storage.store import Read

# On `collaboration AS c`: granted to user ?1 directly or through a group.
HELD: Final = "(c.account = ?1 OR c.user_group IN (SELECT user_group FROM membership WHERE account = ?1))"

ADMIN: Final = "admin"

_OF_USER = "SELECT role FROM membership WHERE user_group = ? AND account = ?"


class GroupRight(enum.Flag):
    """Rights on a group."""

    SEE = enum.auto()  # its name
    MEMBERS = enum.auto()  # see its members
    INVITE = enum.auto()  # invite it to an item
    MANAGE = enum.auto()  # change its members


class GroupViewer(Protocol):
    """The user who asks; a `calls.Caller` is one."""

    @property
    def id(self) -> int: ...
    @property
    def enterprise(self) -> int: ...
    @property
    def role(self) -> str: ...


_LEVELS: Final = {"admins_only": 0, "admins_and_members": 1, "all_managed_users": 2}


def find(read: Read, caller: GroupViewer, number: int | None) -> Row | None:
    """Return a group of the caller's enterprise, or None."""
    sql = "SELECT * FROM user_group WHERE id = ? AND enterprise = ?"
    found = read(sql, number, caller.enterprise)
    return found[0] if found else None


def of(read: Read, caller: GroupViewer, group: Row) -> GroupRight:
    """Return the caller's rights on a group of their enterprise."""
    roles = read(_OF_USER, group["id"], caller.id)
    if caller.role in ("admin", "coadmin") or (roles and roles[0]["role"] == ADMIN):
        return ~GroupRight(0)
    closeness = 1 if roles else 2
    found = GroupRight.SEE if roles else GroupRight(0)
    if _LEVELS[group["viewed_by"]] >= closeness:
        found |= GroupRight.SEE | GroupRight.MEMBERS
    if _LEVELS[group["invited_by"]] >= closeness:
        found |= GroupRight.SEE | GroupRight.INVITE
    return found


def is_member(read: Read, user: int, group: int | None) -> bool:
    """Return whether a user is in a group; False if there is no group."""
    return group is not None and bool(read(_OF_USER, group, user))


def members(read: Read, group: int | None) -> list[int]:
    """Return the users of a group."""
    return [row["account"] for row in read("SELECT account FROM membership WHERE user_group = ?", group)]


def mini(row: Row) -> dict[str, Any]:
    """Return the mini representation of a group."""
    return {"type": "group", "id": str(row["id"]), "name": row["name"], "group_type": "managed_group"}


def details(row: Row) -> dict[str, Any]:
    """Return the fields of a group that are stored without being interpreted."""
    found: dict[str, Any] = json.loads(row["details"])
    return found
