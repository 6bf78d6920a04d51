"""Checks contents: rows match files, and files match their SHA-1.

A cached content that is not whole is fetched again; one that the service does not have is kept whatever it
holds, and its upload is held so that a person decides.  A file of the cache that no row speaks of is no
finding: the service has its bytes, and the next start deletes it.
"""

import re
import sqlite3
from collections import Counter
from pathlib import Path
from sqlite3 import Connection, Row

from cmsfs.cache import bitmap, content_files, content_table
from cmsfs.replica.rows import op_rows
from daemon.fsck.findings import Report, StatePaths

_SHA1 = re.compile(r"[0-9a-f]{40}")


def check(conn: Connection, place: StatePaths, report: Report, *, hashes: bool) -> None:
    """Everything about contents.  `hashes`: read all of them, too."""
    known = {row["sha1"]: row for row in conn.execute("SELECT * FROM content").fetchall()}
    wrong: Counter[str] = Counter()
    for row in known.values():
        if row["dirty"]:
            _dirty(conn, row, place, report, hashes=hashes)
        elif said := _clean(conn, row, place, repair=report.repair, hashes=hashes):
            wrong[said] += 1
    for said, count in wrong.items():
        contents = "A cached content" if count == 1 else f"{count} cached contents"
        report.add("cache", f"{contents}: {said}.", "It is downloaded again when needed.")
    for path in sorted(place.drafts.glob("*")):
        if _SHA1.fullmatch(path.name) and path.name not in known and path.stat().st_nlink == 1:
            _orphan(path, place, report)
    drafts = {row["id"] for row in conn.execute("SELECT d.id FROM draft d JOIN node n ON n.draft = d.id")}
    for path in sorted(place.drafts.glob("*.draft")):
        number = path.stem
        found = path.stat()
        if found.st_nlink == 1 and found.st_size and not (number.isdigit() and int(number) in drafts):
            _orphan(path, place, report)


def _orphan(path: Path, place: StatePaths, report: Report) -> None:
    report.add(
        "drafts",
        f"Bytes that were written here ({path.name[:12]}) no longer belong to any file.",
        f"They are kept in {place.recovered}.",
    )
    if report.repair:
        place.aside(path, path.name)


def _clean(conn: Connection, row: Row, place: StatePaths, *, repair: bool, hashes: bool) -> str:
    """What is wrong with a content that the service has too, "" if nothing; `repair` drops it then."""
    path = place.blocks / row["sha1"][:2] / row["sha1"]
    here = bitmap.present_bytes(row["bitmap"], row["size"])
    if not path.exists():
        # What was uploaded may wait among the drafts for being settled; an empty one or a pin has no file.
        if not row["size"] or row["pinned"] or not here or (place.drafts / row["sha1"]).exists():
            return ""
        said = "the file is missing"
    elif path.stat().st_size != row["size"]:
        said = "the file has the wrong size"
    elif hashes and row["bitmap"] is None and content_files.hash_file(path) != row["sha1"]:
        # An unverified one is never read before it has been checked.
        said = "the file has the wrong contents" if row["verified"] else "a power failure damaged the file"
    else:
        return ""
    if repair:
        path.unlink(missing_ok=True)
        content_table.remove(conn, [row["sha1"]])
    return said


def _dirty(conn: Connection, row: Row, place: StatePaths, report: Report, *, hashes: bool) -> None:
    path = place.drafts / row["sha1"]
    cached = place.blocks / row["sha1"][:2] / row["sha1"]
    if not row["size"] or (not path.exists() and cached.exists()):
        return
    name = _name(conn, row["sha1"])
    if not path.exists():
        said, remedy = f"The contents of {name} are lost and were never uploaded.", "Its upload is held."
    elif path.stat().st_size != row["size"] or (hashes and content_files.hash_file(path) != row["sha1"]):
        said = f"The contents of {name}, not uploaded yet, are damaged."
        remedy = f"Its upload is held; a copy is in {place.recovered}."
    else:
        return
    report.add("drafts", said, remedy, lost=True)
    if report.repair:
        if path.exists():
            _copy_aside(path, place, f"{row['sha1']}.damaged")
        op_rows.hold_uploads_of(conn, row["sha1"], error="the bytes were damaged on this disk")


def _copy_aside(path: Path, place: StatePaths, name: str) -> None:
    place.recovered.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = place.recovered / name
    if not target.exists():
        target.hardlink_to(path)


def _name(conn: Connection, sha1: str) -> str:
    try:
        row = conn.execute("SELECT name FROM node WHERE sha1 = ? LIMIT 1", (sha1,)).fetchone()
    except sqlite3.DatabaseError:
        row = None
    return repr(row["name"]) if row is not None else sha1[:8]
