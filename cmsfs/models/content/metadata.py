"""Metadata templates, fields, instances, and JSON Patch operations on instances.

A template defines the keys of an instance and their types; `global.properties` accepts any key.  An instance
on the wire is one flat object: the template's keys, and properties of the instance itself, whose names begin
with `$`.
"""

import re
from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import DEFERRED, Model, format_timestamp, parse_timestamp

# The template that classifies items, and its one field.
CLASSIFICATION = "securityClassification-6VMVochwUWo"
CLASSIFICATION_FIELD = "Box__Security__Classification__Key"

MAX_TEXT = 10_000

Key = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", max_length=256)]
TemplateKey = Annotated[str, pydantic.Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
DisplayName = Annotated[str, pydantic.Field(min_length=1, max_length=4096)]
FieldType = Literal["string", "float", "date", "enum", "multiSelect"]

_NO_KEY = re.compile(r"[^A-Za-z0-9]+")


class Option(Model):
    key: Annotated[str, pydantic.Field(min_length=1, max_length=4096)]
    id: str | None = None
    static_config: dict[str, Any] | None = pydantic.Field(None, alias="staticConfig")


class Field(Model):
    """A field; if it has no key, its key is its name in camel case."""

    type: FieldType
    key: Key = ""  # never empty: generated if not given
    display_name: DisplayName = pydantic.Field(alias="displayName")
    description: str | None = None
    hidden: bool = False
    options: Annotated[list[Option], pydantic.Field(max_length=10_000)] | None = None
    id: str | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _has_a_key(cls, given: Any) -> Any:
        name = given.get("displayName") if isinstance(given, dict) else None
        if isinstance(name, str) and given.get("key") is None:
            return given | {"key": key_of(name, "field")}
        return given

    @pydantic.model_validator(mode="after")
    def _has_options_that_differ(self) -> "Field":
        if self.type in ("enum", "multiSelect"):
            keys = [one.key for one in self.options or ()]
            if len(set(keys)) < len(keys):
                raise ValueError("options must differ")
        elif self.options:
            raise ValueError("only enum and multiSelect have options")
        return self


class NewTemplate(Model):
    scope: str
    display_name: DisplayName = pydantic.Field(alias="displayName")
    template_key: TemplateKey | None = pydantic.Field(None, alias="templateKey")
    hidden: bool = False
    fields: Annotated[list[Field], pydantic.Field(max_length=1000)] = pydantic.Field(default_factory=list)
    copy_instance_on_item_copy: bool = pydantic.Field(False, alias="copyInstanceOnItemCopy")

    @pydantic.model_validator(mode="after")
    def _has_keys_that_differ(self) -> "NewTemplate":
        keys = [one.key.lower() for one in self.fields]
        if len(set(keys)) < len(keys):
            raise ValueError("keys of fields must differ")
        return self


class Template(Model):
    type: str = "metadata_template"
    id: str
    scope: str | None = None
    template_key: str | None = pydantic.Field(None, alias="templateKey")
    display_name: str | None = pydantic.Field(None, alias="displayName")
    hidden: bool | None = None
    fields: list[Field] | None = None
    copy_instance_on_item_copy: bool | None = pydantic.Field(None, alias="copyInstanceOnItemCopy")


class Instance(pydantic.BaseModel):
    """A metadata instance; the template's keys are in `model_extra`."""

    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True, defer_build=True)

    id: str | None = pydantic.Field(None, alias="$id")
    type: str | None = pydantic.Field(None, alias="$type")
    parent: str | None = pydantic.Field(None, alias="$parent")
    scope: str | None = pydantic.Field(None, alias="$scope")
    template: str | None = pydantic.Field(None, alias="$template")
    version: int | None = pydantic.Field(None, alias="$version")
    type_version: int | None = pydantic.Field(None, alias="$typeVersion")
    can_edit: bool | None = pydantic.Field(None, alias="$canEdit")

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, value in (self.model_extra or {}).items() if not name.startswith("$")}


class Instances(Model):
    entries: list[Instance] = pydantic.Field(default_factory=list)
    limit: int = 100


class PatchStep(Model):
    """One step of a JSON Patch."""

    model_config = pydantic.ConfigDict(coerce_numbers_to_str=False)

    op: Literal["add", "replace", "remove", "test", "move", "copy"]
    path: str
    value: Any = None
    from_: str | None = pydantic.Field(None, alias="from")


Patch = pydantic.TypeAdapter(list[PatchStep], config=DEFERRED)
NewInstance = pydantic.TypeAdapter(dict[str, Any])


def key_of(display_name: str, kind: str = "template") -> str:
    """Return the default key of a template or field: its name in camel case."""
    words = [word for word in _NO_KEY.split(display_name) if word]
    key = "".join([word.lower() if at == 0 else word.capitalize() for at, word in enumerate(words)])
    return (key if key[:1].isalpha() else f"{kind}{key}")[:64]


def date_text(text: str) -> str:
    """Return a date in the format of instances: in UTC, to the millisecond, so that the text sorts by time.

    Raises `ValueError` if the text is not an RFC 3339 date-time.
    """
    whole = format_timestamp(parse_timestamp(text))[:-6]
    return f"{whole}.000Z" if "." not in whole else f"{whole[:23]}Z"
