"""Bodies that make, change and restore web links.  The link itself is `items.WebLink`."""

import pydantic

from cmsfs.models.base import Model, Reference
from cmsfs.models.items import Description, NewSharedLink


class NewWebLink(Model):
    url: str = pydantic.Field(pattern=r"^(?i:https?)://\S+$", max_length=4096)
    parent: Reference
    name: str | None = None  # the address itself if absent
    description: Description | None = None


class UpdateWebLink(Model):
    """What is not set stays as it is."""

    url: str | None = pydantic.Field(None, pattern=r"^(?i:https?)://\S+$", max_length=4096)
    name: str | None = None
    parent: Reference | None = None
    shared_link: NewSharedLink | None = None
    description: Description | None = None


class RestoreWebLink(Model):
    """Out of the trash: `parent` counts only if the original folder is gone, `name` always."""

    name: str | None = None
    parent: Reference | None = None
