"""The watermark of a file or folder, and the body that sets it."""

from typing import Literal

from cmsfs.models.base import Model, Timestamp


class Dates(Model):
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None


class Watermark(Model):
    watermark: Dates | None = None


class Imprint(Model):
    imprint: Literal["default"] = "default"


class SetWatermark(Model):
    watermark: Imprint
