"""Groups and memberships, and the request bodies that create and change them."""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import GroupMini, Model, Readable, Timestamp, UpdateBody, UserMini

Level = Literal["admins_only", "admins_and_members", "all_managed_users"]
MemberRole = Literal["member", "admin"]

GroupName = Annotated[str, Readable, pydantic.Field(min_length=1, max_length=255)]
ShortText = Annotated[str, pydantic.Field(max_length=255)]


class GroupPermissions(Model):
    """The caller's permissions for a group."""

    can_invite_as_collaborator: bool | None = None


class UserGroup(Model):
    """A group; the fields from `description` on must be requested with `fields`."""

    type: Literal["group"] = "group"
    id: str
    name: str | None = None
    group_type: str | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    description: str | None = None
    external_sync_identifier: str | None = None
    provenance: str | None = None
    invitability_level: str | None = None
    member_viewability_level: str | None = None
    permissions: GroupPermissions | None = None


class UpdateGroup(UpdateBody):
    """An update of a group; unset fields are left unchanged."""

    name: GroupName | None = None
    description: ShortText | None = None
    external_sync_identifier: ShortText | None = None
    provenance: ShortText | None = None
    invitability_level: Level | None = None
    member_viewability_level: Level | None = None


class NewGroup(UpdateGroup):
    model_config = pydantic.ConfigDict(extra="ignore")

    name: GroupName


class GroupMembership(Model):
    """The membership of a user in a group."""

    type: Literal["group_membership"] = "group_membership"
    id: str
    user: UserMini | None = None
    group: GroupMini | None = None
    role: str | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    configurable_permissions: dict[str, bool] | None = None


class GroupPart(Model):
    """A user or a group, by id."""

    id: str


class UpdateMembership(UpdateBody):
    role: MemberRole | None = None
    configurable_permissions: dict[str, bool] | None = None


class NewMembership(Model):
    user: GroupPart
    group: GroupPart
    role: MemberRole | None = None
    configurable_permissions: dict[str, bool] | None = None
