"""Metadata cascade policies, and the request bodies that create and apply them."""

from typing import Any, Literal

import pydantic

from cmsfs.models.base import Model


class CascadePolicy(Model):
    """A policy that applies a folder's metadata of one template to everything below the folder."""

    type: Literal["metadata_cascade_policy"] = "metadata_cascade_policy"
    id: str
    owner_enterprise: dict[str, Any] | None = None
    parent: dict[str, Any] | None = None  # the folder, type and id
    scope: str | None = None
    template_key: str | None = pydantic.Field(None, alias="templateKey")


class NewCascadePolicy(Model):
    folder_id: str
    scope: str
    template_key: str = pydantic.Field(alias="templateKey")


class CascadeApplication(Model):
    """How to apply a policy to items that already have values: keep them, or overwrite them."""

    conflict_resolution: Literal["none", "overwrite"]
