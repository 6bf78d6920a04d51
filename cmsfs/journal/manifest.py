"""The manifest of the drafts folder: names, places and bases of all unsent bytes, for recovery.

The database knows which file a draft belongs to.  Should the database be lost, the manifest still does, so
that what was written here goes back to its place and is uploaded from there, with the version that it
started from.  It is a copy: nothing reads it while the database is whole.

Rule: it may be some seconds old.  An entry counts only if its file is there and no row speaks of it.
"""

import logging
import os
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Final

import pydantic

from cmsfs.replica.nodes import FILE_MODE, ROOT, Ino

log = logging.getLogger(__name__)

NAME: Final = "manifest.json"

_UNSENT = """
  SELECT n.ino, n.parent, n.name, n.kind, n.mtime_ns, n.mode, n.local, n.sha1, n.size,
    n.remote_id, n.etag, n.version, n.base_sha1 AS version_sha1, n.base_parent, n.base_name, n.sequence,
    d.id AS draft, d.base_sha1, d.base_total, d.base_size, d.size AS draft_size, d.extents
  FROM (
    SELECT ino FROM op WHERE kind = 'upload'
    UNION SELECT n.ino FROM draft d JOIN node n ON n.draft = d.id
  ) AS unsent
  JOIN node n ON n.ino = unsent.ino LEFT JOIN draft d ON d.id = n.draft
  WHERE n.parent IS NOT NULL
"""


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)


class ManifestFolder(_Model):
    """A folder on the way to a file; `remote_id` None: it was made here and the service has it not yet."""

    name: str
    remote_id: str | None = None
    is_shelf: bool = False  # the drive's own folder for what others share


class Overlay(_Model):
    """What a draft is laid over; see the columns of `draft` in schema.sql."""

    base_sha1: str | None
    base_total: int
    base_size: int
    size: int
    extents: str


class ManifestBase(_Model):
    """The version of the service's item that the bytes started from."""

    remote_id: str
    kind: str
    etag: str | None
    version: str | None
    sha1: str | None
    parent: str | None
    name: str | None
    sequence: int


class ManifestEntry(_Model):
    """A file whose bytes are here only."""

    folders: list[ManifestFolder]  # from the root on
    name: str
    mtime_ns: int
    mode: int = FILE_MODE
    local: bool = False
    size: int
    known: ManifestBase | None = None  # None: a new file
    overlay: Overlay | None = None  # None: the file is whole, and called by its SHA-1

    @property
    def path(self) -> str:
        return "/".join(["", *(folder.name for folder in self.folders), self.name])


class Manifest(_Model):
    """All entries, by the names of their files in the drafts folder."""

    root_id: str = "0"  # of the folder of the service that the drive begins at
    entries: dict[str, ManifestEntry] = {}


def collect(conn: Connection) -> Manifest:
    """What has not been sent, as the database says.  A read for a thread: it looks at every such file."""
    known: dict[Ino, list[ManifestFolder]] = {ROOT: []}
    entries: dict[str, ManifestEntry] = {}
    for row in conn.execute(_UNSENT).fetchall():
        folders = _folders(conn, row["parent"], known)
        if folders is None or (row["draft"] is None and not row["size"]):
            continue
        name = f"{row['draft']}.draft" if row["draft"] is not None else row["sha1"]
        if name is not None:
            entries[name] = _entry(row, folders)
    root = conn.execute("SELECT remote_id FROM node WHERE ino = ?", (ROOT,)).fetchone()
    return Manifest(root_id=root["remote_id"], entries=entries)


def _entry(row: Row, folders: list[ManifestFolder]) -> ManifestEntry:
    overlay = known = None
    if row["draft"] is not None:
        overlay = Overlay(
            base_sha1=row["base_sha1"],
            base_total=row["base_total"],
            base_size=row["base_size"],
            size=row["draft_size"],
            extents=row["extents"],
        )
    if row["remote_id"] is not None:
        known = ManifestBase(
            remote_id=row["remote_id"],
            kind=row["kind"],
            etag=row["etag"],
            version=row["version"],
            sha1=row["version_sha1"],
            parent=row["base_parent"],
            name=row["base_name"],
            sequence=row["sequence"],
        )
    return ManifestEntry(
        folders=folders,
        name=row["name"],
        mtime_ns=row["mtime_ns"],
        mode=row["mode"],
        local=bool(row["local"]),
        size=row["draft_size"] if overlay is not None else row["size"],
        known=known,
        overlay=overlay,
    )


def _folders(
    conn: Connection, ino: Ino, known: dict[Ino, list[ManifestFolder]]
) -> list[ManifestFolder] | None:
    """The folders from the root to this one; None if it hangs nowhere."""
    if (found := known.get(ino)) is not None:
        return found
    row = conn.execute("SELECT parent, name, remote_id, local FROM node WHERE ino = ?", (ino,)).fetchone()
    if row is None or row["parent"] is None:
        return None
    above = _folders(conn, row["parent"], known)
    if above is None:
        return None
    folder = ManifestFolder(name=row["name"], remote_id=row["remote_id"], is_shelf=row["local"] == 2)
    known[ino] = [*above, folder]
    return known[ino]


def write(root: Path, manifest: Manifest) -> None:
    """Put it into the drafts folder in one step, durably.  Raises `OSError`; the old one stays, then."""
    new = root / f"{NAME}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(manifest.model_dump_json(exclude_defaults=True).encode())
        file.flush()
        os.fsync(fd)
    new.rename(root / NAME)


def read(root: Path) -> Manifest:
    """The manifest of a drafts folder; an empty one if there is none, or none that can be read."""
    try:
        return Manifest.model_validate_json((root / NAME).read_bytes())
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValueError):
        log.warning("%s cannot be read; the files listed in it are kept without their names", root / NAME)
        return Manifest()
