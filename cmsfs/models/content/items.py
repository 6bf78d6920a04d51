"""Files, folders and web links as responses, and the request bodies that create and change them.

Every field but `type` and `id` is optional: a response has the mini representation and the requested
fields.  A field that was not sent is not in `model_fields_set`.

Rule: wire names stay the service's.
"""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import (
    DEFERRED,
    FileVersionMini,
    FolderMini,
    ItemName,
    Model,
    Reference,
    RequestTimestamp,
    Size,
    Timestamp,
    UpdateBody,
    UserMini,
)


class PathCollection(Model):
    total_count: int = 0
    entries: list[FolderMini] = pydantic.Field(default_factory=list)


class SharedLinkPermissions(Model):
    can_download: bool | None = None
    can_preview: bool | None = None
    can_edit: bool | None = None


class SharedLink(Model):
    url: str | None = None
    download_url: str | None = None
    vanity_url: str | None = None
    vanity_name: str | None = None
    access: str | None = None  # open, company, collaborators
    effective_access: str | None = None
    effective_permission: str | None = None  # can_edit, can_download, can_preview, no_access
    is_password_enabled: bool | None = None
    unshared_at: Timestamp | None = None
    download_count: int | None = None
    preview_count: int | None = None
    permissions: SharedLinkPermissions | None = None


class Permissions(Model):
    """The caller's permissions; files and folders each have some of them."""

    can_delete: bool | None = None
    can_download: bool | None = None
    can_invite_collaborator: bool | None = None
    can_rename: bool | None = None
    can_set_share_access: bool | None = None
    can_share: bool | None = None
    can_annotate: bool | None = None
    can_comment: bool | None = None
    can_preview: bool | None = None
    can_upload: bool | None = None
    can_view_annotations_all: bool | None = None
    can_view_annotations_self: bool | None = None
    can_apply_watermark: bool | None = None


class Lock(Model):
    type: str = "lock"
    id: str | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    expired_at: Timestamp | None = None
    is_download_prevented: bool | None = None
    app_type: str | None = None


class Restriction(Model):
    """A scope, and the item that it is limited to, of a downscoped token."""

    scope: str
    object: dict[str, Any] | None = None


class EmbedLink(Model):
    access_token: str | None = None
    expires_in: int | None = None
    token_type: str | None = None
    restricted_to: list[Restriction] | None = None
    url: str | None = None


class WatermarkInfo(Model):
    is_watermarked: bool | None = None
    is_watermark_inherited: bool | None = None
    is_watermarked_by_access_policy: bool | None = None


class Link(Model):
    url: str | None = None


class UrlTemplate(Model):
    url_template: str | None = None


class RepresentationStatus(Model):
    state: str | None = None  # success, viewable, pending, none


class Representation(Model):
    representation: str | None = None
    properties: dict[str, Any] | None = None
    content: UrlTemplate | None = None
    info: Link | None = None
    status: RepresentationStatus | None = None


class Representations(Model):
    entries: list[Representation] = pydantic.Field(default_factory=list)


class Classification(Model):
    name: str | None = None
    definition: str | None = None
    color: str | None = None


class UploadEmail(Model):
    access: str | None = None
    email: str | None = None


class Collection(Model):
    """A collection of items; each user has one, the favorites."""

    type: str = "collection"
    id: str
    name: str | None = None
    collection_type: str | None = None


class _Item(Model):
    """The fields that files, folders and web links have in common."""

    id: str
    etag: str | None = None  # null on the root folder
    sequence_id: str | None = None
    name: str | None = None
    description: str | None = None
    path_collection: PathCollection | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    trashed_at: Timestamp | None = None
    purged_at: Timestamp | None = None
    created_by: UserMini | None = None
    modified_by: UserMini | None = None
    owned_by: UserMini | None = None
    shared_link: SharedLink | None = None
    parent: FolderMini | None = None
    item_status: str | None = None  # active, trashed, deleted
    collections: list[Collection] | None = None  # of the caller


