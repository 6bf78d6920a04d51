"""Users: the full form of the specification.  Fields that were not asked for may be absent."""

from cmsfs.models.base import EnterpriseMini, Model, Size, Timestamp


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
