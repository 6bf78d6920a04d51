"""A key-value table: change cursors, listing generation, boot id."""

from sqlite3 import Connection

from cmsfs.sqlite import Database

CHANGES_SINCE = "changes_since"  # server time up to which changes have been applied
DELETED_SINCE = "deleted_since"  # server time up to which deletions have been applied
EVENTS_POSITION = "events_position"  # as the service gave it: events up to it have been applied
EVENTS_READ_AT = "events_read_at"  # seconds, our clock: when the stream was last read to its end
SWEEP_DUE = "sweep_due"  # the sweep that something missed asks for (`daemon.pull.reconciler`)
SWEPT_AT = "swept_at"  # seconds, our clock: when everything was last compared
GENERATION = "generation"  # number of the newest listing
CRAWL = "crawl"  # what is left of the listing of everything (JSON, `full_enumeration.EnumerationPlan`)
MISSING = (
    "missing"  # what a comparison would take away, if a person says so (JSON, `mass_deletions.Question`)
)
PAUSED = "paused"  # the person wants quiet until then (seconds since the epoch), or "for ever"
GUARD = "guard"  # what the guard has noticed and asks about (JSON, `ipc.attention.GuardNotice`)
GUARD_TRACES = "guard_traces "  # and a number: what the programs that it asks about have changed (JSON)
DESKTOP_TRASH = (
    "desktop_trash"  # what file managers here threw away (JSON, `vfs.virtual.desktop_trash.Record`)
)
OWNER = "owner"  # id of the user whose drive this is
LOGIN = "login"  # what that user logs in as, as the service last said
PLACES = "places"  # the mountpoint at which it was added to the places of KDE
LACKING = "lacking"  # by address of a service: what it does not offer (JSON, `config.abilities.Ability`)
SHARES = "shares"  # by which rules what others share has its place and name (JSON, `shares.Rules`)
WIPE = (
    "wipe"  # since when (_ns) bytes that may no longer be read have been on this disk (`daemon.sharing.wipe`)
)
LEFTOVERS = "leftovers"  # since when local files have not been touched (JSON, `vfs.heuristics.leftovers`)
PROGRAM_LOCKS = "program_locks"  # ids of files that are locked since programs here have locked them (JSON)
BOOT_ID = "boot_id"  # the boot in which this database was last open
CLEAN = "clean_shutdown"  # "1" while no daemon has it open after an orderly stop

# The number of the newest listing that was begun, as a value within a statement.
NEWEST_LISTING = f"coalesce((SELECT CAST(value AS INTEGER) FROM cursor WHERE key = '{GENERATION}'), 0)"


def get(db: Database, key: str) -> str | None:
    """The value under `key`, or None."""
    row = db.row("SELECT value FROM cursor WHERE key = ?", key)
    return row["value"] if row else None


def at(conn: Connection, key: str) -> str | None:
    """The value under `key` as this transaction sees it, or None."""
    row = conn.execute("SELECT value FROM cursor WHERE key = ?", (key,)).fetchone()
    return row["value"] if row else None


def all_of(db: Database, prefix: str) -> list[str]:
    """The values under keys that begin so."""
    rows = db.rows("SELECT value FROM cursor WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key", prefix)
    return [row["value"] for row in rows]


def put(conn: Connection, key: str, value: str) -> None:
    """Store `value` under `key`."""
    conn.execute("INSERT OR REPLACE INTO cursor(key, value) VALUES (?, ?)", (key, value))


def drop(conn: Connection, key: str) -> None:
    """Forget the value under `key`."""
    conn.execute("DELETE FROM cursor WHERE key = ?", (key,))


def drop_all(conn: Connection, prefix: str) -> None:
    """Forget the values under keys that begin so."""
    conn.execute("DELETE FROM cursor WHERE substr(key, 1, length(?1)) = ?1", (prefix,))


def next_generation(conn: Connection) -> int:
    """Begin a listing: its number is larger than that of any before."""
    number = generation(conn) + 1
    put(conn, GENERATION, str(number))
    return number


def generation(conn: Connection) -> int:
    """The number of the newest listing that was begun."""
    return int(at(conn, GENERATION) or 0)
