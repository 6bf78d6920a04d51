"""Searches local data, for when the service is unreachable.

It covers names, descriptions and tags of all known items, and the text of cached text files and of those
written here that are not uploaded yet.  The query language is that of the service's search
(`cmsfs.query.fts_query`), and so is the index: one is built in memory for each search, from the items that
pass the filters.

Rule: what is not known locally is not guessed: metadata and comments are only at the service.
"""

import dataclasses
import errno
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Protocol

from cmsfs.journal.extents import Extents
from cmsfs.models.content import search
from cmsfs.query import fts_query, parser
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.replica.sharing import shares
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.search_results import MAX_MATCHES, Match

# What is read of files, for one search; text that is longer is not a text that somebody reads.
TEXT_BYTES = 1024 * 1024
ALL_TEXT_BYTES = 64 * 1024 * 1024
_TEXTS = re.compile(
    r"bib|c|cc|cfg|conf|cpp|css|csv|diff|go|h|htm|html|ini|java|js|json|log|lua|md|org|pl|py|rb|rs|rst|sh|sql|svg"
    r"|tex|toml|ts|tsv|txt|xml|yaml|yml"
)

_KINDS = {"file": (NodeKind.FILE,), "folder": (NodeKind.FOLDER,), "web_link": (NodeKind.LINK,)}
_ALL_KINDS = (NodeKind.FILE, NodeKind.FOLDER, NodeKind.LINK)

_NODES = (
    "SELECT n.ino, n.name, n.kind, n.size, n.mtime_ns, n.sha1, n.draft, n.remote_id, n.item, c.dirty,"
    " c.sha1 IS NOT NULL AND c.bitmap IS NULL AS whole,"
    " d.base_sha1, d.size AS draft_size, d.extents, d.data"
    " FROM node AS n LEFT JOIN content AS c ON c.sha1 = n.sha1 LEFT JOIN draft AS d ON d.id = n.draft"
    " WHERE n.parent IS NOT NULL AND n.ino > 2 AND n.kind <> 'symlink'"
)
_BELOW = (
    " AND n.ino IN (WITH RECURSIVE below(ino) AS (SELECT ino FROM node WHERE parent = ?"
    " UNION ALL SELECT m.ino FROM node AS m JOIN below AS b ON m.parent = b.ino) SELECT ino FROM below)"
)
_INDEX = (
    "CREATE VIRTUAL TABLE word USING fts5"
    " (name, description, file_content, comments, tags, tokenize = 'unicode61 remove_diacritics 2')"
)
_INSERT = (
    "INSERT INTO word(rowid, name, description, file_content, comments, tags) VALUES (?, ?, ?, ?, '', ?)"
)

PARTIAL = "names, attributes and text files on this machine; the service was not asked"


class WrittenFiles(Protocol):
    """What is being written (`Drafts`)."""

    def path(self, draft_id: int) -> Path:
        """Return the path of a draft's file."""


class CachedFiles(Protocol):
    """The cached contents (`BlockCache`)."""

    def place(self, sha1: str, *, dirty: bool) -> Path:
        """Return the path of a content; `dirty`: not uploaded yet."""

    async def flush(self) -> None:
        """Record in the replica what was cached just now."""


@dataclass(slots=True)
class LocalResults:
    """Results of a local search; implements `SearchPort`."""

    matches: Sequence[Match]
    total: int
    is_complete: bool = False
    partial: str = PARTIAL

    def is_gone(self, match: Match) -> bool:
        return False  # results are searched anew often enough

    async def more(self) -> Sequence[Match]:
        self.is_complete = True
        return self.matches


