"""Names of value folders, `status=open`, `sum=5..10`, `signed=2026-11`: formats and parses them.

A name is a field of the template, `=`, and a value as shown in `user.cms.metadata`: the complete text, one of
several options, a number, a day; or a range, inclusive for numbers, and for dates a year, a month, or any two
of these.  Dates are in UTC, as in instances.

A slash, a percent sign and control characters are percent-encoded: `%2F`, `%25`, `%0A`.  A value that is too
long for a name is truncated, and a hash of the complete value is appended.

Rule: the meaning of a name does not depend on existing items, except for one with a hash.
"""

import calendar
import hashlib
import math
import re
from dataclasses import dataclass
from typing import Any

from cmsfs.models.content import metadata
from cmsfs.vfs import metadata_values

MAX_BYTES = 255

_ESCAPED = re.compile("[%/\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPE = re.compile("(?:%[0-9A-Fa-f]{2})+")
_HASHED = re.compile(r".* \(#[0-9a-f]{8}\)", re.DOTALL)
_DATE = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """Selects items whose `field` has this value, or one from `low` to `high` (None: unbounded).

    `word` is the text after the `=`; `value` is set on items that are moved there, None for a range.
    """

    field: str
    type: metadata.FieldType
    word: str
    low: Any
    high: Any
    value: str | None

    @property
    def name(self) -> str:
        """The name of the value's folder."""
        return folder_name(self.field, self.word)

    def fits(self, value: Any) -> bool:
        """Whether an item with this value of the field is selected."""
        if isinstance(value, list):
            return self.low in value
        if self.type in ("float", "date"):
            if not isinstance(value, float | int if self.type == "float" else str):
                return False
            return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)
        return bool(value == self.low)


def folder_name(field: str, word: str) -> str:
    """Return the name of a value's folder."""
    text = _ESCAPED.sub(lambda found: "".join(f"%{one:02X}" for one in _bytes(found[0])), word)
    name = f"{field}={text}"
    if len(name.encode()) <= MAX_BYTES and _HASHED.fullmatch(name) is None:
        return name
    tag = f" (#{hashlib.sha1(_bytes(word), usedforsecurity=False).hexdigest()[:8]})"
    while len(name.encode()) + len(tag) > MAX_BYTES:
        name = name[:-1]
    return name + tag


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def is_hashed(name: str) -> bool:
    """Whether the name has a hash, so that its value cannot be parsed from it."""
    return _HASHED.fullmatch(name) is not None


def of_name(name: str, fields: dict[str, metadata.Field], *, is_free: bool = False) -> ValueFilter | None:
    """Parse a name; None if it is not a value folder.  `is_free`: all other fields are texts."""
    key, sign, text = name.partition("=")
    field = fields.get(key)
    if field is None and is_free and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key):
        field = metadata.Field.model_validate({"type": "string", "key": key, "displayName": key})
    if not sign or field is None:
        return None
    try:
        word = _ESCAPE.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
        word.encode()
    except UnicodeError:
        return None
    return of_word(field, word)


def expected(name: str, fields: dict[str, metadata.Field]) -> str | None:
    """Describe the valid values for the field of a name; None if it is not a name of a value."""
    key, sign, _ = name.partition("=")
    if not sign or (field := fields.get(key)) is None:
        return None
    match field.type:
        case "enum" | "multiSelect":
            return f"{key} is one of {', '.join(repr(one.key) for one in field.options or ())}"
        case "float":
            return f"{key} is a number, or a range as 5..10"
        case "date":
            return f"{key} is a date as 2026-11-21, a month, a year, or a range of these"
        case _:
            return f"{key} is a text"


def of_word(field: metadata.Field, word: str) -> ValueFilter | None:
    """Parse a value or a range of a field; None if it is invalid for the field."""
    match field.type:
        case "float":
            return _numbers(field.key, word)
        case "date":
            return _dates(field.key, word)
        case "enum" | "multiSelect":
            is_one = word in [one.key for one in field.options or ()]
            return ValueFilter(field.key, field.type, word, word, word, word) if is_one else None
        case _:
            return ValueFilter(field.key, "string", word, word, word, word)


