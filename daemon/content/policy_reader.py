"""Reads the assignments of legal holds and retention policies.

The API cannot list what holds an item: policies are listed, then the assignments of each.  Both requests are
for administrators only.

Rule: all or nothing; an incomplete list would show items under hold as free.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from cmsfs.client.session import Client
from cmsfs.models.content import metadata
from cmsfs.models.enterprise import legal_holds, retention
from cmsfs.replica.item_details import PolicyAssignment
from cmsfs.vfs.attrs.policies import HOLD, RELEASED, RETENTION

_HOLD_FIELDS = [name for name in legal_holds.LegalHoldPolicy.model_fields if name != "type"]
_RETENTION_FIELDS = [name for name in retention.RetentionPolicy.model_fields if name != "type"]
_ASSIGNMENT_FIELDS = [name for name in retention.RetentionAssignment.model_fields if name != "type"]


async def all_assignments(client: Client) -> list[PolicyAssignment]:
    """Return all assignments, with their policies.  Raises `Forbidden` without permission."""
    return await _holds(client) + await _retention(client)


async def holds_in_force(client: Client) -> AsyncIterator[str]:
    """Return the names of assigned legal holds, if assignments cannot be read."""
    async for policy in client.legal_holds.list(fields=_HOLD_FIELDS):
        counts = policy.assignment_counts
        if policy.status != RELEASED and (counts is None or any(counts.model_dump().values())):
            yield policy.policy_name or policy.id


async def _holds(client: Client) -> list[PolicyAssignment]:
    found = []
    async for policy in client.legal_holds.list(fields=_HOLD_FIELDS):
        if policy.status == RELEASED:
            continue
        async for one in client.legal_holds.assignments(policy.id):
            whole = one.model_copy(update={"legal_hold_policy": policy})
            target = one.assigned_to or legal_holds.HoldTarget(id="")
            value = whole.model_dump(mode="json", exclude_none=True)
            found.append(PolicyAssignment(HOLD, one.id, target.type or "", target.id, value))
    return found


async def _retention(client: Client) -> list[PolicyAssignment]:
    found = []
    templates: dict[str, metadata.Template] | None = None
    async for policy in client.retention.list(fields=_RETENTION_FIELDS):
        async for one in client.retention.assignments(policy.id, fields=_ASSIGNMENT_FIELDS):
            whole = one.model_copy(update={"retention_policy": policy})
            target = one.assigned_to or retention.RetentionTarget()
            value: dict[str, Any] = whole.model_dump(mode="json", exclude_none=True)
            if one.filter_fields:
                if templates is None:
                    templates = {each.id: each async for each in client.metadata.templates()}
                value["filter_values"] = _wanted(templates.get(target.id or ""), one.filter_fields)
            word = target.type or ""
            found.append(
                PolicyAssignment(
                    RETENTION, one.id, word, "" if word == "enterprise" else target.id or "", value
                )
            )
    return found


def _wanted(template: metadata.Template | None, filters: list[retention.FilterField]) -> Mapping[str, str]:
    """What fields have to say, by their keys; filters name both by ids."""
    found = {}
    for one in filters:
        for field in (template.fields if template else None) or ():
            options = {option.id: option.key for option in field.options or ()}
            if field.id == one.field and one.value in options:
                found[field.key] = options[one.value]
    return found
