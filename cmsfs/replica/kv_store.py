"""A key-value table: change cursors, listing generation, boot id."""

from sqlite3 import Connection

from cmsfs.sqlite import Database

CHANGES_SINCE = "changes_since"  # server time up to which changes have been applied
DELETED_SINCE = "deleted_since"  # server time up to which deletions have been applied
EVENTS_POSITION = "events_position"  # as the service gave it: events up to it have been applied
EVENTS_READ_AT = "events_read_at"  # seconds, our clock: when the stream was last read to its end
SWEEP_DUE = "sweep_due"  # the sweep requested after missed changes (`daemon.pull.reconciler`)
SWEPT_AT = "swept_at"  # seconds, our clock: when the last sweep was made
GENERATION = "generation"  # number of the newest listing
CRAWL = "crawl"  # the rest of an unfinished full enumeration (JSON, `full_enumeration.EnumerationPlan`)
MISSING = "missing"  # a mass deletion that awaits the user's decision (JSON, `mass_deletions.Question`)
PAUSED = "paused"  # the end of a pause set by the user (seconds since the epoch), or "for ever"
GUARD = "guard"  # what the guard has noticed and asks about (JSON, `ipc.attention.GuardNotice`)
GUARD_TRACES = "guard_traces "  # plus a number: the changes of the programs that the guard asks about (JSON)
DESKTOP_TRASH = "desktop_trash"  # items trashed by file managers (JSON, `vfs.virtual.desktop_trash.Record`)
OWNER = "owner"  # id of the user whose drive this is
LOGIN = "login"  # that user's login, as the service last reported it
PLACES = "places"  # the mountpoint that was added to KDE's places
LACKING = "lacking"  # by URL of a service: what it does not offer (JSON, `config.abilities.Ability`)
SHARES = "shares"  # the rules for place and name of shared items (JSON, `shares.Rules`)
WIPE = "wipe"  # since when (_ns) contents are on disk that may no longer be read (`daemon.sharing.wipe`)
LEFTOVERS = "leftovers"  # since when local files have not been touched (JSON, `vfs.heuristics.leftovers`)
DOCUMENT_LOCKS = "document_locks"  # files locked because office applications have them open (JSON)
PROGRAM_LOCKS = "program_locks"  # ids of files locked at the service because programs here lock them (JSON)
BOOT_ID = "boot_id"  # the boot in which this database was last open
CLEAN = "clean_shutdown"  # "1" while no daemon has it open after an orderly stop

# SQL expression: the number of the newest listing that was started.
NEWEST_LISTING = f"coalesce((SELECT CAST(value AS INTEGER) FROM cursor WHERE key = '{GENERATION}'), 0)"


def get(db: Database, key: str) -> str | None:
    """Return the value of `key`, or None."""
    row = db.row("SELECT value FROM cursor WHERE key = ?", key)
    return row["value"] if row else None


def at(conn: Connection, key: str) -> str | None:
    """As `get`, within this transaction."""
    row = conn.execute("SELECT value FROM cursor WHERE key = ?", (key,)).fetchone()
    return row["value"] if row else None


def all_of(db: Database, prefix: str) -> list[str]:
    """Return the values of all keys with this prefix."""
    rows = db.rows("SELECT value FROM cursor WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key", prefix)
    return [row["value"] for row in rows]


def put(conn: Connection, key: str, value: str) -> None:
    """Store `value` under `key`."""
    conn.execute("INSERT OR REPLACE INTO cursor(key, value) VALUES (?, ?)", (key, value))


def drop(conn: Connection, key: str) -> None:
    """Delete `key`."""
    conn.execute("DELETE FROM cursor WHERE key = ?", (key,))


def drop_all(conn: Connection, prefix: str) -> None:
    """Delete all keys with this prefix."""
    conn.execute("DELETE FROM cursor WHERE substr(key, 1, length(?1)) = ?1", (prefix,))


def next_generation(conn: Connection) -> int:
    """Start a listing and return its number, larger than that of any before."""
    number = generation(conn) + 1
    put(conn, GENERATION, str(number))
    return number


def generation(conn: Connection) -> int:
    """Return the number of the newest listing that was started."""
    return int(at(conn, GENERATION) or 0)