class _Stored(_Item):
    """The further fields of files and folders."""

    size: Size | None = None
    content_created_at: Timestamp | None = None
    content_modified_at: Timestamp | None = None
    permissions: Permissions | None = None
    tags: list[str] | None = None
    metadata: dict[str, dict[str, dict[str, Any]]] | None = None
    classification: Classification | None = None
    watermark_info: WatermarkInfo | None = None
    allowed_invitee_roles: list[str] | None = None
    is_accessible_via_shared_link: bool | None = None
    is_externally_owned: bool | None = None
    has_collaborations: bool | None = None
    is_associated_with_app_item: bool | None = None


class File(_Stored):
    type: Literal["file"] = "file"
    sha1: str | None = None
    file_version: FileVersionMini | None = None
    version_number: str | None = None
    comment_count: int | None = None
    lock: Lock | None = None
    extension: str | None = None
    is_package: bool | None = None
    expiring_embed_link: EmbedLink | None = None
    expires_at: Timestamp | None = None
    disposition_at: Timestamp | None = None
    representations: Representations | None = None
    uploader_display_name: str | None = None
    shared_link_permission_options: list[str] | None = None


class Folder(_Stored):
    type: Literal["folder"] = "folder"
    folder_upload_email: UploadEmail | None = None
    item_collection: dict[str, Any] | None = None  # a page of items, see `paging.OffsetPageLike`
    sync_state: str | None = None
    can_non_owners_invite: bool | None = None
    can_non_owners_view_collaborators: bool | None = None
    is_collaboration_restricted_to_enterprise: bool | None = None
    allowed_shared_link_access_levels: list[str] | None = None


class WebLink(_Item):
    type: Literal["web_link"] = "web_link"
    url: str | None = None


Item = Annotated[File | Folder | WebLink, pydantic.Field(discriminator="type")]

_ITEM: pydantic.TypeAdapter[File | Folder | WebLink] = pydantic.TypeAdapter(Item, config=DEFERRED)


def parse_item(obj: dict[str, Any]) -> File | Folder | WebLink:
    """Parse a JSON object as an item, by its `type`.  Raises `pydantic.ValidationError`."""
    return _ITEM.validate_python(obj)


Description = Annotated[str, pydantic.Field(max_length=256)]
Tags = Annotated[list[str], pydantic.Field(max_length=100)]


class NewFolder(Model):
    name: ItemName
    parent: Reference
    sync_state: Literal["synced", "not_synced", "partially_synced"] | None = None


class NewLock(Model):
    """The lock that an update of a file sets; null instead of a lock unlocks the file."""

    access: Literal["lock"] = pydantic.Field("lock", validation_alias=pydantic.AliasChoices("access", "type"))
    expires_at: RequestTimestamp | None = None
    is_download_prevented: bool = False


class NewSharedLink(UpdateBody):
    """The shared link that an update sets; omitted fields are left unchanged, or get a new link's defaults.

    Null instead of a link removes the link.
    """

    access: Literal["open", "company", "collaborators"] | None = None
    password: Annotated[str, pydantic.Field(min_length=1, max_length=256)] | None = None  # null: none
    unshared_at: RequestTimestamp | None = None  # null: never
    permissions: SharedLinkPermissions | None = None


class CollectionReference(Model):
    id: str


class UpdateItem(UpdateBody):
    """An update of a file or folder; unset fields are left unchanged."""

    lock: NewLock | None = None  # of a file; null unlocks
    shared_link: NewSharedLink | None = None

    name: ItemName | None = None
    parent: Reference | None = None
    description: Description | None = None
    tags: Tags | None = None
    collections: list[CollectionReference] | None = None  # of the user; null or an empty list: none
    sync_state: Literal["synced", "not_synced", "partially_synced"] | None = None  # of a folder
    content_created_at: RequestTimestamp | None = None
    content_modified_at: RequestTimestamp | None = None
    disposition_at: RequestTimestamp | None = None  # of a file under retention: only later than now

    # Of a folder and all below it: who may invite whom, and who sees the collaborators.
    is_collaboration_restricted_to_enterprise: bool | None = None
    can_non_owners_invite: bool | None = None
    can_non_owners_view_collaborators: bool | None = None


class CopyItem(Model):
    parent: Reference
    name: ItemName | None = None
    version: str | None = None


class Restore(Model):
    """A restore from the trash: `parent` is used only if the original folder is gone, `name` always."""

    name: ItemName | None = None
    parent: Reference | None = None
