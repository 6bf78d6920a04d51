"""The plots of an enterprise: requests by the hour for a week, stored bytes by the day for thirteen weeks.

They are inline SVG, drawn from the rows of usage.py: no script, and in the colors of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

HOURS = 24 * 7
DAYS = 7 * 13
_HOUR = 3_600_000_000

# In units of the drawing, which is scaled to the width of the page.
WIDTH = 720
HEIGHT = 120

_REQUESTS = "SELECT hour, requests FROM usage WHERE enterprise = ? AND hour > ? ORDER BY hour"
_STORED = """
  SELECT hour / 24 AS day, max(space_used) AS space_used FROM usage
    WHERE enterprise = ? AND hour > ? GROUP BY hour / 24 ORDER BY hour / 24
"""


@dataclass(frozen=True, slots=True)
class Plot:
    """A filled line plot; `most` is the value at the top, 0 at the bottom."""

    path: str
    most: int
    since: str
    total: int

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def height(self) -> int:
        return HEIGHT


def of_requests(read: store.Read, enterprise: int, hour: int) -> Plot:
    """Plot the requests of each of the last HOURS; hours without a row count as 0."""
    found = {row["hour"]: row["requests"] for row in read(_REQUESTS, enterprise, hour - HOURS)}
    values = [found.get(one, 0) for one in range(hour - HOURS + 1, hour + 1)]
    return _plot(values, hour - HOURS + 1)


def of_stored(read: store.Read, enterprise: int, hour: int) -> Plot:
    """Plot the maximum storage of each of the last DAYS; a day without a row repeats the one before it."""
    first = hour // 24 - DAYS + 1
    found = {row["day"]: row["space_used"] for row in read(_STORED, enterprise, first * 24 - 1)}
    values, last = [], 0
    for day in range(first, hour // 24 + 1):
        last = found.get(day, last)
        values.append(last)
    return _plot(values, first * 24)


def _plot(values: Sequence[int], first_hour: int) -> Plot:
    """Draw one step for each value."""
    most = max(values)
    wide, high = WIDTH / len(values), HEIGHT / (most or 1)
    path, last = [f"M0 {HEIGHT}"], 0
    for at, value in enumerate(values):
        if value != last:
            path += [f"H{at * wide:.1f}", f"V{HEIGHT - value * high:.1f}"]
            last = value
    path += [f"H{WIDTH}", f"V{HEIGHT}", "Z"]
    since = item_serializer.to_timestamp(first_hour * _HOUR)[:10]
    return Plot("".join(path), most, since, sum(values))
