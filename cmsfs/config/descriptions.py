"""Renders the descriptions of settings for the example file, the manual page and `cmsfs config`."""

import json
import textwrap
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cmsfs.config.settings import Settings, about

WIDTH = 100

HEAD = """\
# The settings of cmsfs: ~/.config/cmsfs/config.toml, or the file that CMSFS_CONFIG names.
#
# Every setting is listed with its default.  Settings at the top apply to all accounts, those in a table
# [accounts.NAME] to one; CMSFS_CACHE_BYTES=... in the environment overrides both, and an option of the
# command overrides everything.  `cmsfs config show` prints what is in force, `cmsfs config check` finds
# mistakes.
"""


@dataclass(frozen=True, slots=True)
class Description:
    """One setting."""

    name: str
    text: str
    kind: str  # the type, in TOML terms
    default: Any
    unit: str
    section: str  # the section that starts with this setting
    example: Any
    remark: str
    old_names: tuple[str, ...]

    @property
    def shown_default(self) -> str:
        """Return the default in TOML syntax."""
        if self.default in (None, ""):
            return self.remark or "not set"
        return self.remark or _toml(self.default)

    @property
    def line(self) -> str:
        """Return the setting with its default, or with an example and a remark if the default is not
        helpful."""
        if self.example is None:
            return f"{self.name} = {_toml(self.default)}"
        return f"{f'{self.name} = {_toml(self.example)}':<45} ({self.remark or 'not set'})"


def describe(name: str) -> Description:
    """A setting by its name."""
    field = Settings.model_fields[name]
    known = about(name)
    return Description(
        name,
        text=field.description or "",
        kind=_kind(field.annotation),
        default=field.default,
        unit=known["unit"],
        section=known["section"],
        example=next(iter(field.examples or []), None),
        remark=known["remark"],
        old_names=tuple(known["old_names"]),
    )


def everything() -> list[Description]:
    """All settings, in the order of the file."""
    return [describe(name) for name in Settings.model_fields]


def example() -> str:
    """The configuration file with every setting, its default and its description, commented out."""
    parts = [HEAD]
    for one in everything():
        if one.section:
            parts.append(f"# ---- {one.section} ----\n")
        text = textwrap.fill(_with_unit(one), WIDTH, initial_indent="# ", subsequent_indent="# ")
        parts.append(f"{text}\n# {one.line}\n")
    return "\n".join(parts)


def _with_unit(one: Description) -> str:
    # The unit is already in a name such as `poll_seconds`.
    is_in_name = not one.unit or one.unit in one.name.split("_")
    return one.text if is_in_name else f"{one.text} In {one.unit}."


def _toml(value: Any) -> str:
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    return json.dumps(value, ensure_ascii=False)


def _kind(annotation: object) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(json.dumps(choice) for choice in typing.get_args(annotation))
    if typing.get_origin(annotation) in (tuple, list):
        return f"list of {_kind(typing.get_args(annotation)[0])}"
    if others := [kind for kind in typing.get_args(annotation) if kind is not type(None)]:
        return _kind(others[0])
    known = {str: "text", Path: "path", int: "whole number", float: "number", bool: "true or false"}
    return known.get(typing.cast(type, annotation), "value")
