"""Checks the log of drives and service: no error, and no warning that nothing in the story can cause."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation import judge
from tests.simulation.story import Plan
from tests.simulation.world import World

# Warnings about a drive's state, and the fields of a plan, or faults that occurred, that can cause each.
# Warnings not listed here are about refused calls and changes, which any story may have.
CAUSES: dict[str, tuple[str, ...]] = {
    "the disk of %s is full; using the reserved space to continue": ("troubles",),
    "the disk of %s is full, so writes are refused: free up space there": ("troubles",),
    "the history cannot be kept: %s": ("troubles",),
    "changes were recorded while the clock was ahead; uploading them now": ("troubles",),
    "the local database was lost; restored %d files that were never uploaded": ("troubles", "power"),
    "%s cannot be read; the files listed in it are kept without their names": ("troubles", "power"),
    "draft %d has %d of %d bytes after the power failed": ("power",),
    "a download does not match its SHA-1: %s": ("lies", "reused"),
    # A truncated response may look malformed, and is requested again.
    "skipping the %s %s of the service: %s": ("lies", "faults"),
    # Somebody may have restored a folder after it was listed without that.
    "a listing omitted %d items that the service still has; nothing was removed": (
        "lies",
        "faults",
        "restored_folders",
    ),
    # Somebody may have deleted the file that the version belongs to; or the drive itself, which does not know
    # that any more since an older state of it was restored.
    "the service no longer has the contents of a backup: %s": (
        "backup",
        "person",
        "other",
        "is_shared",
        "put_back",
    ),
    "the log file could not be set aside: %s": (),
    "appended data cannot be moved to the conflict copy: %s": (),
    "a wrong server-side copy remains in the trash: %s": (),
    "a thumbnail of an item that may no longer be read could not be removed: %s": (),
}


class _LogCheck(logging.Handler):
    def __init__(self, failures: list[str], plan: Plan, faults: Counter[str], world: World) -> None:
        super().__init__(logging.WARNING)
        self._failures = failures
        self._plan = plan
        self._faults = faults
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage().replace("\n", " ")
        self._world.note(f"log: {record.levelname} {record.msg}")
        causes = CAUSES.get(str(record.msg))
        if causes is not None and not any(map(self._has_had, causes)):
            self._failures.append(f"warned {record.msg}: {message}")
        if record.exc_info or (record.levelno >= logging.ERROR and causes is None):
            error = record.exc_info[1] if record.exc_info else None
            cause = judge.describe_error(error) if error else ""
            self._failures.append(f"logged {record.msg}: {message} {cause}")

    def _has_had(self, cause: str) -> bool:
        return bool(
            self._faults[cause] or getattr(self._plan, cause, False) or getattr(self._world, cause, False)
        )


@contextmanager
def checking_log(failures: list[str], plan: Plan, faults: Counter[str], world: World) -> Iterator[None]:
    check, root = _LogCheck(failures, plan, faults, world), logging.getLogger()
    before, root.handlers = root.handlers, [check]
    try:
        yield
    finally:
        root.handlers = before
