"""Logging set-up: what a line looks like on a terminal and under systemd.

Modules log with `logging.getLogger(__name__)`, constant messages and values as arguments.  `context`
binds fields (op, ino, id) to every line logged inside it, in this task and the tasks it starts.

Rule: no token and no file content ever reaches a log; names of content not above DEBUG.
"""

import contextvars
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_Fields = tuple[tuple[str, object], ...]
_context: contextvars.ContextVar[_Fields] = contextvars.ContextVar("cmsfs_log_context", default=())

# journald reads `<N>` at the start of a line as its priority (sd-daemon(3)).
_PRIORITY = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


@contextmanager
def context(**fields: object) -> Iterator[None]:
    """Add fields to every line logged inside."""
    token = _context.set((*_context.get(), *fields.items()))
    try:
        yield
    finally:
        _context.reset(token)


class _ContextFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.context = "".join(f" {key}={value}" for key, value in _context.get())
        return True


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITY.get(record.levelno, 6)
        # Continuation lines would be separate journal entries without a priority of their own.
        return f"<{priority}>" + super().format(record).replace("\n", f"\n<{priority}>")


def under_systemd() -> bool:
    """Whether standard error is the journal's."""
    return "JOURNAL_STREAM" in os.environ


def configure(level: str = "INFO") -> None:
    """Send all logging to standard error, once; `level` is one of Python's level names."""
    handler = logging.StreamHandler(sys.stderr)
    if under_systemd():
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s%(context)s"))
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s%(context)s")
        )
    handler.addFilter(_ContextFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log this much from now on; `level` is one of Python's level names."""
    root = logging.getLogger()
    root.setLevel(level)
    # One line a request is a wire trace, wanted only when asked for.
    for noisy in ("httpx", "httpcore", "hypercorn.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
