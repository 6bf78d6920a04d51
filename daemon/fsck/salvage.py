"""Checks the database's integrity, and salvages rows from a damaged one.

A damaged index is made anew; otherwise every row that can still be read, from both ends of each table, goes
into a new database.  The damaged one is kept whatever happens.
"""

import contextlib
import shutil
import sqlite3
import time
from pathlib import Path

from cmsfs.journal import draft_restore, manifest
from cmsfs.replica import database
from daemon.fsck.findings import Report, StatePaths

# An integrity check names every bad page; a person needs the first.
_MOST_COMPLAINTS = 5


def check(place: StatePaths, report: Report) -> bool:
    """Whether there is a database to look into further."""
    if not place.database.exists():
        if any(place.drafts.glob("*")):
            report.add(
                "database",
                "The database is missing.",
                "It is recreated; drafts are moved to recovered files.",
            )
            if report.repair:
                _make(place.database)
                return True
        return False
    complaints = _complaints(place.database)
    if not complaints:
        return True
    said = "; ".join(complaints[:_MOST_COMPLAINTS])
    report.add(
        "database",
        f"The database is damaged: {said}.",
        f"Readable data is copied into a new one; the damaged one is kept in {place.recovered}.",
    )
    if not report.repair:
        return False
    kept = _keep(place)
    if not _reindexed(place.database):
        _rescue(place.database, kept)
    return True


def restore(conn: sqlite3.Connection, place: StatePaths, report: Report) -> None:
    """Give drafts that the database has forgotten the places that the manifest names."""
    if not any(one.area == "database" for one in report.findings):
        return
    found = draft_restore.restore(conn, place.drafts, manifest.read(place.drafts))
    for one in found:
        report.add(
            "drafts",
            f"What was written to {one.path!r} had lost its place.",
            "It is back in place, and is uploaded after the next mount.",
        )


def _complaints(path: Path) -> list[str]:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as conn:
            rows = conn.execute(f"PRAGMA integrity_check({_MOST_COMPLAINTS})").fetchall()
            tables = conn.execute("SELECT count(*) FROM sqlite_master WHERE name = 'node'").fetchone()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    if rows != [("ok",)]:
        return [str(row[0]) for row in rows]
    return [] if tables[0] else ["it has no tables"]


def _keep(place: StatePaths) -> Path:
    """A copy of the database with its log; where it is."""
    place.recovered.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = f"{place.database.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", "-wal", "-shm"):
        source = place.database.with_name(place.database.name + suffix)
        if source.exists():
            shutil.copy2(source, place.recovered / (stem + suffix))
    return place.recovered / stem


def _reindexed(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as conn:
            conn.execute("REINDEX")
            conn.commit()
    except sqlite3.DatabaseError:
        return False
    return not _complaints(path)


def _rescue(path: Path, damaged: Path) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    _make(new)
    with (
        contextlib.closing(sqlite3.connect(new)) as target,
        contextlib.closing(sqlite3.connect(damaged)) as source,
    ):
        target.execute("PRAGMA foreign_keys=OFF")
        tables = [row[0] for row in target.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if not table.startswith("sqlite_"):
                _copy(source, target, table)
        target.commit()
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    new.rename(path)


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
    """What can be read of a table, from its beginning and from its end."""
    info = target.execute(f"PRAGMA table_info({table})").fetchall()
    columns = ", ".join(row[1] for row in info)
    key = next((row[1] for row in info if row[5]), "rowid")
    marks = ", ".join("?" for _ in info)
    for direction in ("ASC", "DESC"):
        try:
            # NOT INDEXED: the order is the table's own, whatever is wrong with its indexes.
            rows = source.execute(f"SELECT {columns} FROM {table} NOT INDEXED ORDER BY {key} {direction}")
            for row in rows:
                with contextlib.suppress(sqlite3.IntegrityError):
                    target.execute(f"INSERT OR REPLACE INTO {table}({columns}) VALUES ({marks})", row)
        except sqlite3.DatabaseError:
            continue  # from here on it cannot be read
        return


def _make(path: Path) -> None:
    path.touch(mode=0o600)
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute(f"PRAGMA page_size={database.PAGE_BYTES}")
        conn.executescript(database.schema())
        conn.execute(f"PRAGMA user_version={database.VERSION}")
        conn.commit()
