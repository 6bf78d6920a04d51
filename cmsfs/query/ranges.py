"""Parses ranges of sizes and times: `1M..10M`, `>500kB`, `2026-03`, `7d`, `..yesterday`.

A time without minutes is a span: `2026-03` is the whole month, so `2026-01..2026-03` ends with March.  A
single size is a span, too: `1M` is everything from 1 MiB to just below 2 MiB.

Rule: both ends are included, as at the service.
"""

import re
from datetime import datetime, timedelta, tzinfo
from typing import TypeVar

from cmsfs import errors
from cmsfs.models.content import search
from cmsfs.runtime import clock

End = TypeVar("End", int, datetime)

# As coreutils have them: K and KiB are 1024, kB is 1000.
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{end}": base**power
    for power, letter in enumerate("kmgtp", 1)
    for end, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_SIZE = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([A-Za-z]{0,3})", re.ASCII)

_AGO = re.compile(r"(\d{1,4})([hdwmy])", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:T(\d\d?):(\d\d))?)?)?", re.ASCII)
_YEARS = range(1900, 9999)

# No file is larger, and databases count no further.
_LARGEST = 1 << 62

_TICK = timedelta(microseconds=1)


def sizes(text: str) -> search.SizeRange:
    """Parse a value of `size:` to a range of bytes.  Raises `UserError`."""
    if found := re.fullmatch(r"(>=|<=|>|<)(.*)", text):
        first, last = _size(found[2])[0], _size(found[2])[0]
        match found[1]:
            case ">=":
                return search.SizeRange(lower=first)
            case ">":
                return search.SizeRange(lower=last + 1)
            case "<=":
                return search.SizeRange(upper=last)
            case _ if first > 0:
                return search.SizeRange(upper=first - 1)
        raise _wrong(f"size: nothing is smaller than {found[2]}")
    lower, dots, upper = text.partition("..")
    if not dots:
        first, last = _size(text)
        return search.SizeRange(lower=first, upper=last)
    from_, to = (_size(end)[0] if end else None for end in (lower, upper))
    _check("size", text, from_, to)
    return search.SizeRange(lower=from_, upper=to)


def _size(text: str) -> tuple[int, int]:
    """Return the smallest and largest number of bytes that a size stands for."""
    found = _SIZE.fullmatch(text.strip())
    unit = _UNITS.get(found[3].lower()) if found else None
    if found is None or unit is None:
        raise _wrong(f"size: takes sizes such as 500, 10K, 1.5M or 2GB, and ranges 1M..10M, not {text!r}")
    fraction, digits = found[2] or "", len(found[2] or "")
    first = min(int(found[1] + fraction) * unit // 10**digits, _LARGEST)
    return first, first + max(unit // 10**digits, 1) - 1


class Clock:
    """Parses times relative to a moment."""

    def __init__(self, now: datetime | None = None, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._now = (now or clock.datetime_now().astimezone()).astimezone(zone)

    def times(self, key: str, text: str) -> search.TimeRange:
        """Parse a value of `modified:` or `created:` to a range.  Raises `UserError`."""

        def span(word: str) -> tuple[datetime, datetime | None]:
            return self._span(key, word)

        if found := re.fullmatch(r"(>=|<=|>|<)(.*)", text):
            first, last = span(found[2])
            match found[1]:
                case ">=":
                    return search.TimeRange(start=first)
                case ">":
                    return search.TimeRange(start=first if last is None else last + _TICK)
                case "<=":
                    return search.TimeRange(end=last or first)
                case _:
                    return search.TimeRange(end=first - _TICK)
        lower, dots, upper = text.partition("..")
        if not dots:
            first, last = span(text)
            return search.TimeRange(start=first, end=last)
        start = span(lower)[0] if lower else None
        end = _last(span(upper)) if upper else None
        _check(key, text, start, end)
        return search.TimeRange(start=start, end=end)

    def _span(self, key: str, text: str) -> tuple[datetime, datetime | None]:
        """Return the first and last moment that a word stands for; None for an open end (`7d`)."""
        word = text.strip()
        try:
            if found := _AGO.fullmatch(word):
                return self._now - timedelta(hours=int(found[1]) * _HOURS[found[2]]), None
            if word in ("today", "yesterday"):
                day = self._now.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
                day -= timedelta(days=word == "yesterday")
                return self._at(day), self._at(day + timedelta(days=1)) - _TICK
            if (found := _DATE.fullmatch(word)) and int(found[1]) in _YEARS:
                first, end = _bounds(*(None if one is None else int(one) for one in found.groups()))
                return self._at(first), self._at(end) - _TICK
        except (ValueError, OverflowError):
            pass
        raise _wrong(
            f"{key}: takes 2026, 2026-03, 2026-03-05, today, yesterday, 7d (the last seven days), and ranges"
            f" 2026-01..2026-03, not {text!r}"
        )

    def _at(self, naive: datetime) -> datetime:
        return naive.astimezone() if self._zone is None else naive.replace(tzinfo=self._zone)


def _bounds(
    year: int | None, month: int | None, day: int | None, hour: int | None, minute: int | None
) -> tuple[datetime, datetime]:
    """Return the first moment of a year, month, day or minute, and the first moment after it."""
    assert year is not None
    first = datetime(year, month or 1, day or 1, hour or 0, minute or 0)
    if month is None:
        return first, datetime(year + 1, 1, 1)
    if day is None:
        return first, datetime(year + month // 12, month % 12 + 1, 1)
    return first, first + (timedelta(days=1) if hour is None else timedelta(minutes=1))


def _last(span: tuple[datetime, datetime | None]) -> datetime:
    return span[0] if span[1] is None else span[1]


def _check(key: str, text: str, lower: End | None, upper: End | None) -> None:
    if lower is None and upper is None:
        raise _wrong(f"{key}: a range needs an end")
    if lower is not None and upper is not None and upper < lower:
        raise _wrong(f"{key}: {text} ends before it begins")


def _wrong(sentence: str) -> errors.UserError:
    return errors.UserError(f"{sentence}.", exit_code=2)