def _numbers(key: str, word: str) -> ValueFilter | None:
    lower, dots, upper = word.partition("..")
    low, high = (_number(one) for one in (lower, upper if dots else lower))
    if math.nan in (low, high) or (dots and low is None and high is None) or (not dots and low is None):
        return None
    if low is not None and high is not None and low > high:
        return None
    return ValueFilter(key, "float", word, low, high, None if dots else word)


def _number(word: str) -> float | None:
    """Parse a number; None for an empty text, `math.nan` for an invalid number."""
    try:
        number = float(word) if word else None
    except ValueError:
        return math.nan
    return number if number is None or math.isfinite(number) else math.nan


def _dates(key: str, word: str) -> ValueFilter | None:
    lower, dots, upper = word.partition("..")
    try:
        low = _span(lower)[0] if lower else None
        high = _span(upper if dots else lower)[1] if upper or not dots else None
    except ValueError:
        return None
    if (low is None and high is None) or (low is not None and high is not None and low > high):
        return None
    is_day = not dots and len(word) >= len("2026-11-21")
    return ValueFilter(key, "date", word, low, high, word if is_day else None)


def _span(word: str) -> tuple[str, str]:
    """Return the first and last moment of a year, month, day or date-time.  Raises `ValueError`."""
    if (found := _DATE.fullmatch(word)) is None:
        moment = metadata.date_text(word)
        return moment, moment
    year, month, day = (None if one is None else int(one) for one in found.groups())
    assert year is not None
    first = f"{year:04d}-{month or 1:02d}-{day or 1:02d}"
    last_month = month or 12
    last = f"{year:04d}-{last_month:02d}-{day or calendar.monthrange(year, last_month)[1]:02d}"
    return metadata.date_text(f"{first}T00:00:00Z"), metadata.date_text(f"{last}T23:59:59.999Z")


# ---- which folders there are -------------------------------------------------------------------

# Maximum number of listed values; others can be opened by name.
MOST_VALUES = 200
# Up to this many numbers are listed individually, more as ranges.
_SINGLE_NUMBERS = 12


def words_of(field: metadata.Field, values: list[Any], within: ValueFilter | None) -> dict[str, int]:
    """Return the folders for the values of a field, with the number of items in each; the most frequent
    first, unless they have a natural order.  `within`: the current folder's filter on this field."""
    counts: dict[str, int] = {}
    if field.type == "date":
        length = 4 if within is None else {4: 7, 7: 10}.get(len(within.word), 10 if within.value else 4)
        for value in sorted(one for one in values if isinstance(one, str)):
            counts[value[:length]] = counts.get(value[:length], 0) + 1
        return counts
    if field.type == "float":
        return _number_words([one for one in values if isinstance(one, int | float)])
    for value in values:
        for one in dict.fromkeys(value) if isinstance(value, list) else [value]:
            if isinstance(one, str):
                counts[one] = counts.get(one, 0) + 1
    if field.type != "string":
        order = {one.key: at for at, one in enumerate(field.options or ())}
        return dict(sorted(counts.items(), key=lambda one: order.get(one[0], len(order))))
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _number_words(numbers: list[float]) -> dict[str, int]:
    counts: dict[str, int] = {}
    if len(set(numbers)) <= _SINGLE_NUMBERS:
        for number in sorted(numbers):
            word = metadata_values.text(float(number))
            counts[word] = counts.get(word, 0) + 1
        return counts
    low, high = min(numbers), max(numbers)
    width = _round_up((high / 10) - (low / 10))
    is_whole = width >= 1 and all(float(one).is_integer() for one in numbers)
    for number in sorted(numbers):
        start = math.floor(number / width) * width
        end = start + width - 1 if is_whole else start + width
        word = f"{_short(start)}..{_short(end)}"
        counts[word] = counts.get(word, 0) + 1
    return counts


def _round_up(number: float) -> float:
    """Round up to the next of ..., 0.5, 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(max(number, 1e-300)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))


def _short(number: float) -> str:
    return metadata_values.text(float(f"{number:.12g}"))
