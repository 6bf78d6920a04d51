"""What groups give: to their members what they collaborate on, to their admins the group itself.

A collaboration of a group counts for each of its members as one of their own; `HELD` is that condition, for
whatever asks for the collaborations of a user.

Rule: a group of another enterprise does not exist.
"""

import enum
import json
from sqlite3 import Row
from typing import Any, Final, Protocol

from cmsfs.service.storage.store import Read

# Of `collaboration AS c`: it is the user's, ?1, alone or as a member of a group.
HELD: Final = "(c.account = ?1 OR c.user_group IN (SELECT user_group FROM membership WHERE account = ?1))"

ADMIN: Final = "admin"

_OF_USER = "SELECT role FROM membership WHERE user_group = ? AND account = ?"


class GroupRight(enum.Flag):
    """What may be done with a group."""

    SEE = enum.auto()  # its name
    MEMBERS = enum.auto()  # who is in it
    INVITE = enum.auto()  # it, to an item
    MANAGE = enum.auto()  # its members


class GroupViewer(Protocol):
    """Who asks; a `calls.Caller` is one."""

    @property
    def id(self) -> int: ...
    @property
    def enterprise(self) -> int: ...
    @property
    def role(self) -> str: ...


_LEVELS: Final = {"admins_only": 0, "admins_and_members": 1, "all_managed_users": 2}


def find(read: Read, caller: GroupViewer, number: int | None) -> Row | None:
    """A group of the caller's enterprise."""
    sql = "SELECT * FROM user_group WHERE id = ? AND enterprise = ?"
    found = read(sql, number, caller.enterprise)
    return found[0] if found else None


def of(read: Read, caller: GroupViewer, group: Row) -> GroupRight:
    """What the caller may do with a group of their enterprise."""
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
    """Whether a user is in a group; nobody is in none."""
    return group is not None and bool(read(_OF_USER, group, user))


def members(read: Read, group: int | None) -> list[int]:
    """The users that are in a group."""
    return [row["account"] for row in read("SELECT account FROM membership WHERE user_group = ?", group)]


def mini(row: Row) -> dict[str, Any]:
    """A group as others refer to it."""
    return {"type": "group", "id": str(row["id"]), "name": row["name"], "group_type": "managed_group"}


def details(row: Row) -> dict[str, Any]:
    """The fields of a group that nothing here looks at."""
    found: dict[str, Any] = json.loads(row["details"])
    return found
