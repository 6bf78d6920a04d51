"""Collaborations and their roles, and the request bodies that create and change them.

Rule: the roles are the public API's, spelled with its spaces and hyphens.
"""

from typing import Annotated, Any, Final, Literal

import pydantic

from cmsfs.models.base import GroupMini, Model, RequestTimestamp, Timestamp, UpdateBody, UserMini

Role = Literal[
    "editor", "viewer", "previewer", "uploader", "previewer uploader", "viewer uploader", "co-owner"
]
Status = Literal["accepted", "pending", "rejected"]

ACCEPTED: Final = "accepted"
PENDING: Final = "pending"
REJECTED: Final = "rejected"


class Collaboration(Model):
    type: Literal["collaboration"] = "collaboration"
    id: str
    item: dict[str, Any] | None = None  # mini; null while pending, or if the caller does not see it
    accessible_by: GroupMini | UserMini | None = None  # null: nobody has the address yet
    invite_email: str | None = None  # the address, if nobody has it yet
    role: str | None = None
    status: str | None = None
    expires_at: Timestamp | None = None
    can_view_path: bool | None = None
    is_access_only: bool | None = None
    acknowledged_at: Timestamp | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None


class SharedItem(Model):
    """The item that is shared."""

    type: Literal["file", "folder"]
    id: str


class Invited(Model):
    """The invited user or group: by id, or a user by login (e-mail address)."""

    type: Literal["user", "group"] = "user"
    id: str | None = None
    login: Annotated[str, pydantic.Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)] | None = None


class NewCollaboration(Model):
    item: SharedItem
    accessible_by: Invited
    role: Role
    can_view_path: bool | None = None
    is_access_only: bool | None = None
    expires_at: RequestTimestamp | None = None


class UpdateCollaboration(UpdateBody):
    """An update; unset fields are left unchanged, the role `owner` transfers the ownership of the item."""

    role: Role | Literal["owner"] | None = None
    status: Status | None = None
    can_view_path: bool | None = None
    expires_at: RequestTimestamp | None = None  # null: never


class CollaborationsPage(Model):
    """One page of collaborations."""

    entries: list[Collaboration] = pydantic.Field(default_factory=list)
    next_marker: str | None = None
    limit: int | None = None
    total_count: int | None = None
    offset: int | None = None


class AllowlistEntry(Model):
    """A domain with whose users the enterprise may collaborate."""

    type: Literal["collaboration_whitelist_entry"] = "collaboration_whitelist_entry"
    id: str
    domain: str | None = None
    direction: str | None = None  # inbound, outbound, both
    created_at: Timestamp | None = None


class NewAllowlistEntry(Model):
    """The request that adds a domain to the allowlist."""

    domain: Annotated[str, pydantic.Field(pattern=r"^[^@\s/]+\.[^@\s/]+$", max_length=253)]
    direction: Literal["inbound", "outbound", "both"]
