"""Logging setup: line formats for terminals and for systemd.

Modules log with `logging.getLogger(__name__)`, constant messages and values as arguments.  `context`
binds fields (op, ino, id) to every line logged inside it, in this task and the tasks it starts.

Rule: no token and no file content ever reaches a log; a name only where something about that file needs
attention, and at DEBUG.
"""

import contextvars
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cmsfs import errors

Fields = tuple[tuple[str, object], ...]
_context: contextvars.ContextVar[Fields] = contextvars.ContextVar("cmsfs_log_context", default=())

# A log file larger than this is rotated; the previous rotated file is removed.
LOG_BYTES = 10_000_000

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


def bind(fields: Fields) -> contextvars.Token[Fields]:
    """Like `context`, but cheaper, for code that runs for every request; undo it with `unbind`."""
    return _context.set(_context.get() + fields)


def unbind(bound: contextvars.Token[Fields]) -> None:
    _context.reset(bound)


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
    """Whether standard error goes to the systemd journal."""
    return "JOURNAL_STREAM" in os.environ


class _JsonFormatter(logging.Formatter):
    """One JSON object per line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in _context.get() if key not in line}
        for value in record.args if isinstance(record.args, tuple) else ():
            # The service's id of the failed request, which is also in the service's log.
            if isinstance(value, errors.ApiError) and value.request_id:
                line["request_id"] = value.request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(level: str = "INFO", *, form: str = "text") -> None:
    """Send all logging to standard error, once.

    `level` is one of Python's level names, `form` text or json.
    """
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.setFormatter(_JsonFormatter())
    elif under_systemd():
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
    """Set the log level; `level` is one of Python's level names."""
    root = logging.getLogger()
    root.setLevel(level)
    # These log every request, which is wanted only at their own level.
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def set_aside(log: Path) -> None:
    """Rotate a log file if it has become large, even while this process is writing to it.

    Raises `OSError`.
    """
    try:
        found = log.stat()
    except FileNotFoundError:
        return
    if found.st_size <= LOG_BYTES:
        return
    ours = [fd for fd in (1, 2) if _is_same(fd, found)]
    log.replace(log.with_suffix(".log.old"))
    if ours:
        new = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        for fd in ours:
            os.dup2(new, fd)
        os.close(new)


def _is_same(fd: int, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), found)
    except OSError:
        return False
