"""Device pins: devices that are allowed to log in.  The embedded service has none."""

from typing import Literal

import pydantic

from cmsfs.models.base import Model, UserMini


class DevicePinner(Model):
    type: Literal["device_pinner"] = "device_pinner"
    id: str
    owned_by: UserMini | None = None
    product_name: str | None = None


class PinnerOrder(Model):
    by: Literal["id"] = "id"
    direction: Literal["asc", "desc"]


class DevicePinners(Model):
    entries: list[DevicePinner] = pydantic.Field(default_factory=list)
    limit: int
    next_marker: int | None = None
    order: list[PinnerOrder] = pydantic.Field(default_factory=list)
