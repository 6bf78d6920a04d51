"""Users in full, and the request bodies that create and change them.

Fields that were not requested may be absent; those of an external user are mostly null.
"""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import EnterpriseMini, Exact, Model, Readable, Size, Timestamp, UpdateBody


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
    # An extension: the specification leaves this to the "support channel", which is an administrator here.
    can_search_enterprise_content: bool | None = None


# Fits the integers of the database.
MAX_SPACE = 2**62

# No controls and no line separators: names are printed, in terminals and mails too.
Name = Annotated[
    str,
    pydantic.Field(min_length=1, max_length=50, pattern=r"^[^\x00-\x1F\x7F-\x9F\u2028\u2029]+$"),
    Readable,
]
Login = Annotated[str, pydantic.Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
# ISO 639-1, with the service's own additions: en, zh, x1, pt-BR.
_LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""


def _known_language(value: str) -> str:
    if value[:2].lower() not in (*_LANGUAGES.split(), "x1"):
        raise ValueError("must be a language of ISO 639-1")
    return value


Language = Annotated[
    str,
    pydantic.Field(pattern=r"^[A-Za-z][A-Za-z0-9]([-_][A-Za-z0-9]{2,8})?$"),
    pydantic.AfterValidator(_known_language),
]
Address = Annotated[str, pydantic.Field(max_length=255)]
Short = Annotated[str, pydantic.Field(max_length=100)]
Space = Annotated[Size, Exact, pydantic.Field(ge=-1, le=MAX_SPACE)]
Role = Literal["coadmin", "user"]
Status = Literal["active", "inactive", "cannot_delete_edit", "cannot_delete_edit_upload"]


class NewTrackingCode(Model):
    type: Literal["tracking_code"] = "tracking_code"
    name: str
    value: Annotated[str, pydantic.Field(max_length=255)] = ""


class UpdateUser(UpdateBody):
    """An update of a user; unset fields are left unchanged.  A null `enterprise` removes the user from it."""

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

    @pydantic.field_validator("tracking_codes")
    @classmethod
    def _names_each_code_once(cls, codes: list[NewTrackingCode] | None) -> list[NewTrackingCode] | None:
        if codes and len({one.name for one in codes}) < len(codes):
            raise ValueError("must name each tracking code once")
        return codes

    notify: bool | None = None  # by e-mail; accepted, but none is sent


class NewUser(UpdateUser):
    """A new user; `login` is required except for app users."""

    name: Name
    is_platform_access_only: bool | None = None

    @pydantic.model_validator(mode="after")
    def _has_login(self) -> "NewUser":
        if self.login is None and not self.is_platform_access_only:
            raise ValueError("login is required unless is_platform_access_only is true")
        return self


class TerminateSessions(Model):
    """The users whose sessions to terminate, by id or by login."""

    user_ids: Annotated[list[str], pydantic.Field(max_length=1000)] = pydantic.Field(default_factory=list)
    user_logins: Annotated[list[str], pydantic.Field(max_length=1000)] = pydantic.Field(default_factory=list)


class TerminateGroupSessions(Model):
    """The groups whose members' sessions to terminate."""

    group_ids: Annotated[list[str], pydantic.Field(max_length=1000)] = pydantic.Field(default_factory=list)


class SessionsTerminated(Model):
    message: str


class UsersPage(Model):
    """A page of users, by marker or by offset, depending on `usemarker`."""

    entries: list[User] = pydantic.Field(default_factory=list)
    limit: int = 0
    offset: int = 0
    total_count: int = 0
    next_marker: str | None = None
    prev_marker: str | None = None
