"""Fields of an item as extended attributes: the part of `user.cms.` that every item has.

`values` creates them from an item of any source (a listing, the trash, a search), `of_json` from the
replica's JSON.  SEMANTICS.md documents the table `FIELDS`; a test compares the two.

Rule: an empty or null field has no attribute.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from cmsfs.models.base import format_timestamp, parse_timestamp
from cmsfs.models.content import items

PREFIX = "user.cms."

_EMPTY: tuple[object, ...] = (None, "", [], {})


def _text(value: Any) -> str:
    return str(value)


def _flag(value: Any) -> str:
    return "1" if value else "0"


def _moment(value: Any) -> str:
    return format_timestamp(parse_timestamp(str(value)))


def _list(value: Any) -> str:
    return ",".join(str(one) for one in value)


def person(value: Any) -> str:
    """Return a user as `Name <login>`, or the part of it that is known."""
    name, login = value.get("name") or "", value.get("login") or ""
    if not name or not login:
        return name or login or str(value.get("id", ""))
    return f"{name} <{login}>"


def _granted(value: Any) -> str:
    """Return the names of the granted permissions, without the prefix `can_`."""
    return ",".join(sorted(name.removeprefix("can_") for name, given in value.items() if given))


def _path(value: Any) -> str:
    return "/" + "/".join(str(one.get("name") or one.get("id")) for one in value["entries"][1:])


def _representations(value: Any) -> str:
    found = []
    for one in value["entries"]:
        size = (one.get("properties") or {}).get("dimensions")
        state = (one.get("status") or {}).get("state")
        found.append(" ".join(filter(None, [one.get("representation"), size, state])))
    return ", ".join(found)


class AttributeField(NamedTuple):
    """An attribute: its name after the prefix, the path of its value in an item, and how to format it."""

    name: str
    place: str
    text: Callable[[Any], str] = _text


def _same_name(*places: str, text: Callable[[Any], str] = _text) -> list[AttributeField]:
    """Return attributes that have the names of their fields."""
    return [AttributeField(place, place, text) for place in places]


FIELDS = (
    *_same_name("id", "type", "etag", "sequence_id", "name", "size", "sha1", "version_number", "extension"),
    AttributeField("status", "item_status"),
    AttributeField("version", "file_version.id"),
    *_same_name("is_package", text=_flag),
    *_same_name("url", "description", "comment_count"),
    *_same_name("tags", text=_list),
    AttributeField("path", "path_collection", _path),
    AttributeField("parent", "parent.id"),
    # users and times
    AttributeField("owner", "owned_by", person),
    AttributeField("owner.id", "owned_by.id"),
    *_same_name("created_by", "modified_by", text=person),
    *_same_name("created_by.id", "modified_by.id"),
    AttributeField("uploader", "uploader_display_name"),
    *_same_name("created_at", "modified_at", "content_created_at", "content_modified_at", text=_moment),
    *_same_name("trashed_at", "purged_at", "expires_at", "disposition_at", text=_moment),
    # settings
    AttributeField("classification", "classification.name"),
    *_same_name("classification.definition", "classification.color"),
    AttributeField("lock", "lock.created_by", person),
    AttributeField("lock.by_id", "lock.created_by.id"),
    *_same_name("lock.id", "lock.app_type"),
    *_same_name("lock.created_at", "lock.expired_at", text=_moment),
    *_same_name("lock.is_download_prevented", text=_flag),
    AttributeField("watermark", "watermark_info.is_watermarked", _flag),
    AttributeField("watermark.inherited", "watermark_info.is_watermark_inherited", _flag),
    AttributeField("watermark.by_policy", "watermark_info.is_watermarked_by_access_policy", _flag),
    # permissions
    *_same_name("permissions", text=_granted),
    *_same_name("has_collaborations", "is_externally_owned", "is_associated_with_app_item", text=_flag),
    *_same_name("can_non_owners_invite", "can_non_owners_view_collaborators", text=_flag),
    *_same_name("allowed_invitee_roles", text=_list),
    AttributeField("is_collaboration_restricted", "is_collaboration_restricted_to_enterprise", _flag),
    *_same_name("sync_state"),
    AttributeField("upload_email", "folder_upload_email.email"),
    AttributeField("upload_email.access", "folder_upload_email.access"),
    # its shared link
    AttributeField("shared_link", "shared_link.url"),
    *_same_name("shared_link.download_url", "shared_link.vanity_url", "shared_link.vanity_name"),
    *_same_name("shared_link.access", "shared_link.effective_access", "shared_link.effective_permission"),
    *_same_name("shared_link.permissions", text=_granted),
    AttributeField("shared_link.has_password", "shared_link.is_password_enabled", _flag),
    *_same_name("shared_link.unshared_at", text=_moment),
    AttributeField("shared_link.downloads", "shared_link.download_count"),
    AttributeField("shared_link.previews", "shared_link.preview_count"),
    AttributeField("shared_link.options", "shared_link_permission_options", _list),
    AttributeField("shared_link.levels", "allowed_shared_link_access_levels", _list),
    *_same_name("is_accessible_via_shared_link", text=_flag),
    *_same_name("representations", text=_representations),
)

NAMES = frozenset(field.name for field in FIELDS)

# Fields of items that have no attribute, and why.
WITHOUT = {
    "collections": "they are the user's, and change without a change of the item",
    "expiring_embed_link": "created on demand; it gives access to the file",
    "item_collection": "it is what `ls` shows",
    "metadata": "see `user.cms.metadata`, below",
}


def values(item: items.Item) -> dict[str, str]:
    """Return all attributes of an item, also of a trashed one, by their names after `PREFIX`."""
    return of_json(item.model_dump(mode="json", exclude_none=True))


def of_json(obj: dict[str, Any]) -> dict[str, str]:
    """Return the same as `values`, for an item in its wire format."""
    found = {}
    for field in FIELDS:
        value = _at(obj, field.place)
        if value not in _EMPTY and (text := field.text(value)):
            found[field.name] = text
    return found


def _at(obj: dict[str, Any], place: str) -> Any:
    found: Any = obj
    for part in place.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found
