"""Recent events, and the traffic of the last day as a plot and as a table."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import trio
from starlette import responses

from cmsfs import config, errors, output
from cmsfs.runtime import clock
from daemon.core.happenings import OTHERS, Happening
from daemon.fetch import path_lookup
from daemon.ui.desk import Form, Page, PageDesk
from daemon.ui.history import DAY_SECONDS, TrafficSample

# The plot, in its own units; each hour is a bar.
HOURS = 24
HEIGHT = 100

# The author of an event is requested for a limited number of events, with a timeout.
AUTHOR = "user.cms.modified_by"
MOST_NAMED = 30
AUTHOR_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class PlottedHour:
    """One hour of the day: values, and the height of its bar."""

    label: str
    value: str
    height: int


@dataclass(frozen=True, slots=True)
class TrafficPlot:
    """One value over a day."""

    title: str
    note: str
    hours: list[PlottedHour]


async def show(desk: PageDesk) -> responses.Response:
    history = desk.history
    history.happenings.take_downloads()
    kind = desk.query.get("what", "")
    found = [one for one in reversed(history.happenings.recent) if not kind or one.what == kind]
    with trio.move_on_after(AUTHOR_SECONDS):
        await _name_authors(desk, found)
    limit = config.profile(desk.drive.settings).limits.requests_per_minute
    plots = _plots(list(history.samples), limit, int(clock.time()))
    kinds = sorted({one.what for one in history.happenings.recent})
    return desk.page("activity.html", "Activity", found=found, plots=plots, kinds=kinds, kind=kind)


async def _name_authors(desk: PageDesk, found: list[Happening]) -> None:
    """Add missing authors: to the latest event of each item, from the item's current last modifier."""
    seen: set[str] = set()
    drive = desk.drive
    for number, one in enumerate(found[:MOST_NAMED]):
        if one.path in seen:
            continue
        seen.add(one.path)
        if one.who != OTHERS or one.what == "deleted":
            continue
        try:
            node = await path_lookup.find(drive.state.db, drive.hydrator, one.path)
            who = (await drive.fs.getxattr(node.ino, AUTHOR)).decode()
        except (errors.CmsfsError, OSError):
            continue
        found[number] = replace(one, who=who)


def _plots(samples: list[TrafficSample], limit: int, now: int) -> list[TrafficPlot]:
    hours: list[list[TrafficSample]] = [[] for _ in range(HOURS)]
    for one in samples:
        if 0 <= (age := now - one.at) < DAY_SECONDS:
            hours[HOURS - 1 - age * HOURS // DAY_SECONDS].append(one)
    traffic = [sum(one.up + one.down for one in hour) for hour in hours]
    requests = [sum(one.requests for one in hour) for hour in hours]
    waiting = [max((one.waiting for one in hour), default=0) for hour in hours]
    most = f"at most {limit * 60:,} are allowed" if limit else "the service names no limit"
    return [
        _plot("Traffic by the hour", f"{output.size(sum(traffic))} in all", traffic, now, output.size),
        _plot(
            "Requests by the hour",
            f"{sum(requests):,} in all; {most}",
            requests,
            now,
            _figure,
            limit * 60,
        ),
        _plot("Changes that waited", "the most of each hour", waiting, now, _figure),
    ]


def _figure(value: int) -> str:
    return f"{value:,}"


def _plot(
    title: str, note: str, values: list[int], now: int, said: Callable[[int], str], scale: int = 0
) -> TrafficPlot:
    """Return a bar for each hour; the largest value, or `scale`, has the full height."""
    top = max(*values, scale, 1)
    hours = []
    for number, value in enumerate(values):
        began = time.localtime(now - (HOURS - number) * 3600)
        height = max(1, value * HEIGHT // top) if value else 0
        hours.append(PlottedHour(time.strftime("%H:%M", began), said(value), height))
    return TrafficPlot(title, note, hours)


PAGES: dict[str, Page] = {"activity": show}
FORMS: dict[str, Form] = {}
