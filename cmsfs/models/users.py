"""Users: the full form of the specification, and the bodies that make and change them.

Fields of a user that were not asked for may be absent; of an external user most are null.
"""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import Change, EnterpriseMini, Model, Size, Timestamp


class NotificationEmail(Model):
    email: str | None = None
    is_confirmed: bool | None = None


class TrackingCode(Model):
    type: str = "tracking_code"
    name: str | None = None
    value: str | None = None


class User(Model):
    type: str = "user"
    id: str
    name: str | None = None
    login: str | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    language: str | None = None
    timezone: str | None = None
    job_title: str | None = None
    phone: str | None = None
    address: str | None = None
    avatar_url: str | None = None
    hostname: str | None = None
    space_amount: Size | None = None  # -1 is unlimited
    space_used: Size | None = None
    max_upload_size: Size | None = None
    status: str | None = None  # active, inactive, cannot_delete_edit, cannot_delete_edit_upload
    role: str | None = None  # admin, coadmin, user
    notification_email: NotificationEmail | None = None
    tracking_codes: list[TrackingCode] | None = None
    can_see_managed_users: bool | None = None
    is_sync_enabled: bool | None = None
    is_external_collab_restricted: bool | None = None
    is_exempt_from_device_limits: bool | None = None
    is_exempt_from_login_verification: bool | None = None
    is_platform_access_only: bool | None = None
    enterprise: EnterpriseMini | None = None
    my_tags: list[str] | None = None
    external_app_user_id: str | None = None
    # Beyond the specification, whose "support channel" an administrator is here.
    can_search_enterprise_content: bool | None = None


# The service's numbers are the database's.
MAX_SPACE = 2**62

# No controls and no line separators: names are printed, in terminals and mails too.
Name = Annotated[
    str, pydantic.Field(min_length=1, max_length=50, pattern=r"^[^\x00-\x1F\x7F-\x9F\u2028\u2029]+$")
]
Login = Annotated[str, pydantic.Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
# ISO 639-1, with the service's own additions: en, zh, x1, pt-BR.
Language = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z][A-Za-z0-9]([-_][A-Za-z0-9]{2,8})?$")]
Address = Annotated[str, pydantic.Field(max_length=255)]
Short = Annotated[str, pydantic.Field(max_length=100)]
Space = Annotated[Size, pydantic.Field(ge=-1, le=MAX_SPACE)]
Role = Literal["coadmin", "user"]
Status = Literal["active", "inactive", "cannot_delete_edit", "cannot_delete_edit_upload"]


class NewTrackingCode(Model):
    type: Literal["tracking_code"] = "tracking_code"
    name: str
    value: Annotated[str, pydantic.Field(max_length=255)] = ""


class UpdateUser(Change):
    """What is not set stays as it is.  `enterprise` set to null lets the user go from the enterprise."""

    name: Name | None = None
    login: Login | None = None
    external_app_user_id: Annotated[str, pydantic.Field(max_length=255)] | None = None
    address: Address | None = None
    job_title: Short | None = None
    phone: Short | None = None
    language: Language | None = None
    timezone: Annotated[str, pydantic.Field(max_length=64)] | None = None
    role: Role | None = None
    status: Status | None = None
    space_amount: Space | None = None
    can_see_managed_users: bool | None = None
    is_exempt_from_device_limits: bool | None = None
    is_exempt_from_login_verification: bool | None = None
    is_external_collab_restricted: bool | None = None
    is_sync_enabled: bool | None = None
    can_search_enterprise_content: bool | None = None
    tracking_codes: Annotated[list[NewTrackingCode], pydantic.Field(max_length=100)] | None = None
    notification_email: NotificationEmail | None = None
    enterprise: None = None
    notify: bool | None = None  # by mail, of which none is sent


class NewUser(UpdateUser):
    """`login` is required unless it is an app user."""

    name: Name
    is_platform_access_only: bool | None = None

    @pydantic.model_validator(mode="after")
    def _has_login(self) -> "NewUser":
        if self.login is None and not self.is_platform_access_only:
            raise ValueError("login is required unless is_platform_access_only is true")
        return self


class Users(Model):
    """A page of users, in the form that `usemarker` chose."""

    entries: list[User] = pydantic.Field(default_factory=list)
    limit: int = 0
    offset: int = 0
    total_count: int = 0
    next_marker: str | None = None
