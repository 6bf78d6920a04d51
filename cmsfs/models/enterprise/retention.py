"""Retention policies, their assignments, and the request bodies that create and change them.

Rule: an assignment's id and its policy's length are numbers on the wire, as in the specification; a policy
itself has its length as text, as in the public API.  Models accept both.
"""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, NumberId, NumberOrText, Readable, Timestamp, UpdateBody, UserMini

INDEFINITE = "indefinite"
# A century; use an indefinite policy for more.
MAX_DAYS = 36_500

PolicyName = Annotated[str, pydantic.Field(min_length=1, max_length=254), Readable]
Description = Annotated[str, pydantic.Field(max_length=500)]
Action = Literal["permanently_delete", "remove_retention"]


def _length(value: Any) -> Any:
    if value == INDEFINITE or value is None:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) if len(value) < 10 else MAX_DAYS + 1
    return value


# A number of days, possibly as text, or `indefinite`.
Length = Annotated[
    Annotated[int, pydantic.Field(ge=1, le=MAX_DAYS, strict=True)] | Literal["indefinite"],
    pydantic.BeforeValidator(_length),
]


def _non_modifiable(value: Any) -> Any:
    # The public API spells it in two ways.
    return value.replace("-", "_") if isinstance(value, str) else value


class _Notices(Model):
    can_owner_extend_retention: bool | None = None
    are_owners_notified: bool | None = None
    custom_notification_recipients: Annotated[list[UserMini], pydantic.Field(max_length=100)] | None = None


class NewRetentionPolicy(_Notices):
    policy_name: PolicyName
    policy_type: Literal["finite", "indefinite"]
    disposition_action: Action
    description: Description | None = None
    retention_length: Length | None = None
    retention_type: Literal["modifiable", "non_modifiable"] = "modifiable"

    @pydantic.model_validator(mode="after")
    def _has_a_length(self) -> "NewRetentionPolicy":
        if self.policy_type == INDEFINITE:
            if isinstance(self.retention_length, int):
                raise ValueError("retention_length must be indefinite for this policy_type")
            if self.disposition_action != "remove_retention":
                raise ValueError("disposition_action must be remove_retention for this policy_type")
        elif not isinstance(self.retention_length, int):
            raise ValueError("retention_length must be a number of days for this policy_type")
        return self


class UpdateRetentionPolicy(_Notices, UpdateBody):
    """An update of a policy; fields that are unset or null are left unchanged."""

    policy_name: PolicyName | None = None
    description: Description | None = None
    disposition_action: Action | None = None
    retention_type: Annotated[Literal["non_modifiable"], pydantic.BeforeValidator(_non_modifiable)] | None = (
        None
    )
    retention_length: Length | None = None
    status: Literal["retired"] | None = None


class RetentionAssignmentCounts(Model):
    enterprise: int = 0
    folder: int = 0
    metadata_template: int = 0


class RetentionPolicy(Model):
    type: str = "retention_policy"
    id: str
    policy_name: str | None = None
    description: str | None = None
    policy_type: str | None = None
    retention_length: NumberOrText | None = None  # days, or `indefinite`
    retention_type: str | None = None
    disposition_action: str | None = None
    status: str | None = None  # active, retired
    assignment_counts: RetentionAssignmentCounts | None = None
    can_owner_extend_retention: bool | None = None
    are_owners_notified: bool | None = None
    custom_notification_recipients: list[UserMini] | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None


class RetentionAssignTo(Model):
    type: Literal["enterprise", "folder", "metadata_template"]
    id: str | None = None  # none for the enterprise


class FilterField(Model):
    """A metadata field and one of its options, by their ids."""

    field: str
    value: str


class NewRetentionAssignment(Model):
    policy_id: str
    assign_to: RetentionAssignTo
    filter_fields: Annotated[list[FilterField], pydantic.Field(max_length=1)] | None = None
    start_date_field: str | None = None


class RetentionTarget(Model):
    type: str | None = None
    id: str | None = None


class RetentionAssignment(Model):
    type: str = "retention_policy_assignment"
    id: NumberId
    retention_policy: RetentionPolicy | None = None
    assigned_to: RetentionTarget | None = None
    filter_fields: list[FilterField] | None = None
    start_date_field: str | None = None
    assigned_by: UserMini | None = None
    assigned_at: Timestamp | None = None