class LocalSearch:
    """Searches the replica and the cache."""

    def __init__(self, db: Database, cached: CachedFiles, written: WrittenFiles) -> None:
        self._db = db
        self._cached = cached
        self._written = written

    async def search(self, wanted: parser.ParsedSearch, folders: Sequence[Ino]) -> LocalResults:
        """Return the matches; only below these folders, if any are given.

        Raises `OSError`: ENETDOWN for what only the service knows.
        """
        if wanted.metadata is not None or "comments" in wanted.parts:
            raise errno_map.oserror(errno.ENETDOWN, "only the service knows metadata and comments")
        me = shares.rules_of(self._db).me
        owners = tuple(me or one if one == "me" else one for one in wanted.owners)
        asked = dataclasses.replace(wanted, owners=owners)
        await self._cached.flush()
        return await self._db.query(lambda conn: self._found(conn, asked, folders))

    def _found(self, conn: Connection, wanted: parser.ParsedSearch, folders: Sequence[Ino]) -> LocalResults:
        rows = {row["ino"]: row for row in _rows(conn, folders) if _fits(row, wanted)}
        order = self._fitting(rows, wanted) if wanted.text else list(rows)
        matches = []
        for ino in order[:MAX_MATCHES]:
            row = rows[ino]
            if (path := _path(conn, ino)) is not None:
                identity = row["remote_id"] or f"here-{ino}"
                kind = NodeKind(row["kind"])
                size = row["size"] if kind is NodeKind.FILE else None
                matches.append(Match(kind, identity, path, row["mtime_ns"], size))
        return LocalResults(matches, total=len(order))

    def _fitting(self, rows: dict[Ino, Row], wanted: parser.ParsedSearch) -> list[Ino]:
        """Return the items that the query finds, best first."""
        columns = wanted.parts or fts_query.COLUMNS
        compiled = fts_query.compile_query(wanted.text, columns)
        if compiled is None:
            return []
        index = sqlite3.connect(":memory:")
        try:
            index.execute(_INDEX)
            index.executemany(_INSERT, self._texts(rows.values(), with_text="file_content" in columns))
            sql = "SELECT rowid FROM word WHERE word MATCH ? ORDER BY rank"
            found = [ino for (ino,) in index.execute(sql, (compiled.match,))]
        finally:
            index.close()
        if not compiled.complement:
            return found
        others = set(found)
        return [ino for ino in rows if ino not in others]

    def _texts(self, rows: Iterable[Row], *, with_text: bool) -> Iterator[tuple[object, ...]]:
        left = ALL_TEXT_BYTES
        for row in rows:
            item = json.loads(row["item"]) if row["item"] else {}
            text = self._text(row) if with_text and left > 0 else ""
            left -= len(text)
            tags = " ".join(map(str, item.get("tags") or ()))
            yield row["ino"], row["name"], item.get("description") or "", text, tags

    def _text(self, row: Row) -> str:
        extension = row["name"].rpartition(".")[2].lower()
        if row["size"] > TEXT_BYTES or _TEXTS.fullmatch(extension) is None:
            return ""
        try:
            data = self._contents(row)
        except OSError:
            return ""  # evicted, or uploaded, meanwhile
        return data[:TEXT_BYTES].decode("utf-8", "replace").replace("\0", " ")

    def _contents(self, row: Row) -> bytes:
        """Return the bytes of a file; none, unless all of them are on this disk."""
        if row["draft"] is None:
            if not row["whole"]:
                return b""
            return self._cached.place(row["sha1"], dirty=bool(row["dirty"])).read_bytes()
        if row["base_sha1"] is not None and not Extents.from_json(row["extents"]).covers(
            0, row["draft_size"]
        ):
            return b""
        return row["data"] if row["data"] is not None else self._written.path(row["draft"]).read_bytes()


def _rows(conn: Connection, folders: Sequence[Ino]) -> Iterator[Row]:
    if not folders:
        yield from conn.execute(_NODES)
    for folder in folders:
        yield from conn.execute(_NODES + _BELOW, (folder,))


def _fits(row: Row, wanted: parser.ParsedSearch) -> bool:
    if NodeKind(row["kind"]) not in (_KINDS[wanted.kind] if wanted.kind else _ALL_KINDS):
        return False
    if wanted.extensions and row["name"].rpartition(".")[2].lower() not in {
        one.lower() for one in wanted.extensions
    }:
        return False
    if not _within(row["size"], wanted.size):
        return False
    if not _in_time(row["mtime_ns"] / 10**9, wanted.modified):
        return False
    item = json.loads(row["item"]) if row["item"] and (wanted.owners or wanted.created) else {}
    if wanted.created is not None:
        made = item.get("created_at")
        if made is None or not _in_time(datetime.fromisoformat(made).timestamp(), wanted.created):
            return False
    return not wanted.owners or _is_owned(item.get("owned_by") or {}, wanted.owners)


def _within(size: int, asked: search.SizeRange | None) -> bool:
    if asked is None:
        return True
    return (asked.lower is None or size >= asked.lower) and (asked.upper is None or size <= asked.upper)


def _in_time(moment: float, asked: search.TimeRange | None) -> bool:
    if asked is None:
        return True
    return (asked.start is None or moment >= asked.start.timestamp()) and (
        asked.end is None or moment <= asked.end.timestamp()
    )


def _is_owned(owner: dict[str, object], names: Sequence[str]) -> bool:
    called = (owner.get("id"), owner.get("login"), owner.get("name"))
    known = {str(value).casefold() for value in called if value}
    return any(name.casefold() in known for name in names)


def _path(conn: Connection, ino: Ino) -> str | None:
    """Return the path from the root; None: not on the drive any more."""
    parts: list[str] = []
    current: Ino | None = ino
    while current is not None and current != ROOT:
        row = conn.execute("SELECT parent, name FROM node WHERE ino = ?", (current,)).fetchone()
        if row is None or row["parent"] is None:
            return None
        parts.append(row["name"])
        current = row["parent"]
    return "/".join(reversed(parts))
