"""Legal holds and retention policies of an item as extended attributes.

The service does not report the policies of an item.  Administrators may read the assignments; which of them
cover an item follows from its location, owner and metadata, by the service's rules.  Each attribute has one
entry for every assignment that covers the item, in a fixed order.  Users who may not read policies see
`unknown`, never "none".

Limitation: an item moved out of a held folder remains held at the service, which cannot be detected here.
"""

import json
from collections.abc import Callable, Container, Iterable
from datetime import datetime
from typing import Any

import pydantic

from cmsfs.models.base import format_timestamp
from cmsfs.models.content import metadata
from cmsfs.models.enterprise import legal_holds, retention
from cmsfs.replica import item_details, kv_store, tree
from cmsfs.replica.item_details import DetailSubject, PolicyAssignment
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs.attrs import item_fields

HOLD = "hold"
RETENTION = "retention"
UNKNOWN = "unknown"

RELEASED = "released"
RETIRED = "retired"

# The types of targets that are found by who owns or changed an item.
_OF_PEOPLE = frozenset({"user", "ownership", "interactions"})
_ALL_TYPES = _OF_PEOPLE | {"folder", "metadata_template"}

# The item itself, if it is a folder, and the folders above it, nearest first.
_FOLDERS = """
  WITH RECURSIVE above(parent, remote_id, kind) AS (
    SELECT parent, remote_id, kind FROM node WHERE ino = ? UNION ALL
    SELECT n.parent, n.remote_id, n.kind FROM above AS a CROSS JOIN node AS n ON n.ino = a.parent)
  SELECT remote_id FROM above WHERE kind = 'folder'
"""


def _moment(at: datetime | None) -> str:
    return "" if at is None else format_timestamp(at)


def _person(user: pydantic.BaseModel | None) -> str:
    return "" if user is None else item_fields.person(user.model_dump())


def _counts(found: pydantic.BaseModel | None) -> str:
    if found is None:
        return ""
    return " ".join(f"{key}={number}" for key, number in found.model_dump().items() if number)


# Formats one entry of an attribute from an assignment, its policy, and its target.
_Line = Callable[[Any, Any, str], str]


def _of_both(word: str) -> dict[str, _Line]:
    """Return the attributes that holds and retention have in common."""
    return {
        word: lambda one, policy, place: policy.policy_name or policy.id,
        f"{word}.status": lambda one, policy, place: policy.status or "",
        f"{word}.description": lambda one, policy, place: policy.description or "",
        f"{word}.created_by": lambda one, policy, place: _person(policy.created_by),
        f"{word}.created_at": lambda one, policy, place: _moment(policy.created_at),
        f"{word}.modified_at": lambda one, policy, place: _moment(policy.modified_at),
        f"{word}.assignments": lambda one, policy, place: _counts(policy.assignment_counts),
        f"{word}.assigned_to": lambda one, policy, place: place,
        f"{word}.assigned_by": lambda one, policy, place: _person(one.assigned_by),
        f"{word}.assigned_at": lambda one, policy, place: _moment(one.assigned_at),
    }


HOLDS: dict[str, _Line] = _of_both(HOLD) | {
    "hold.id": lambda one, policy, place: policy.id,
    "hold.release_notes": lambda one, policy, place: policy.release_notes or "",
    "hold.deleted_at": lambda one, policy, place: _moment(policy.deleted_at),
    "hold.since": lambda one, policy, place: _moment(policy.filter_started_at),
    "hold.until": lambda one, policy, place: _moment(policy.filter_ended_at),
}

RETENTIONS: dict[str, _Line] = _of_both(RETENTION) | {
    "retention.id": lambda one, policy, place: one.id,
    "retention.policy_id": lambda one, policy, place: policy.id,
    "retention.length": lambda one, policy, place: _length(policy.retention_length),
    "retention.action": lambda one, policy, place: policy.disposition_action or "",
    "retention.type": lambda one, policy, place: policy.policy_type or "",
    "retention.is_modifiable": lambda one, policy, place: _modifiable(policy.retention_type),
    "retention.start_field": lambda one, policy, place: one.start_date_field or "",
}

