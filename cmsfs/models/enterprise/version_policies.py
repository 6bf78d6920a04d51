"""File versions under legal hold or retention, one entry per version."""

from typing import Any, Literal

import pydantic

from cmsfs.models.base import Model, Timestamp
from cmsfs.models.enterprise.legal_holds import HoldAssignment


class HeldVersion(Model):
    type: Literal["file_version_legal_hold"] = "file_version_legal_hold"
    id: str
    file_version: dict[str, Any] | None = None
    file: dict[str, Any] | None = None
    legal_hold_policy_assignments: list[HoldAssignment] = pydantic.Field(default_factory=list)
    deleted_at: Timestamp | None = None


class WinningPolicy(Model):
    """The policy that keeps the version longest."""

    type: Literal["retention_policy"] = "retention_policy"
    id: str
    policy_name: str
    retention_length: str
    disposition_action: str


class RetainedVersion(Model):
    type: Literal["file_version_retention"] = "file_version_retention"
    id: str
    file_version: dict[str, Any] | None = None
    file: dict[str, Any] | None = None
    applied_at: Timestamp | None = None
    disposition_at: Timestamp | None = None  # null: never
    winning_retention_policy: WinningPolicy | None = None
