"""Request bodies that create, change and restore web links.  The response is `items.WebLink`."""

from typing import Final
from urllib.parse import urlsplit

import pydantic

from cmsfs.models.base import ItemName, Model, Reference, UpdateBody
from cmsfs.models.content.items import CollectionReference, Description, NewSharedLink

MAX_URL: Final = 4096
MAX_DESCRIPTION: Final = 256


def is_address(url: str) -> bool:
    """Whether this is a valid web address (http, https) without spaces or unprintable characters."""
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


class NewWebLink(Model):
    url: str = pydantic.Field(pattern=r"^(?i:https?)://\S+$", max_length=MAX_URL)
    parent: Reference
    name: ItemName | None = None  # the address itself if absent
    description: Description | None = None


class UpdateWebLink(UpdateBody):
    """An update of a web link; unset fields are left unchanged."""

    url: str | None = pydantic.Field(None, pattern=r"^(?i:https?)://\S+$", max_length=MAX_URL)
    name: ItemName | None = None
    parent: Reference | None = None
    shared_link: NewSharedLink | None = None
    description: Description | None = None
    collections: list[CollectionReference] | None = None


class RestoreWebLink(Model):
    """A restore from the trash: `parent` is used only if the original folder is gone, `name` always."""

    name: ItemName | None = None
    parent: Reference | None = None
