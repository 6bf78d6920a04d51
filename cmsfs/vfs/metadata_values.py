"""Metadata values as xattrs: `metadata.<scope>.<template>.<field>`.

A list of options has commas between them (or line ends, where an option has a comma), a number is written as
people write it, a date is RFC 3339.  The scope of an enterprise is `enterprise`, with or without the number
that the service puts behind it.  What has an inside of its own, as the cards that programs put on files, is
no attribute.

Rule: a text becomes a value only by the template's field; what does not fit names what would.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from cmsfs.models.content import metadata

WORD = "metadata"


class ValuePlace(NamedTuple):
    """Where a value is."""

    scope: str
    template: str
    field: str


def place(name: str) -> ValuePlace | None:
    """The place that an attribute's name (behind the prefix) means; None if it is no such name."""
    parts = name.split(".", 3)
    if len(parts) != 4 or parts[0] != WORD or not all(parts):
        return None
    scope = _scope(parts[1])
    return ValuePlace(scope, parts[2], parts[3]) if scope in ("global", "enterprise") else None


def key(where: ValuePlace) -> str:
    """A place as one text; `at_key` reads it."""
    return ".".join(where)


def at_key(text: str) -> ValuePlace:
    return ValuePlace(*text.split(".", 2))


def _scope(scope: str) -> str:
    word, _, number = scope.partition("_")
    return word if number.isdigit() else scope


def values(instances: Iterable[metadata.Instance]) -> dict[str, str]:
    """The attributes of all values that are there, by their names behind the prefix."""
    found = {}
    for one in instances:
        for key, value in sorted(one.values.items()):
            if value is not None and not _has_inside(value):
                found[f"{WORD}.{_scope(one.scope or '')}.{one.template}.{key}"] = text(value)
    return found


def _has_inside(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, dict | list) for one in value)
    )


def summary(instances: Iterable[metadata.Instance]) -> str:
    """All values, one a line: `scope.template.field=value`."""
    found = values(instances)
    return "\n".join(f"{name.removeprefix(WORD)[1:]}={value}" for name, value in found.items())


def find(instances: Iterable[metadata.Instance], where: ValuePlace) -> metadata.Instance | None:
    """The instance that has the place, whether it has a value there or not."""
    for one in instances:
        if (_scope(one.scope or ""), (one.template or "").lower()) == (where.scope, where.template.lower()):
            return one
    return None


def text(value: Any) -> str:
    if isinstance(value, list):
        words = [str(one) for one in value]
        return ("\n" if any("," in word for word in words) else ",").join(words)
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def parse(field: metadata.Field, given: str) -> Any:
    """The value that a text means in a field.  Raises `ValueError`, which says what is allowed."""
    options = [one.key for one in field.options or ()]
    match field.type:
        case "float":
            return _number(given)
        case "date":
            try:
                return metadata.date_text(given if "T" in given.upper() else f"{given}T00:00:00Z")
            except ValueError:
                raise ValueError("a date (2026-11-21) or an RFC 3339 date-time") from None
        case "enum":
            if given not in options:
                raise ValueError(f"one of {', '.join(options)}")
            return given
        case "multiSelect":
            chosen = _chosen(given, options)
            if len(set(chosen)) < len(chosen) or not set(chosen) <= set(options):
                raise ValueError(f"some of {', '.join(options)}, with commas or line ends between")
            return chosen
        case _:
            if len(given) > metadata.MAX_TEXT:
                raise ValueError(f"a text of up to {metadata.MAX_TEXT} characters")
            return given


def _chosen(given: str, options: list[str]) -> list[str]:
    if given in options:
        return [given]
    return [one.strip() for one in given.split("\n" if "\n" in given else ",") if one.strip()]


def _number(given: str) -> int | float:
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("a number")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
