"""What drives and service say in their log: no error, and no warning of what a story has no cause for."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation import judge
from tests.simulation.story import Plan
from tests.simulation.world import World

# What is said of what has happened to a drive, and what of a plan may have brought that about.  Others
# say what a program or a change was refused, which any story may come to.
CAUSES: dict[str, tuple[str, ...]] = {
    "the disk of %s is full; using the reserved space to continue": ("troubles",),
    "the disk of %s is full, so writes are refused: free up space there": ("troubles",),
    "the history cannot be kept: %s": ("troubles",),
    "changes were recorded while the clock was ahead; uploading them now": ("troubles",),
    "the local database was lost; restored %d files that were never uploaded": ("troubles", "power"),
    "%s cannot be read; the files listed in it are kept without their names": ("troubles", "power"),
    "draft %d has %d of %d bytes after the power failed": ("power",),
    "a download does not match its SHA-1: %s": ("lies",),
    # An answer that ends early need not look like that, and is asked for again.
    "skipping the %s %s of the service: %s": ("lies", "faults"),
    "a listing omitted %d items that the service still has; nothing was removed": ("lies", "faults"),
    # Somebody may have deleted the file of which it is a version.
    "the service no longer has the contents of a backup: %s": ("backup", "person", "other", "is_shared"),
    "the log file could not be set aside: %s": (),
    "appended data cannot be moved to the conflict copy: %s": (),
    "a wrong server-side copy remains in the trash: %s": (),
    "a thumbnail of an item that may no longer be read could not be removed: %s": (),
}


class _Watch(logging.Handler):
    def __init__(self, failures: list[str], plan: Plan, world: World) -> None:
        super().__init__(logging.WARNING)
        self._failures = failures
        self._plan = plan
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().replace("\n", " ")
        self._world.note(f"log: {record.levelname} {record.msg}")
        causes = CAUSES.get(str(record.msg))
        if causes is not None and not any(getattr(self._plan, one) for one in causes):
            self._failures.append(f"warned {record.msg}: {said}")
        if record.exc_info or (record.levelno >= logging.ERROR and causes is None):
            error = record.exc_info[1] if record.exc_info else None
            self._failures.append(f"logged {record.msg}: {said} {judge.told(error) if error else ''}")


@contextmanager
def watching(failures: list[str], plan: Plan, world: World) -> Iterator[None]:
    watch, root = _Watch(failures, plan, world), logging.getLogger()
    before, root.handlers = root.handlers, [watch]
    try:
        yield
    finally:
        root.handlers = before
