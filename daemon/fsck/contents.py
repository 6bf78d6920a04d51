"""Contents: that rows and files agree, and that files hold what their SHA-1 says.

A cached content that is not whole is fetched again; one that the service does not have is kept whatever it
holds, and its upload is held so that a person decides.
"""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Connection, Row

from cmsfs.cache import bitmap, blocks, files
from daemon.fsck.findings import Place, Report

_SHA1 = re.compile(r"[0-9a-f]{40}")


def check(conn: Connection, place: Place, report: Report, *, hashes: bool) -> None:
    """Everything about contents.  `hashes`: read all of them, too."""
    known = {row["sha1"]: row for row in conn.execute("SELECT * FROM content").fetchall()}
    for row in known.values():
        if row["dirty"]:
            _dirty(conn, row, place, report, hashes=hashes)
        else:
            _clean(conn, row, place, report, hashes=hashes)
    for path in _files(place.blocks):
        # The empty content has a file where somebody needs one, and never a row.
        if path.name not in known and not (path.name == blocks.EMPTY_SHA1 and not path.stat().st_size):
            report.add("cache", f"A cached content ({path.name[:8]}) is in no table.", "Deleted.")
            if report.repair:
                path.unlink()
    for path in sorted(place.drafts.glob("*")):
        if _SHA1.fullmatch(path.name) and path.name not in known and path.stat().st_nlink == 1:
            _orphan(path, place, report)
    drafts = {row["id"] for row in conn.execute("SELECT d.id FROM draft d JOIN node n ON n.draft = d.id")}
    for path in sorted(place.drafts.glob("*.draft")):
        number = path.stem
        found = path.stat()
        if found.st_nlink == 1 and found.st_size and not (number.isdigit() and int(number) in drafts):
            _orphan(path, place, report)


def _orphan(path: Path, place: Place, report: Report) -> None:
    report.add(
        *("drafts", f"Bytes that were written here ({path.name[:12]}) belong to no file any more."),
        f"They are kept in {place.recovered}.",
    )
    if report.repair:
        place.aside(path, path.name)


def _clean(conn: Connection, row: Row, place: Place, report: Report, *, hashes: bool) -> None:
    path = place.blocks / row["sha1"][:2] / row["sha1"]
    here = bitmap.present_bytes(row["bitmap"], row["size"])
    if not path.exists():
        # What was uploaded may wait among the drafts for being settled; an empty one or a pin has no file.
        if not row["size"] or row["pinned"] or not here or (place.drafts / row["sha1"]).exists():
            return
        said = "is missing"
    elif path.stat().st_size != row["size"]:
        said = "has another size"
    elif hashes and row["bitmap"] is None and files.hash_file(path) != row["sha1"]:
        said = "holds other bytes"
    else:
        return
    report.add("cache", f"A cached content ({row['sha1'][:8]}) {said}.", "It is fetched again when needed.")
    if report.repair:
        path.unlink(missing_ok=True)
        if row["pinned"]:
            conn.execute("UPDATE content SET bitmap = ?, verified = 0 WHERE sha1 = ?", (b"", row["sha1"]))
        else:
            conn.execute("DELETE FROM content WHERE sha1 = ?", (row["sha1"],))


def _dirty(conn: Connection, row: Row, place: Place, report: Report, *, hashes: bool) -> None:
    path = place.drafts / row["sha1"]
    cached = place.blocks / row["sha1"][:2] / row["sha1"]
    if not row["size"] or (not path.exists() and cached.exists()):
        return
    name = _name(conn, row["sha1"])
    if not path.exists():
        said, remedy = f"The bytes of {name} are gone and were never sent.", "Its upload is held."
    elif path.stat().st_size != row["size"] or (hashes and files.hash_file(path) != row["sha1"]):
        said = f"The bytes of {name}, never sent, are damaged."
        remedy = f"Its upload is held; a copy is in {place.recovered}."
    else:
        return
    report.add("drafts", said, remedy, lost=True)
    if report.repair:
        if path.exists():
            _copy_aside(path, place, f"{row['sha1']}.damaged")
        conn.execute(
            "UPDATE op SET state = 'held', error = 'the bytes were damaged on this disk'"
            " WHERE kind = 'upload' AND ino IN (SELECT ino FROM node WHERE sha1 = ?)",
            (row["sha1"],),
        )


def _copy_aside(path: Path, place: Place, name: str) -> None:
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


def _files(root: Path) -> Iterator[Path]:
    for folder in sorted(root.glob("??")):
        if folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if _SHA1.fullmatch(path.name))
