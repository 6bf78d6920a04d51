"""Makes an empty PostgreSQL database the service's, or brings it from an older format to this one.

Processes of the older version may go on beside those of the new one, and start beside them, as far as the
new one says so (`upgrade.OLDEST_BESIDE`): so many processes are replaced one after the other.

Rule: one process does it, in one transaction; whoever comes meanwhile waits and finds it done.  What has a
format that this version cannot work on, or something else in it, is refused and left as it is.
"""

import sqlite3
from contextlib import closing

from cmsfs import errors
from cmsfs.service.storage import engine, upgrade
from cmsfs.service.storage.postgres import connection, presence, schema
from cmsfs.service.storage.postgres.connection import PostgresConnection
from cmsfs.service.storage.shared import signed_urls

_VALUE = "SELECT value FROM shared_value WHERE name = ?"
_SET_VALUE = """
  INSERT INTO shared_value VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def prepare(url: str) -> None:
    """Make or upgrade the database; for a thread.  Raises `UserError`."""
    try:
        conn = connection.connect(url)
    except engine.DatabaseUnavailable as error:
        raise errors.UserError(f"The database cannot be reached: {error}.") from error
    try:
        _check_server(conn)
        conn.command("BEGIN")
        conn.execute(f"SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.MAKING})")
        _bring(conn, upgrade.VERSION)
        conn.command("COMMIT")
    except sqlite3.Error as error:
        raise errors.UserError(f"The database cannot be used: {error}.") from error
    finally:
        conn.close()


def found(url: str) -> int | None:
    """The format of a database, which stays as it is; None: it is not the service's.  Raises `UserError`."""
    try:
        with closing(connection.connect(url)) as conn:
            if conn.execute("SELECT to_regclass('shared_value')").fetchone()[0] is None:
                return None
            return _number(conn, "format")
    except engine.DatabaseUnavailable as error:
        raise errors.UserError(f"The database cannot be reached: {error}.") from error


def _check_server(conn: PostgresConnection) -> None:
    if conn.execute("SHOW server_encoding").fetchone()[0] != "UTF8":
        raise errors.UserError("The database has not the encoding UTF8: create it with ENCODING 'UTF8'.")
    if conn.raw.info.server_version < 14_00_00:
        raise errors.UserError("The database's server is older than PostgreSQL 14.")


def _bring(conn: PostgresConnection, version: int) -> None:
    if conn.execute("SELECT to_regclass('shared_value')").fetchone()[0] is None:
        if conn.execute("SELECT to_regclass('item')").fetchone()[0] is not None:
            raise errors.UserError("The database has tables of something else: the service needs its own.")
        for statement in schema.made():
            conn.command(statement)
        conn.execute(_SET_VALUE, ("addresses.key", signed_urls.new_key()))
        _note(conn, version)
        return
    found = _number(conn, "format") or 0
    if found > version:
        if (_number(conn, "oldest_beside") or found) <= version:
            return
        said = f"a newer version of cmsfs (format {found}, this one reads {version})"
        raise errors.UserError(f"The database was written by {said}.")
    if found < version:
        # Whoever is writing finishes first.
        conn.execute(f"SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})")
        for number in range(found, version):
            for statement in schema.step(number):
                conn.command(statement)
        _note(conn, version)


def _note(conn: PostgresConnection, version: int) -> None:
    conn.execute(_SET_VALUE, ("format", str(version).encode()))
    conn.execute(_SET_VALUE, ("oldest_beside", str(upgrade.OLDEST_BESIDE).encode()))


def _number(conn: PostgresConnection, name: str) -> int | None:
    row = conn.execute(_VALUE, (name,)).fetchone()
    return None if row is None else int(row["value"])
