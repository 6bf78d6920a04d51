"""Creates new databases by copying a template: running the schema takes half the time of a test.

The template is an empty database of the same schema that the product has created in this process; the product
then opens the copy like any existing file.  Creation itself is tested by tests/test_sqlite.py, whose schemas
are too small for this, and by the first test of each process.
"""

import fcntl
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cmsfs import database_files, sqlite

# Smaller schemas are created as quickly as copied.
MIN_SCHEMA = 4000

_templates: dict[tuple[str, int, int], bytes] = {}
_shipped = database_files.prepare


def install() -> None:
    """Make new databases with a large schema copies of a template."""
    database_files.prepare = _prepare


def _prepare(
    path: Path,
    schema: str,
    version: int,
    upgrades: Mapping[int, database_files.Upgrade],
    page_bytes: int = database_files.PAGE_BYTES,
) -> tuple[sqlite.Connection, sqlite.Connection]:
    if len(schema) >= MIN_SCHEMA:
        _fill(path, schema, version, page_bytes)
    return _shipped(path, schema, version, upgrades, page_bytes)


def _template(schema: str, version: int, page_bytes: int) -> bytes:
    if (schema, version, page_bytes) not in _templates:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "empty.db"
            for conn in _shipped(made, schema, version, {}, page_bytes):
                conn.close()
            _templates[schema, version, page_bytes] = made.read_bytes()
    return _templates[schema, version, page_bytes]


def _fill(path: Path, schema: str, version: int, page_bytes: int) -> None:
    """Write the template into a new file.

    Several tasks and processes may open a new file at once: each waits here until it is filled.  The folder
    is locked, since closing the file would release the locks that SQLite has on it for others of this
    process.
    """
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if path.stat().st_size == 0:
            with path.open("r+b") as file:
                file.write(_template(schema, version, page_bytes))
                file.flush()
                os.fsync(file.fileno())
            # As SQLite does for the WAL beside it.
            os.fsync(folder)
    finally:
        os.close(folder)
