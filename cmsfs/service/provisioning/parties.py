"""Provisions groups with their members, and collaborators of folders."""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.models import wire_names
from cmsfs.models.content import events as models_events
from cmsfs.models.enterprise import groups as models_groups
from cmsfs.service.access import group_rights
from cmsfs.service.events import events
from cmsfs.service.groups import groups, memberships
from cmsfs.service.provisioning import enterprise_file
from cmsfs.service.sharing import collaborations
from cmsfs.service.storage import store


def find_group(conn: Connection, enterprise: int, name: str) -> Row | None:
    """Return a group by name, or None."""
    sql = "SELECT * FROM user_group WHERE enterprise = ? AND name_key = ?"
    found: Row | None = conn.execute(sql, (enterprise, wire_names.name_key(name))).fetchone()
    return found


def ensure_group(
    conn: Connection,
    enterprise: int,
    group: enterprise_file.ProvisionedGroup,
    members: Sequence[tuple[Row, str]],
    *,
    by: int,
    now: int,
) -> int:
    """Create a group and add these users; return how many of these were missing."""
    row, made = find_group(conn, enterprise, group.name), 0
    if row is None:
        values = group.model_dump(exclude={"members"}, exclude_none=True)
        row = groups.insert(conn, enterprise, models_groups.NewGroup.model_validate(values), now=now)
        made += 1
    for user, role in members:
        made += memberships.add_member(conn, row, user, role=role, by=by, now=now) is not None
    return made


def share(
    conn: Connection, folder: Row, enterprise: int, party: Mapping[str, int], role: str, *, now: int
) -> None:
    """Add a user or a group as a collaborator of a folder, with events for everybody concerned."""
    values: dict[str, Any] = {
        "role": role,
        "account": None,
        "email": None,
        "enterprise": enterprise,
        "status": "accepted",
        "path": False,
        "access_only": False,
        "expires_at": None,
        "by": folder["owner"],
        "now": now,
        "acknowledged_at": now,
    }
    row = collaborations.insert(conn, folder, **values | dict(party))
    besides = group_rights.members(store.reader(conn), row["user_group"])
    events.record(
        conn,
        folder,
        models_events.COLLAB_ADD,
        by=folder["owner"],
        now=now,
        details={"role": role, "status": "accepted"},
        besides=besides + [one for one in (row["account"],) if one is not None],
    )