# Of the file, not of an assignment: when its last retention ends.
UNTIL = "retention.until"

NAMES = frozenset((*HOLDS, *RETENTIONS, UNTIL))


def _length(length: object) -> str:
    return f"{length} days" if str(length).isdigit() else str(length or "")


def _modifiable(word: str | None) -> str:
    return "" if word is None else str(int(word == "modifiable"))


def value(db: Database, node: Node, name: str) -> str | None:
    """Return an attribute of `NAMES` from local data; None if no policy covers the item."""
    item = json.loads(tree.item_json(db, node.ino) or "{}")
    if name == UNTIL:
        return _until(db, node, item)
    if not is_known(db):
        names = kv_store.get(db, item_details.HOLDS_IN_FORCE) if name == HOLD else None
        return f"{UNKNOWN}; in force: {names}" if names else UNKNOWN
    kind = HOLD if name in HOLDS else RETENTION
    lines = [_line(db, name, one) for one in covering(db, node, kind, item)]
    return "; ".join(lines) if any(lines) else None


def _until(db: Database, node: Node, item: dict[str, Any]) -> str | None:
    """Return when the retention ends; the service reports the date of files to all users."""
    if moment := item.get("disposition_at"):
        return _moment(datetime.fromisoformat(moment))
    if not is_known(db):
        return UNKNOWN
    found = [
        retention.RetentionAssignment.model_validate(one.value) for one in covering(db, node, RETENTION, item)
    ]
    lengths = [one.retention_policy.retention_length for one in found if one.retention_policy]
    return retention.INDEFINITE if retention.INDEFINITE in lengths else None


def shown(db: Database, node: Node, item: dict[str, Any]) -> set[str]:
    """Return the attributes to list, from local data."""
    found = set()
    if node.remote_id is not None and node.kind in (NodeKind.FILE, NodeKind.FOLDER) and is_known(db):
        kinds = {one.kind for one in _covering(db, node, item)}
        found = {name for name, kind in (("hold", HOLD), ("retention", RETENTION)) if kind in kinds}
    if item.get("disposition_at") or ("retention" in found and _until(db, node, item) is not None):
        found.add(UNTIL)
    return found


def is_known(db: Database) -> bool:
    """Whether the assignments of policies were read."""
    return kv_store.get(db, item_details.POLICIES_AT) is not None and not kv_store.get(
        db, item_details.POLICIES_REFUSED
    )


def depends_on_metadata(db: Database) -> bool:
    """Whether any policy is assigned to a metadata template."""
    return db.row("SELECT 1 FROM assignment WHERE target_type = 'metadata_template' LIMIT 1") is not None


def _line(db: Database, name: str, one: PolicyAssignment) -> str:
    where = _target(db, one)
    if name in HOLDS:
        hold = legal_holds.HoldAssignment.model_validate(one.value)
        return HOLDS[name](hold, hold.legal_hold_policy or legal_holds.LegalHoldPolicy(id=""), where)
    found = retention.RetentionAssignment.model_validate(one.value)
    return RETENTIONS[name](found, found.retention_policy or retention.RetentionPolicy(id=""), where)


def _target(db: Database, one: PolicyAssignment) -> str:
    """Return the target of an assignment: a path if it is on the drive, else its type and id."""
    if one.target_type in ("folder", "file"):
        node = tree.find_remote(db, NodeKind(one.target_type), one.target)
        if node is not None:
            return tree.path(db, node.ino)
    return f"{one.target_type} {one.target}".strip()


# ---- what covers an item -----------------------------------------------------------------------


def covering(
    db: Database, node: Node, kind: str, item: dict[str, Any] | None = None
) -> list[PolicyAssignment]:
    """Return the assignments that cover an item: its own first, then inherited ones, nearest first."""
    if node.remote_id is None or node.kind in (NodeKind.LINK, NodeKind.SYMLINK):
        return []
    item = json.loads(tree.item_json(db, node.ino) or "{}") if item is None else item
    return [one for one in _covering(db, node, item) if one.kind == kind]


