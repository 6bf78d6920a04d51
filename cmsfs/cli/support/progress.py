"""Progress display: bars on a terminal, occasional lines elsewhere.

`changes` shows the journal draining (sync, umount); `transfer` shows one file's bytes (get, put).

Rule: rich is imported only where something is drawn, so that commands start quickly.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from cmsfs import output, printable
from cmsfs.ipc import control
from cmsfs.runtime import clock

# The interval of lines in a log or pipe.
LINE_SECONDS = 10.0


Bar = Callable[[int], None]  # called with the bytes transferred so far


class Changes(Protocol):
    """Shows the progress of a sync or stop."""

    def update(self, progress: control.Progress) -> None: ...


class _Lines:
    def __init__(self) -> None:
        self._next = clock.monotonic() + LINE_SECONDS

    def update(self, progress: control.Progress) -> None:
        if clock.monotonic() >= self._next:
            self._next = clock.monotonic() + LINE_SECONDS
            output.note(_sentence(progress))


class _Spinner:
    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def update(self, progress: control.Progress) -> None:
        from rich import markup

        self._show(markup.escape(printable.escaped(_sentence(progress))))


def _sentence(progress: control.Progress) -> str:
    if not progress.pending:
        return progress.message or "almost done"
    left = f"{output.plural(progress.pending, 'change')} to go"
    if progress.bytes_pending:
        left += f", {output.size(progress.bytes_pending)}"
    return f"{left} ({progress.message})" if progress.message else left


@contextmanager
def changes() -> Iterator[Changes]:
    """Show the journal draining."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich import console, status

    terminal = console.Console(stderr=True)
    with status.Status("uploading", console=terminal) as spinner:
        yield _Spinner(spinner.update)


@contextmanager
def transfer(name: str, size: int) -> Iterator[Bar]:
    """Show the transfer of a file."""
    with _bar(name, size, "DownloadColumn", "TransferSpeedColumn", "TimeRemainingColumn") as bar:
        yield bar


@contextmanager
def counted(name: str, total: int) -> Iterator[Bar]:
    """Show how many of `total` things are done."""
    with _bar(name, total, "MofNCompleteColumn") as bar:
        yield bar


@contextmanager
def _bar(name: str, total: int, *columns: str) -> Iterator[Bar]:
    """A bar that starts with the name and ends with these columns, by their classes in `rich.progress`."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich import console, progress

    with progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *(getattr(progress, column)() for column in columns),
        console=console.Console(stderr=True),
        transient=True,
    ) as bars:
        task = bars.add_task(printable.escaped(name), total=total)
        yield lambda count: bars.update(task, completed=count)
