"""Parses moments of the past as people write them: `2h`, `yesterday`, `2026-11-20`, `2026-11-20T14:00`.

Rule: a day means its end; without a time zone it is local time.
"""

import re
from datetime import date, datetime, time, timedelta

from cmsfs.runtime import clock

_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})(s|min|m|h|d|w)")


def parse(text: str) -> datetime:
    """Return the moment with its time zone.  Raises `ValueError` for other text and for times in the
    future."""
    now = clock.datetime_now().astimezone()
    if text == "yesterday":
        return _end_of(clock.date_today() - timedelta(days=1))
    if (ago := _AGO.fullmatch(text)) is not None:
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise ValueError(f"{text!r} is too long ago") from None
    try:
        found = _end_of(date.fromisoformat(text))
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            reason = f"{text!r} is not a time, such as yesterday, 2h, 2026-11-20 or 2026-11-20T14:00"
            raise ValueError(reason) from None
        found = found if found.tzinfo else found.astimezone()
    if found > now:
        raise ValueError(f"{text!r} is not over yet")
    return found


def _end_of(day: date) -> datetime:
    return datetime.combine(day, time.max).astimezone()
