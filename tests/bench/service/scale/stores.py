"""Large stores on either engine: created once by bulk load, and kept for the next run.

Indices and triggers rest while the rows come; what triggers would have made comes beside the rows.
"""

import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from cmsfs.service.access import scopes
from cmsfs.service.oauth import access_tokens, clients
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from tests.bench.service.scale.tree import COLUMNS, TEXT, Tree
from tests.support.postgres_server import PostgresServer

# Settings of a typical server; commits wait for the disk, as SQLite's do.
SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "1GB",
    "effective_cache_size": "8GB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "8GB",
}
CLIENT = "bench"
_TABLES = ("item", "version", "document", "document_words")
_ITEM = f"INSERT INTO item ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_VERSION = (
    "INSERT INTO version (id, file, sha1, size, name, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_DOCUMENT = "INSERT INTO document (id, name, file_content, description, tags) VALUES (?, ?, ?, '', '[]')"
_USED = "UPDATE account SET space_used = ? WHERE id = (SELECT min(id) FROM account)"
_WORDS = re.compile(r"[a-z0-9]+")

Step = Callable[[str, int], None]


class Users:
    """The users that send requests: the owner of all items and others, each with a token."""

    def __init__(self, owner: int, root: int, tokens: list[str]) -> None:
        self.owner, self.root, self.tokens = owner, root, tokens


async def make(root: Path, count: int, *, users: int, database_url: str | None = None) -> dict[str, Any]:
    """Fill a new store; return how long that took, its size and the tokens of its users."""
    began = time.perf_counter()
    async with store.open_store(root, database_url=database_url) as opened:
        owner, tokens = await opened.write(lambda conn: _people(conn, users, opened.now()))
        sha1 = opened.blobs.keep_bytes(TEXT.encode())
    tree = Tree(count, owner=owner["id"], root=owner["root"], sha1=sha1)
    items = len(tree.folders) - 1 + tree.files
    if database_url is None:
        _fill_file(root / "service.db", tree)
        size = sum(one.stat().st_size for one in root.glob("service.db*"))
    else:
        size = _fill_server(database_url, tree)
    return {
        "items": items,
        "seconds": time.perf_counter() - began,
        "bytes": size,
        "owner": owner["id"],
        "tokens": tokens,
        "folders": {path: tree.folders[path].number for path in ("flat", "middle", "projects", "deep")}
        | {"end": tree.folders["deep/a/b/c/d/e/f/g"].number},
        "file": tree.first_file,
        "files": tree.files,
    }


def _people(conn: Connection, count: int, now: int) -> tuple[sqlite3.Row, list[str]]:
    enterprise = demo.add_enterprise(conn, "Bench", now=now)
    made = [
        demo.add_user(
            conn,
            enterprise,
            f"User {number}",
            f"user{number}@example.com",
            role="user" if number else "admin",
            now=now,
        )
        for number in range(count)
    ]
    secret = "which nobody asks for"
    clients.add(
        *(conn, CLIENT, secret),
        name=CLIENT,
        enterprise=enterprise,
        service_user=made[0]["id"],
        scopes=" ".join(scopes.APPLICATION),
    )
    # Valid for longer than the store is kept.
    conn.execute("UPDATE account SET max_upload_size = ?", (2**40,))
    tokens = [access_tokens.access_token(conn, CLIENT, one["id"], now=now)["access_token"] for one in made]
    conn.execute("UPDATE token SET expires_at = ?", (now * 2,))
    return made[0], tokens


def _fill_file(path: Path, tree: Tree) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("PRAGMA journal_mode = DELETE")
        resting = conn.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('index', 'trigger')"
            " AND tbl_name IN ('item', 'version', 'document')"
        ).fetchall()
        conn.execute("BEGIN")
        for kind, name, _ in resting:
            conn.execute(f"DROP {kind} {name}")
        conn.executemany(_ITEM, _told("items", tree.items()))
        conn.executemany(_VERSION, _told("versions", tree.versions()))
        conn.executemany(
            _DOCUMENT, _told("documents", ((n, name, text) for n, name, text in tree.documents()))
        )
        conn.execute("INSERT INTO word (word) VALUES ('rebuild')")
        conn.execute(
            "UPDATE account SET space_used = ? WHERE id = (SELECT min(id) FROM account)", (tree.size,)
        )
        conn.execute("UPDATE item SET size = ? WHERE id = ?", (tree.size, tree.folders[""].number))
        for _, _, sql in resting:
            conn.execute(sql)
        conn.execute("COMMIT")
        conn.execute("PRAGMA journal_mode = WAL")