def is_covered(db: Database, node: Node) -> bool:
    """Whether any assignment covers a file or folder of the service."""
    return bool(_covering(db, node, json.loads(tree.item_json(db, node.ino) or "{}")))


def may_be_covered(db: Database, node: Node) -> bool:
    """Whether the item has anything to do with what is assigned; cheaper than `is_covered`."""
    assigned = item_details.assigned_targets(db)
    if assigned is None:
        return True
    types = {target_type for target_type, _ in assigned}
    item = json.loads(tree.item_json(db, node.ino) or "{}") if types & _OF_PEOPLE else {}
    return bool(types) and not assigned.isdisjoint(_targets(db, node, item, types))


def _covering(db: Database, node: Node, item: dict[str, Any]) -> list[PolicyAssignment]:
    found: dict[tuple[str, str], PolicyAssignment] = {}
    for target_type, target in _targets(db, node, item):
        for one in item_details.assigned_to(db, target_type, target):
            if not _is_over(one) and _holds_for(db, node, one, item):
                found.setdefault((one.kind, one.id), one)
    return list(found.values())


def _targets(
    db: Database, node: Node, item: dict[str, Any], types: Container[str] = _ALL_TYPES
) -> Iterable[tuple[str, str]]:
    """Return what an assignment of one of these types would name if it covered the item, nearest first."""
    if node.kind is NodeKind.FILE:
        yield "file", node.remote_id or ""
        yield "file_version", node.version or ""
    if "folder" in types:
        for row in db.rows(_FOLDERS, node.ino):
            yield "folder", row[0] or ""
    if "metadata_template" in types:
        for template in _templates(db, node):
            yield "metadata_template", template
    if node.kind is NodeKind.FILE:
        owner, maker = ((item.get(who) or {}).get("id", "") for who in ("owned_by", "modified_by"))
        yield from (("user", owner), ("user", maker), ("ownership", owner), ("interactions", maker))
    yield "enterprise", ""


def _templates(db: Database, node: Node) -> list[str]:
    """Return the ids of the templates of the item's known metadata."""
    fact = item_details.find(db, node.ino, DetailSubject.METADATA)
    # `$type` is the template's key, a hyphen, and its id, which has hyphens of its own.
    instances = [] if fact is None else [metadata.Instance.model_validate(one) for one in fact.value]
    return [(one.type or "").removeprefix(f"{one.template}-") for one in instances]


def _is_over(one: PolicyAssignment) -> bool:
    policy = one.value.get("legal_hold_policy") or {}
    return policy.get("status") == RELEASED or bool(one.value.get("deleted_at"))


def _holds_for(db: Database, node: Node, one: PolicyAssignment, item: dict[str, Any]) -> bool:
    """Whether an assignment's further conditions are met: the dates of a hold on a user, the metadata values
    of a retention, and for a retired policy that the item was modified before it was retired."""
    retired = one.value.get("retention_policy") or {}
    if retired.get("status") == RETIRED and (ended := retired.get("modified_at")):
        changed = item.get("modified_at")
        return changed is not None and datetime.fromisoformat(changed) < datetime.fromisoformat(ended)
    if one.target_type in ("user", "ownership", "interactions"):
        policy = legal_holds.HoldAssignment.model_validate(one.value).legal_hold_policy
        first, last = item.get("created_at"), item.get("modified_at")
        if policy is None or not first or not last:
            return True
        since, until = policy.filter_started_at, policy.filter_ended_at
        return not (since and datetime.fromisoformat(last) < since) and not (
            until and datetime.fromisoformat(first) > until
        )
    wanted = one.value.get("filter_values")
    if one.target_type != "metadata_template" or not wanted:
        return True
    fact = item_details.find(db, node.ino, DetailSubject.METADATA)
    instances = [] if fact is None else [metadata.Instance.model_validate(each) for each in fact.value]
    for each in instances:
        if (each.type or "").removeprefix(f"{each.template}-") == one.target:
            return all(_has(each.values.get(key), option) for key, option in wanted.items())
    return False


def _has(value: Any, option: str) -> bool:
    return option in value if isinstance(value, list) else value == option
