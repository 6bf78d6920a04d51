"""Legal hold policies, their assignments, and the request bodies that create and change them.

Rule: a policy's id is a number on the wire, as in the specification; models also accept text.
"""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, NumberId, Readable, RequestTimestamp, Timestamp, UpdateBody, UserMini

PolicyName = Annotated[str, pydantic.Field(min_length=1, max_length=254), Readable]
Text = Annotated[str, pydantic.Field(max_length=500)]
AssignType = Literal["file", "file_version", "folder", "user", "ownership", "interactions"]


class HoldAssignmentCounts(Model):
    user: int = 0
    folder: int = 0
    file: int = 0
    file_version: int = 0
    ownership: int = 0
    interactions: int = 0


class LegalHoldPolicy(Model):
    type: str = "legal_hold_policy"
    id: NumberId
    policy_name: str | None = None
    description: str | None = None
    release_notes: str | None = None
    status: str | None = None  # active, releasing, released
    is_ongoing: bool | None = None
    assignment_counts: HoldAssignmentCounts | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    deleted_at: Timestamp | None = None
    filter_started_at: Timestamp | None = None
    filter_ended_at: Timestamp | None = None


class NewLegalHoldPolicy(Model):
    """A new policy, either with both dates or ongoing."""

    policy_name: PolicyName
    description: Text | None = None
    filter_started_at: RequestTimestamp | None = None
    filter_ended_at: RequestTimestamp | None = None
    is_ongoing: bool | None = None

    @pydantic.model_validator(mode="after")
    def _is_bound_or_ongoing(self) -> "NewLegalHoldPolicy":
        started, ended = self.filter_started_at, self.filter_ended_at
        if self.is_ongoing:
            if started is not None or ended is not None:
                raise ValueError("is_ongoing excludes filter_started_at and filter_ended_at")
        elif self.is_ongoing is False or started is not None or ended is not None:
            if started is None or ended is None:
                raise ValueError("filter_started_at and filter_ended_at are required together")
            if started > ended:
                raise ValueError("filter_started_at is after filter_ended_at")
        return self


class UpdateLegalHoldPolicy(UpdateBody):
    """An update of a policy; unset fields are left unchanged."""

    policy_name: PolicyName | None = None
    description: Text | None = None
    release_notes: Text | None = None


class HoldAssignTo(Model):
    type: AssignType
    id: str


class NewHoldAssignment(Model):
    policy_id: str
    assign_to: HoldAssignTo


class HoldTarget(Model):
    type: str | None = None
    id: str


class HoldAssignment(Model):
    type: str = "legal_hold_policy_assignment"
    id: str
    legal_hold_policy: LegalHoldPolicy | None = None
    assigned_to: HoldTarget | None = None
    assigned_by: UserMini | None = None
    assigned_at: Timestamp | None = None
    deleted_at: Timestamp | None = None


class VersionOnHold(Model):
    type: str = "file_version"
    id: str
    sha1: str | None = None
    name: str | None = None
    size: int | None = None
    created_at: Timestamp | None = None
    file: dict[str, Any] | None = None