def _fill_server(url: str, tree: Tree) -> int:
    from cmsfs.service.storage.postgres import connection

    with closing(connection.connect(url)) as conn:
        # Disables triggers and foreign keys.
        conn.command("BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL work_mem = '256MB'")
        resting = conn.execute(
            "SELECT indexname AS name, indexdef AS sql FROM pg_indexes WHERE schemaname = current_schema()"
            " AND tablename IN (SELECT value FROM json_each(?)) AND indexname NOT LIKE '%_pkey'",
            ('["item", "version", "document_words"]',),
        ).fetchall()
        for row in resting:
            conn.command(f'DROP INDEX "{row["name"]}"')
        _copy(conn, f"item ({', '.join(COLUMNS)})", _told("items", tree.items()))
        _copy(
            conn,
            "version (id, file, sha1, size, name, created_at, created_by)",
            _told("versions", tree.versions()),
        )
        documents = ((number, name, text, "", "[]") for number, name, text in tree.documents())
        _copy(conn, "document (id, name, file_content, description, tags)", _told("documents", documents))
        _copy(
            conn,
            "document_words (id, name, description, file_content, comments, tags, words)",
            _told("words", map(_words, tree.documents())),
        )
        wrong = conn.execute(
            "SELECT count(*) AS n FROM (SELECT * FROM document ORDER BY id DESC LIMIT 1000) AS d"
            " JOIN document_words AS w ON w.id = d.id WHERE w.name != words_of(d.name)"
            " OR w.file_content != words_of(d.file_content) OR w.tags != words_of(d.tags)"
            " OR w.words != word_set(w.name || w.description || w.file_content || w.comments || w.tags)"
        ).fetchone()["n"]
        assert wrong == 0, "the words are not those that the triggers make"
        for row in resting:
            conn.command(row["sql"])
            _say(row["name"])
        conn.execute(
            "UPDATE account SET space_used = ? WHERE id = (SELECT min(id) FROM account)", (tree.size,)
        )
        conn.execute("UPDATE item SET size = ? WHERE id = ?", (tree.size, tree.folders[""].number))
        for table, last in (("item", tree.last), ("version", tree.last_version)):
            conn.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), ?)", (last,))
        conn.command("COMMIT")
        conn.command("VACUUM ANALYZE")
        return database_size(conn)


def database_size(conn: Any) -> int:
    return int(conn.execute("SELECT pg_database_size(current_database()) AS n").fetchone()["n"])


def _copy(conn: Any, table: str, rows: Iterator[tuple[object, ...]]) -> None:
    with conn.raw.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _words(document: tuple[int, str, str]) -> tuple[object, ...]:
    """Return the row as the database's own functions would index these texts."""
    number, name, text = document
    sets = [_WORDS.findall(one.lower()) for one in (name, text)]
    every = sorted({one for words in sets for one in words})
    found = [f" {' '.join(words)} " for words in sets]
    return (number, found[0], "  ", found[1], "  ", "  ", " ".join(f"'{one}'" for one in every))


def _told(what: str, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, and show the progress on the terminal."""
    began = time.perf_counter()
    for number, row in enumerate(rows, 1):
        yield row
        if number % 100_000 == 0:
            _say(f"{number:,} {what}, {number / (time.perf_counter() - began):,.0f}/s")


def _say(text: str) -> None:
    print(f"  made: {text}", file=sys.stderr, flush=True)


@contextmanager
def server(folder: Path) -> Iterator[PostgresServer]:
    """Run a PostgreSQL server whose databases are kept in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = PostgresServer(folder, SETTINGS)
    if not (folder / "data" / "postgresql.conf").exists():
        made.make()
    (folder / "data" / "postmaster.pid").unlink(missing_ok=True)
    made.start()
    try:
        yield made
    finally:
        made.stop("fast")
