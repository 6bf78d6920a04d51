"""Creates the schema in an empty PostgreSQL database, or upgrades an older format.

Processes of an older version may keep running, and start, beside those of the new version, back to
`upgrade.OLDEST_COMPATIBLE`: this allows rolling upgrades.

Rule: one process upgrades, in one transaction; others wait for it.  A database with an unsupported format, or
with other contents, is refused and left unchanged.
"""

import sqlite3
from contextlib import closing

from cmsfs import errors
from cmsfs.service.storage import engine, upgrade
from cmsfs.service.storage.postgres import connection, presence, schema
from cmsfs.service.storage.postgres.connection import PostgresConnection
from cmsfs.service.storage.shared import signed_urls

_GET_VALUE = "SELECT value FROM shared_value WHERE name = ?"
_SET_VALUE = """
  INSERT INTO shared_value VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def prepare(url: str) -> None:
    """Create or upgrade the schema; blocking, so call it in a thread.  Raises `UserError`."""
    try:
        conn = connection.connect(url)
    except engine.DatabaseUnavailable as error:
        raise errors.UserError(f"The database cannot be reached: {error}.") from error
    try:
        _check_server(conn)
        conn.command("BEGIN")
        conn.execute(f"SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.FORMAT})")
        _create_or_upgrade(conn, upgrade.VERSION)
        conn.command("COMMIT")
    except sqlite3.Error as error:
        raise errors.UserError(f"The database cannot be used: {error}.") from error
    finally:
        conn.close()


def read_format(url: str) -> int | None:
    """The format of a database, without changing it; None if it is not a cmsfs database.

    Raises `UserError` if it cannot be reached.
    """
    try:
        with closing(connection.connect(url)) as conn:
            if conn.execute("SELECT to_regclass('shared_value')").fetchone()[0] is None:
                return None
            return _read_number(conn, "format")
    except engine.DatabaseUnavailable as error:
        raise errors.UserError(f"The database cannot be reached: {error}.") from error


def _check_server(conn: PostgresConnection) -> None:
    if conn.execute("SHOW server_encoding").fetchone()[0] != "UTF8":
        raise errors.UserError("The database's encoding is not UTF8: create it with ENCODING 'UTF8'.")
    if conn.raw.info.server_version < 14_00_00:
        raise errors.UserError("The database's server is older than PostgreSQL 14.")


def _create_or_upgrade(conn: PostgresConnection, version: int) -> None:
    if conn.execute("SELECT to_regclass('shared_value')").fetchone()[0] is None:
        if conn.execute("SELECT to_regclass('item')").fetchone()[0] is not None:
            raise errors.UserError("The database has tables of something else: the service needs its own.")
        for statement in schema.creation_statements():
            conn.command(statement)
        conn.execute(_SET_VALUE, ("addresses.key", signed_urls.new_key()))
        _record_format(conn, version)
        return
    current = _read_number(conn, "format") or 0
    if current > version:
        if (_read_number(conn, "oldest_beside") or current) <= version:
            return
        newer = f"a newer version of cmsfs (format {current}, this one reads {version})"
        raise errors.UserError(f"The database was written by {newer}.")
    if current < version:
        # Wait for the current writer to finish.
        conn.execute(f"SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})")
        for number in range(current, version):
            for statement in schema.upgrade_statements(number):
                conn.command(statement)
        _record_format(conn, version)


def _record_format(conn: PostgresConnection, version: int) -> None:
    conn.execute(_SET_VALUE, ("format", str(version).encode()))
    conn.execute(_SET_VALUE, ("oldest_beside", str(upgrade.OLDEST_COMPATIBLE).encode()))


def _read_number(conn: PostgresConnection, name: str) -> int | None:
    row = conn.execute(_GET_VALUE, (name,)).fetchone()
    return None if row is None else int(row["value"])
