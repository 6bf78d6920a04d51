"""Has a stopped service, whose database was restored from a backup, continue with numbers it has never given.

What was written after the backup is gone, but clients remember it: ids, etags and event positions that the
service would now give to something else.  Then `If-Match` no longer protects what its sender has not seen,
and a client that goes on from its event position never hears of what is gone.

So ids and etags continue far above all that may be known, and event positions from before are refused.  They
come from the clock, since the same backup may be restored again.
"""

from contextlib import AsyncExitStack
from pathlib import Path

from cmsfs import errors
from cmsfs.service.storage import engine, store
from cmsfs.service.storage.move import postgres_load, sqlite_load, tables
from cmsfs.service.storage.shared import moments

# By this much they grow if they are ahead of the clock.
IDS = 1_000_000_000
ETAGS = 1_000_000


async def renumber(root: Path, *, database_url: str | None) -> None:
    """Continue with new ids and etags, and refuse all event positions given so far.

    Raises `UserError` if the service runs.  If it is interrupted, run it again.
    """
    loader: tables.BulkLoad = sqlite_load if database_url is None else postgres_load
    async with AsyncExitStack() as stack:
        clock = moments.StoreClock()
        shared, db = await store.open_database(root, database_url, clock, stack)
        if not shared.try_exclusive():
            where = root if database_url is None else "the database"
            raise errors.UserError(f"A service has {where} open; stop it first.")

        def run(conn: engine.Connection) -> int:
            # Fewer ids are given than microseconds pass, and no item changes once a millisecond.
            micros = clock.now()
            millis = micros // 1000
            known = loader.last_ids(conn)
            last = {name: micros if last < micros else last + IDS for name, last in known.items()}
            loader.set_last_ids(conn, last)
            later = "UPDATE item SET etag = CASE WHEN etag < ? THEN ? ELSE etag + ? END"
            conn.execute(later, (millis, millis, ETAGS))
            for table in ("event", "admin_event"):
                # A stream ends at its newest event: this is the first position that is given from now on.
                newest = conn.execute(f"SELECT max(id) AS id FROM {table}").fetchone()["id"]
                conn.execute(f"UPDATE {table} SET id = ? WHERE id = ?", (last[table], newest))
            has_events = conn.execute("SELECT 1 FROM event LIMIT 1").fetchone() is not None
            # Without events the stream ends before every position that is known, which a drive notices.
            return last["event"] if has_events else 0

        first = await db.write(run, durable=True)
        await shared.set_value(store.FIRST_POSITION, str(first).encode())
