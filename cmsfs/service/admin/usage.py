"""Hourly requests and storage of each enterprise, for the plots of its administrators.

Requests are counted in memory and written every few minutes, and once more on a clean shutdown; a crash loses
the counts since the last write.  Several processes add to the same rows.

Rule: an hour without requests or changes is written once.
"""

import logging
import sqlite3
from collections import Counter
from sqlite3 import Connection

import trio

from cmsfs.service.storage.store import Store

log = logging.getLogger(__name__)

EVERY_SECONDS = 300

# Thirteen months, to compare a year with the one before it.
KEPT_HOURS = 24 * 396

_HOUR = 3_600_000_000

_WRITE = """
  INSERT INTO usage (enterprise, hour, requests, space_used)
    SELECT :enterprise, :hour, :requests, coalesce(sum(space_used), 0) FROM account
      WHERE account.enterprise = :enterprise
  ON CONFLICT (enterprise, hour) DO UPDATE
    SET requests = usage.requests + excluded.requests, space_used = excluded.space_used
"""
_WRITTEN = "SELECT 1 FROM usage WHERE enterprise = ? AND hour = ?"

# By enterprise.
RequestCounts = Counter[int]


def hour_of(moment: int) -> int:
    """Return the hours since 1970 of a time in microseconds."""
    return moment // _HOUR


async def run(store: Store, counts: RequestCounts) -> None:
    """Write the counts periodically until cancelled; call `write` afterwards for the rest."""
    while True:
        await write(store, counts)
        await trio.sleep(EVERY_SECONDS)


async def write(store: Store, counts: RequestCounts) -> None:
    """Add the counts to the current hour and reset them; on failure they are kept."""
    hour = hour_of(store.now())
    taken = RequestCounts(counts)

    def change(conn: Connection) -> None:
        for enterprise, requests in sorted(taken.items()):
            conn.execute(_WRITE, {"enterprise": enterprise, "hour": hour, "requests": requests})
        conn.execute("DELETE FROM usage WHERE hour < ?", (hour - KEPT_HOURS,))

    try:
        for row in store.read("SELECT id FROM enterprise WHERE id != 0"):
            if not store.read(_WRITTEN, row["id"], hour):
                taken.setdefault(row["id"], 0)
        if not taken:
            return
        await store.write(change)
    except (sqlite3.Error, OSError) as error:
        log.warning("the usage of this hour could not be written: %s; the next pass tries again", error)
    else:
        counts.subtract(taken)
        for enterprise in [one for one, number in counts.items() if not number]:
            del counts[enterprise]
