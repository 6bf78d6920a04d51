"""New databases that are copies: to make one statement by statement takes as long as half a test.

What is copied is an empty database that the product has made in this process, with the same schema.  It then
opens the copy as it opens any file that it finds.  How one is made is seen by tests/test_sqlite.py, whose
schemas are too small for this, and by the first test of each process.
"""

import fcntl
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cmsfs import database_files, sqlite

# Smaller ones are made as quickly as they are copied.
MIN_SCHEMA = 4000

_templates: dict[tuple[str, int], bytes] = {}
_shipped = database_files.prepare


def install() -> None:
    """From now on a large database that is new is a copy."""
    database_files.prepare = _prepare


def _prepare(
    path: Path, schema: str, version: int, upgrades: Mapping[int, database_files.Upgrade]
) -> tuple[sqlite.Connection, sqlite.Connection]:
    if len(schema) >= MIN_SCHEMA and path.stat().st_size == 0:
        _fill(path, _template(schema, version))
    return _shipped(path, schema, version, upgrades)


def _template(schema: str, version: int) -> bytes:
    if (schema, version) not in _templates:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "empty.db"
            for conn in _shipped(made, schema, version, {}):
                conn.close()
            _templates[schema, version] = made.read_bytes()
    return _templates[schema, version]


def _fill(path: Path, content: bytes) -> None:
    # Two processes may open a new file at once: the one that comes second finds it filled.
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_size == 0:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    # As SQLite does for the log that it makes beside it.
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
