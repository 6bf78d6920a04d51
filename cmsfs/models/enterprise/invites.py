"""Invitations of users of other enterprises to the caller's enterprise."""

from typing import Literal

from cmsfs.models.base import EnterpriseMini, Model, Reference, Timestamp, UserMini
from cmsfs.models.enterprise.users import Login


class InvitedLogin(Model):
    login: Login


class NewInvite(Model):
    enterprise: Reference
    actionable_by: InvitedLogin


class Invite(Model):
    type: Literal["invite"] = "invite"
    id: str
    invited_to: EnterpriseMini | None = None
    actionable_by: UserMini | None = None
    invited_by: UserMini | None = None
    status: str | None = None  # pending, accepted
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
