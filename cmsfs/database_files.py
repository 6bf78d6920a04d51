"""Opens SQLite database files: creates them from a schema, or upgrades them to the current version.

Rule: a file that is not a database, or has a version without an upgrade path, is rejected and not changed.
"""

import os
import resource
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cmsfs import errors
from cmsfs.runtime import clock

# Another process (the command line on the embedded service's data) may briefly hold the write lock; then we
# wait instead of failing.
BUSY_TIMEOUT_MS = 10_000

# 16 MiB of pages: the tree of a large drive is read by point lookups all over the file.
CACHE_KIB = 16 * 1024

# Size of the pages of a new file; an existing one keeps its own.
PAGE_BYTES = 4096


class Unusable(errors.UserError):
    """The file is not a database, or is damaged."""


# A migration from one version to the next: statements, or a function called inside the transaction.
Upgrade = str | Callable[[sqlite3.Connection], None]


def connect(path: Path, *, read_only: bool, cache_kib: int = CACHE_KIB) -> sqlite3.Connection:
    """Open a connection with our settings; checkpoints of the write-ahead log are left to the caller."""
    conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    conn.row_factory = sqlite3.Row
    settings = [f"busy_timeout={BUSY_TIMEOUT_MS}", f"cache_size=-{cache_kib}", "foreign_keys=ON"]
    # The log is not cut when it restarts: an fsync takes 130 µs of bytes that were written over others, and
    # 210 µs of bytes that made the file longer.
    settings += ["wal_autocheckpoint=0", "journal_size_limit=-1"]
    settings += ["temp_store=MEMORY", "query_only=ON" if read_only else "synchronous=NORMAL"]
    try:
        for setting in settings:
            conn.execute(f"PRAGMA {setting}")
    except BaseException:
        conn.close()
        raise
    return conn


def _statements(schema: str) -> list[str]:
    """Split a schema into statements (a trigger's body contains semicolons of its own)."""
    statements, current = [], ""
    for line in schema.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def _use_log(conn: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; only for this statement does SQLite's busy timeout not work."""
    give_up = clock.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            conn.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or clock.monotonic() > give_up:
                raise
            clock.sleep(0.01)


def _unusable(path: Path, error: sqlite3.DatabaseError) -> Unusable:
    return Unusable(f"{path} cannot be used as a database: {error}.")


def _upgrade(conn: sqlite3.Connection, found: int, version: int, upgrades: Mapping[int, Upgrade]) -> int:
    """Upgrade an older database step by step; return its resulting version."""
    while found < version and found in upgrades:
        step = upgrades[found]
        if callable(step):
            step(conn)
        else:
            for statement in _statements(step):
                conn.execute(statement)
        found += 1
        conn.execute(f"PRAGMA user_version={found}")
    return found


def prepare(
    path: Path, schema: str, version: int, upgrades: Mapping[int, Upgrade], page_bytes: int = PAGE_BYTES
) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Create or upgrade the file; return a reading and a writing connection.

    Raises `Unusable` if it is not a database, `UserError` if its version has no upgrade path.
    """
    try:
        writer = connect(path, read_only=False)
    except sqlite3.DatabaseError as error:
        raise _unusable(path, error) from error
    try:
        if not path.stat().st_size:
            writer.execute(f"PRAGMA page_size={page_bytes}")
        _use_log(writer)
        # Two processes may open a new file at once: the second one finds it created.
        writer.execute("BEGIN IMMEDIATE")
        found = writer.execute("PRAGMA user_version").fetchone()[0]
        if found == 0:
            for statement in _statements(schema):
                writer.execute(statement)
            writer.execute(f"PRAGMA user_version={version}")
            found = version
        found = _upgrade(writer, found, version, upgrades)
        writer.execute("COMMIT")
        if found != version:
            raise errors.UserError(
                f"{path} was written by another version of cmsfs (format {found}, this one reads {version})."
            )
        reader = connect(path, read_only=True)
    except sqlite3.DatabaseError as error:
        writer.close()
        raise _unusable(path, error) from error
    except BaseException:
        writer.close()
        raise
    return reader, writer


# A checkpoint is due when the log is this long, or this at least where a limit or little room asks for less.
LOG_BYTES = 4 * 1024 * 1024
LEAST_LOG_BYTES = 64 * 1024

# The write-ahead log (https://sqlite.org/walformat.html).
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_SALTS = slice(16, 24)
_PAGE_SIZE = slice(8, 12)

# Where a frame has them.
_FRAME_SALTS_AT = 8

# Frames that are read at once to see whether they are in use.
_FRAMES_AHEAD = 8


def max_log_bytes() -> int:
    """Return the log length at which a checkpoint is due; less under a file size limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return LOG_BYTES if limit < 0 else max(LEAST_LOG_BYTES, min(LOG_BYTES, limit // 4))


class WriteAheadLog:
    """The write-ahead log of an open database, held open: for its length, and to fsync it.

    SQLite locks nothing of this file, so that closing it releases nothing, and removes it only with the last
    connection.  Where SQLite cannot use one, this is an empty one.
    """

    def __init__(self, database: Path) -> None:
        self.path = Path(f"{database}-wal")
        self._open_fd: int | None = None
        self._fd()
        # The salts when the length was last asked for, and how many frames were in use.
        self._known = (b"", 0)

    def length(self) -> int:
        """Return how many bytes are in use; 0 if there is no frame.

        The file keeps its length when the log starts over.  But all frames of a run of the log carry the two
        salts of its header, and those behind them the ones of an earlier run.
        """
        fd = self._fd()
        header = os.pread(fd, _HEADER_BYTES, 0) if fd is not None else b""
        if fd is None or len(header) < _HEADER_BYTES:
            return 0
        salts = header[_SALTS]
        frame_bytes = int.from_bytes(header[_PAGE_SIZE], "big") + _FRAME_HEADER_BYTES
        known_salts, known = self._known
        known = known if known_salts == salts else 0
        used = _used_frames(fd, salts, frame_bytes, known)
        self._known = salts, used
        return _HEADER_BYTES + used * frame_bytes if used else 0

    def sync(self) -> None:
        """Fsync it.  Raises `OSError`."""
        fd = self._fd()
        if fd is not None:
            os.fsync(fd)

    def close(self) -> None:
        if self._open_fd is not None:
            os.close(self._open_fd)

    def _fd(self) -> int | None:
        """Return the open file; while there is none, look for it again: what is in it must be fsynced."""
        if self._open_fd is None:
            with suppress(FileNotFoundError):
                self._open_fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._open_fd


def _used_frames(fd: int, salts: bytes, frame_bytes: int, used: int) -> int:
    """Return how many frames are in use, given that these are.  Most often a few more are."""
    ahead = os.pread(fd, _FRAMES_AHEAD * frame_bytes, _HEADER_BYTES + used * frame_bytes)
    for frame in range(len(ahead) // frame_bytes):
        at = frame * frame_bytes + _FRAME_SALTS_AT
        if ahead[at : at + len(salts)] != salts:
            return used + frame
    most = (os.fstat(fd).st_size - _HEADER_BYTES) // frame_bytes
    used = min(used + len(ahead) // frame_bytes, most)

    def is_used(frame: int) -> bool:
        at = _HEADER_BYTES + frame * frame_bytes + _FRAME_SALTS_AT
        return os.pread(fd, len(salts), at) == salts

    # A log that has not started over yet is in use to its end.
    if used < most and is_used(most - 1):
        return most
    # By halves: frames in use are in front of all others.
    while used < most:
        middle = (used + most) // 2
        if is_used(middle):
            used = middle + 1
        else:
            most = middle
    return used
