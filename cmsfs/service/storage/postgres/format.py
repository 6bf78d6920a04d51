"""Makes an empty PostgreSQL database the service's, or brings it from an older format to this one.

Rule: one process does it, in one transaction; whoever comes meanwhile waits and finds it done.  What has a
newer format, or something else in it, is refused and left as it is.
"""

import sqlite3

from cmsfs import errors
from cmsfs.service.storage import engine, upgrade
from cmsfs.service.storage.postgres import connection, presence, schema
from cmsfs.service.storage.postgres.connection import PostgresConnection
from cmsfs.service.storage.shared import signed_urls

_FORMAT = "SELECT value FROM shared_value WHERE name = 'format'"


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
        key = signed_urls.new_key()
        values = (str(version).encode(), key)
        conn.execute("INSERT INTO shared_value VALUES ('format', ?), ('addresses.key', ?)", values)
        return
    found = int(conn.execute(_FORMAT).fetchone()["value"])
    if found > version:
        said = f"a newer version of cmsfs (format {found}, this one reads {version})"
        raise errors.UserError(f"The database was written by {said}.")
    for number in range(found, version):
        for statement in schema.step(number):
            conn.command(statement)
    conn.execute("UPDATE shared_value SET value = ? WHERE name = 'format'", (str(version).encode(),))
