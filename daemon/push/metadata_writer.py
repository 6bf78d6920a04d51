"""Writes metadata values: validated by the template, sent as a JSON Patch that tests the old value.

The first value of a template creates its instance.  A refusal is logged in one line with the allowed values.

Rule: every patch of an existing value starts with `test`, so that nobody's newer value is lost.
"""

import errno
import logging
import os
from typing import Any, Literal

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import metadata
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map, metadata_values
from cmsfs.vfs.metadata_values import ValuePlace
from daemon.core.health import Health

log = logging.getLogger(__name__)

# Cache time of templates: a new option works soon, and a script that sets a thousand values requests it once.
TEMPLATE_SECONDS = 60.0

# The template that accepts any field with a text value.
FREE = "properties"


class ValueRefused(OSError):
    """EINVAL, with what is allowed."""

    def __init__(self, place: ValuePlace, why: str) -> None:
        super().__init__(errno.EINVAL, os.strerror(errno.EINVAL), place.field)
        self.why = why


class MetadataWriter:
    """Changes metadata; caches templates."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health
        self._known: dict[tuple[str, str], tuple[float, metadata.Template]] = {}

    async def change(
        self,
        kind: Literal["file", "folder"],
        item_id: str,
        there: list[Any],
        place: ValuePlace,
        text: str | None,
    ) -> None:
        """Set a value on an item that has these instances; None removes it.

        Raises `OSError` (EINVAL, ENODATA, ESTALE) and `RemoteError`.
        """
        found = [metadata.Instance.model_validate(one) for one in there]
        instance = metadata_values.find(found, place)
        before = instance.values.get(place.field) if instance is not None else None
        if text is None:
            if instance is None or before is None:
                raise errno_map.oserror(errno.ENODATA, place.field)
            await self._patch(kind, item_id, place, _test(place, before), _step("remove", place))
            return
        value = await self._value(place, text)
        if instance is None:
            await self._put(kind, item_id, place, value)
        elif before is None:
            await self._patch(kind, item_id, place, _step("add", place, value))
        elif before != value:
            await self._patch(kind, item_id, place, _test(place, before), _step("replace", place, value))

    async def judge(self, place: ValuePlace, text: str) -> None:
        """Raise `OSError` (EINVAL) for a value that the template does not allow, and `RemoteError`."""
        await self._value(place, text)

    async def _put(
        self, kind: Literal["file", "folder"], item_id: str, place: ValuePlace, value: Any
    ) -> None:
        try:
            with self._health.request("metadata"):
                await self._client.metadata.put(
                    kind, item_id, place.template, {place.field: value}, place.scope
                )
        except errors.Conflict:
            raise _overtaken(place) from None
        except errors.BadRequest as error:
            raise _refused(place, error.message) from None

    async def _patch(
        self, kind: Literal["file", "folder"], item_id: str, place: ValuePlace, *steps: metadata.PatchStep
    ) -> None:
        try:
            with self._health.request("metadata"):
                await self._client.metadata.patch(kind, item_id, place.template, steps, place.scope)
        except (errors.Conflict, errors.NotFound):
            raise _overtaken(place) from None
        except errors.BadRequest as error:
            raise _refused(place, error.message) from None

    async def _value(self, place: ValuePlace, text: str) -> Any:
        """Return the value of a field for a text.  Raises `OSError` (EINVAL)."""
        if (place.scope, place.template) == ("global", FREE):
            return text
        template = await self._template(place)
        fields = {field.key: field for field in template.fields or ()}
        if place.field not in fields:
            raise _refused(place, f"the template's fields are {', '.join(sorted(fields))}")
        try:
            return metadata_values.parse(fields[place.field], text)
        except ValueError as error:
            raise _refused(place, f"it must be {error}") from None

    async def _template(self, place: ValuePlace) -> metadata.Template:
        key = (place.scope, place.template)
        at, known = self._known.get(key, (float("-inf"), None))
        if known is not None and clock.monotonic() - at < TEMPLATE_SECONDS:
            return known
        try:
            with self._health.request("metadata"):
                known = await self._client.metadata.template(place.template, place.scope)
        except (errors.NotFound, errors.BadRequest):
            raise _refused(place, "there is no such template; `cmsfs templates list` shows all") from None
        self._known[key] = (clock.monotonic(), known)
        return known


def _step(
    op: Literal["add", "replace", "remove", "test"], place: ValuePlace, value: Any = None
) -> metadata.PatchStep:
    path = "/" + place.field.replace("~", "~0").replace("/", "~1")
    given = {"op": op, "path": path} | ({} if op == "remove" else {"value": value})
    return metadata.PatchStep.model_validate(given)


def _test(place: ValuePlace, value: Any) -> metadata.PatchStep:
    return _step("test", place, value)


def _refused(place: ValuePlace, why: str) -> OSError:
    log.warning("metadata %s cannot be set to this value: %s", ".".join(place), why)
    return ValueRefused(place, why)


def _overtaken(place: ValuePlace) -> OSError:
    log.warning("metadata %s was changed by someone else in the meantime; read it again", ".".join(place))
    return errno_map.oserror(errno.ESTALE, place.field)
