"""Names of value folders, `status=open`, `sum=5..10`, `signed=2026-11`: what each stands for, and back.

A name has a field of the template before the `=`, and behind it a value, as `user.cms.metadata` shows it: the
whole text, one option of several, a number, a day; or a range, of numbers with both ends included, of dates a
year, a month, or any two of these.  Dates are those of UTC, as templates hold them.

A slash, a percent sign and control characters are written as in addresses: `%2F`, `%25`, `%0A`.  A value that
is too long for a name is cut and has a hash of the whole one behind it.

Rule: a name means the same whatever is there; only one with a hash needs the value that it was made of.
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
    """Items whose `field` has this value, or one from `low` to `high` (None: no end on that side).

    `word` is what stands behind the `=`; `value` is what is set by moving an item there, None for a range.
    """

    field: str
    type: metadata.FieldType
    word: str
    low: Any
    high: Any
    value: str | None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return folder_name(self.field, self.word)

    def fits(self, value: Any) -> bool:
        """Whether an item with this value of the field is meant."""
        if isinstance(value, list):
            return self.low in value
        if self.type in ("float", "date"):
            if not isinstance(value, float | int if self.type == "float" else str):
                return False
            return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)
        return bool(value == self.low)


def folder_name(field: str, word: str) -> str:
    """The name of the folder of a value."""
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
    """Whether it alone does not say which value it stands for."""
    return _HASHED.fullmatch(name) is not None


def of_name(name: str, fields: dict[str, metadata.Field], *, is_free: bool = False) -> ValueFilter | None:
    """What a name stands for; None: no folder of a value.  `is_free`: any other field is a text."""
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


def of_word(field: metadata.Field, word: str) -> ValueFilter | None:
    """What a value or a range means in a field; None: it is none of the field's."""
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
    """None for no word, and `math.nan` for one that is no number."""
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
    """The first and the last moment of a year, a month, a day, or of a moment itself; `ValueError`."""
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

# More values than somebody looks through; the others are reached by their names.
MOST_VALUES = 200
# So many numbers are shown one by one, and more as ranges.
_SINGLE_NUMBERS = 12


def words_of(field: metadata.Field, values: list[Any], within: ValueFilter | None) -> dict[str, int]:
    """What the values of a field are told apart by, with how many items each has; the most frequent first,
    where order says nothing.  `within`: the folder of this field that one is in already."""
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
    """The next of 1, 2, 5, 10, 20, 50 ..., and of their fractions."""
    power = 10.0 ** math.floor(math.log10(max(number, 1e-300)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))


def _short(number: float) -> str:
    return metadata_values.text(float(f"{number:.12g}"))
