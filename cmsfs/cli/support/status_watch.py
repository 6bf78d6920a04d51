"""`cmsfs status --watch`: bars on a terminal, a line for each change elsewhere.

Rule: rich is imported only where something is drawn; a terminal that is too small shows the first lines.
"""

import sys
from collections.abc import Iterable
from typing import Any

from cmsfs import output
from cmsfs.cli.support import status_page
from cmsfs.ipc import control

# At most this many uploads have a bar of their own.
BARS = 8


def show(statuses: Iterable[control.DriveStatus]) -> None:
    """Show each status as it arrives; ends with Ctrl-C, or when the daemon exits."""
    if not sys.stdout.isatty():
        _lines(statuses)
        return
    from rich import console, live

    with live.Live(console=console.Console(), auto_refresh=False, vertical_overflow="crop") as screen:
        for status in statuses:
            screen.update(page(status), refresh=True)


def _lines(statuses: Iterable[control.DriveStatus]) -> None:
    last = ""
    for status in statuses:
        line = f"{status.mountpoint}: {status_page.summary(status)}; {status_page.changes(status.queue)}"
        if line != last:
            output.say(line)
        last = line


def page(status: control.DriveStatus) -> Any:
    """Return the page: the figures, and a bar for everything with a known total."""
    from rich import console, progress, table

    figures = table.Table.grid(padding=(0, 2))
    for name, text in status_page.rows(status):
        figures.add_row(name, text)
    bars = progress.Progress(
        progress.TextColumn("{task.description}", table_column=table.Column(max_width=40, no_wrap=True)),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.fields[far]}"),
    )
    for what, done, total, far in progressing(status):
        bars.add_task(what, completed=done, total=total, far=far)
    return console.Group(f"{status.mountpoint}: {status_page.summary(status)}", figures, bars)


def progressing(status: control.DriveStatus) -> list[tuple[str, int, int, str]]:
    """Return everything with a known total: (label, done, total, description)."""
    found: list[tuple[str, int, int, str]] = []
    running = [op for op in status.queue.ops if op.state == "running" and op.size]
    for op in running[:BARS]:
        far = f"{output.size(op.sent)} of {output.size(op.size)}"
        found.append((op.path, op.sent, op.size, far))
    for one in status.pins.items:
        if one.files_here < one.files:
            far = f"{one.files_here:,} of {output.plural(one.files, 'file')}"
            found.append((f"{one.path} (pinned)", one.bytes_here, max(one.bytes, 1), far))
    listing = status.listing
    if listing.state == "running" and listing.total:
        items = min(listing.items, listing.total)
        found.append(("the tree", items, listing.total, f"{items:,} of {listing.total:,} items"))
    return found
