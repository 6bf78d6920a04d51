"""Scheduled cleanup: empties the trash, disposes of retained content, removes what has expired.

`run` runs beside the application, in one process at a time.  Each pass uses small transactions, so that other
writers do not wait long, and rechecks every row inside them.  An interrupted pass is continued by the next
one, in this process or another: all state is in the data.

Rule: content under a hold or a retention policy is kept, however overdue (`protection.py` decides).
"""

import json
import logging
from collections.abc import Callable
from functools import partial
from sqlite3 import Connection, Row

import trio

from cmsfs.models.content import events as models_events
from cmsfs.service import problems
from cmsfs.service.access import protection
from cmsfs.service.content import items, trash
from cmsfs.service.events import events
from cmsfs.service.oauth import access_tokens
from cmsfs.service.storage import blobs, engine, store
from cmsfs.service.storage.kinds import ItemKind, ItemStatus
from cmsfs.service.uploads import upload_sessions

log = logging.getLogger(__name__)

# Processes one row that seems to be due; returns whether anything changed.
Change = Callable[[Connection, int, int], bool]

EVERY_SECONDS = 60
# Finding what an enterprise-wide policy releases scans all versions.
DISPOSE_EVERY_SECONDS = 3600

# Contents without a version are kept this long, for uploads that have stored the same content and are about
# to reference it.
ASIDE_SECONDS = 3600

# Rows per transaction.
BATCH = 100
# Versions to dispose of per query: an enterprise may have millions.
PAGE = 10_000

_DUE_TRASH = "SELECT id FROM item WHERE purge_at <= ? ORDER BY purge_at, id"
_DUE_LINKS = (
    "SELECT id FROM item WHERE link IS NOT NULL AND CAST(json_extract(link_terms, '$.ends') AS BIGINT) <= ?"
)
_DUE_LOCKS = (
    "SELECT id FROM item WHERE lock IS NOT NULL AND CAST(json_extract(lock, '$.expires_at') AS BIGINT) <= ?"
)
_DUE_VERSIONS = """
  SELECT version.id FROM version JOIN item ON item.id = version.file JOIN account ON account.id = item.owner
    JOIN enterprise ON enterprise.id = account.enterprise
    WHERE version.trashed_at IS NOT NULL AND version.trashed_at <= ?1 - trash_days * 86400000000
"""
# Rows with an expiry, and for how long they are kept after it: expired tokens and codes help to detect theft.
_EXPIRED_ROWS = (
    ("DELETE FROM token WHERE expires_at < ?", access_tokens.DAY),
    ("DELETE FROM code WHERE expires_at < ?", access_tokens.DAY),
    ("DELETE FROM family WHERE expires_at < ?", 0),
    ("DELETE FROM login WHERE expires_at < ?", 0),
    ("DELETE FROM assertion WHERE expires_at < ?", 0),
    ("DELETE FROM upload_session WHERE expires_at <= ?", upload_sessions.REMEMBERED),
)


async def run(opened: store.Store, clock: Callable[[], int] | None = None) -> None:
    """Run passes until cancelled, while this process is the leader.  `clock` returns microseconds."""
    await opened.shared.run_as_leader("sweeper", partial(_run_passes, opened, clock or opened.now))


async def _run_passes(opened: store.Store, now: Callable[[], int]) -> None:
    last_dispose = -float("inf")
    while True:
        dispose = trio.current_time() - last_dispose >= DISPOSE_EVERY_SECONDS
        if dispose:
            last_dispose = trio.current_time()
        try:
            await sweep(opened, now(), dispose=dispose)
        except (OSError, engine.DatabaseUnavailable) as error:
            # A full disk, no descriptors, no database server: the next pass may succeed.
            log.warning("a pass of the sweeper failed: %s; the next one tries again", error)
        except Exception:
            log.exception("a pass of the sweeper failed; the next one tries again")
        await trio.sleep(EVERY_SECONDS)


async def sweep(opened: store.Store, now: int, *, dispose: bool = True) -> None:
    """Run one pass, as of the time `now`."""
    await _process_due("purged from the trash", opened, _DUE_TRASH, now, _purge)
    await _process_due("permanently deleted versions", opened, _DUE_VERSIONS, now, _drop_version)
    if dispose:
        await _dispose(opened, now)
    unshare = partial(_end_link_or_lock, ("link", "link_terms"), models_events.UNSHARE)
    await _process_due("expired shared links", opened, _DUE_LINKS, now, unshare)
    await _process_due(
        "expired locks", opened, _DUE_LOCKS, now, partial(_end_link_or_lock, ("lock",), models_events.UNLOCK)
    )
    await events.expire_collaborations(opened, now)
    await _end_uploads(opened, now)
    await _delete_expired_rows(opened, now)
    await _remove_contents(opened, now)
    if dispose and (stray := await opened.parts.sweep_abandoned(opened.query, now=now)):
        log.info("removed %d unreferenced parts of uploads", stray)


async def _delete_expired_rows(opened: store.Store, now: int) -> None:
    """Delete expired rows; writes nothing if there are none."""
    due = [(sql, now - kept) for sql, kept in _EXPIRED_ROWS]
    if any(opened.read(f"{sql.replace('DELETE', 'SELECT 1', 1)} LIMIT 1", end) for sql, end in due):
        await opened.write(lambda conn: [conn.execute(sql, (end,)) for sql, end in due])


async def _process_due(job: str, opened: store.Store, due: str, now: int, change: Change) -> None:
    """Apply `change` to all due rows, a batch at a time.  `job` describes it in the log."""
    numbers = await opened.query(lambda read: [row["id"] for row in read(due, now)])
    changed = 0
    for start in range(0, len(numbers), BATCH):
        batch = numbers[start : start + BATCH]
        changed += await opened.write(partial(_change_batch, change, batch, now))
    if changed:
        log.info("%s: %d of %d that were due", job, changed, len(numbers))


def _change_batch(change: Change, numbers: list[int], now: int, conn: Connection) -> int:
    return sum(change(conn, one, now) for one in numbers)


def _purge(conn: Connection, number: int, now: int) -> bool:
    row = conn.execute("SELECT * FROM item WHERE id = ? AND purge_at <= ?", (number, now)).fetchone()
    if row is None or row["status"] != ItemStatus.TRASHED:
        return False
    try:
        trash.purge(conn, row, now=now)
    except problems.Refused:
        return False  # protected
    return True


def _drop_version(conn: Connection, number: int, now: int) -> bool:
    row = conn.execute(
        "SELECT item.version AS current FROM version JOIN item ON item.id = file WHERE version.id = ?",
        (number,),
    ).fetchone()
    if row is None or row["current"] == number:
        return False
    try:
        protection.check_version(conn, number, now=now)
    except problems.Refused:
        return False
    conn.execute("DELETE FROM version WHERE id = ?", (number,))
    return True


async def _dispose(opened: store.Store, now: int) -> None:
    """Remove versions and files whose retention has ended and whose policy disposes of them."""
    after = 0
    while True:
        find = partial(protection.disposable, now=now, after=after, limit=PAGE)
        if not (found := await opened.query(find)):
            break
        versions = [row["id"] for row in found if row["id"] != row["current"]]
        await _process_ids("disposed of versions", opened, versions, now, _drop_version)
        # A file is removed when its current version is disposable, with all its versions.
        files = [row["file"] for row in found if row["id"] == row["current"]]
        await _process_ids("disposed of files", opened, files, now, _dispose_file)
        after = found[-1]["id"]


async def _process_ids(job: str, opened: store.Store, numbers: list[int], now: int, change: Change) -> None:
    ids = json.dumps(numbers)
    due = f"SELECT CAST(value AS BIGINT) AS id FROM json_each('{ids}') WHERE CAST(?1 AS BIGINT) IS NOT NULL"
    await _process_due(job, opened, due, now, change)


def _dispose_file(conn: Connection, number: int, now: int) -> bool:
    row = items.find(conn, number)
    if row is None or row["kind"] != ItemKind.FILE:
        return False
    try:
        protection.check_purge(conn, row, now=now)
    except problems.Refused:
        return False
    if row["status"] == ItemStatus.ACTIVE:
        # Records an event, so that clients learn of the removal.
        trash.move_to_trash(conn, row, by=row["owner"], now=now)
    conn.execute("DELETE FROM item WHERE id = ?", (number,))
    return True


def _end_link_or_lock(columns: tuple[str, ...], word: str, conn: Connection, number: int, now: int) -> bool:
    """Remove a shared link or a lock if it has expired."""
    row: Row | None = items.find(conn, number)
    ends = None
    if row is not None and row[columns[-1]] is not None:
        terms = json.loads(row[columns[-1]])
        ends = terms["ends" if word == models_events.UNSHARE else "expires_at"]
    if row is None or ends is None or ends > now:
        return False
    conn.execute(f"UPDATE item SET {', '.join(f'{one} = NULL' for one in columns)} WHERE id = ?", (number,))
    if row["status"] == ItemStatus.ACTIVE:
        events.record(conn, items.find(conn, number), word, by=row["owner"], now=now)
    return True


async def _end_uploads(opened: store.Store, now: int) -> None:
    """Remove the parts of expired uploads; their sessions are kept for a while to answer 410."""
    over = "SELECT DISTINCT s.id FROM upload_session AS s JOIN upload_part AS p ON p.session = s.id"
    numbers = [row["id"] for row in opened.read(f"{over} WHERE expires_at <= ?", now)]
    if numbers:
        rows = [(number,) for number in numbers]
        await opened.write(lambda conn: conn.executemany("DELETE FROM upload_part WHERE session = ?", rows))
        await opened.parts.remove(*numbers)
        log.info("dropped the parts of %d uploads that expired", len(numbers))


async def _remove_contents(opened: store.Store, now: int) -> None:
    """Remove contents that lost their last version, and their derived files."""
    while batch := [row["sha1"] for row in opened.read("SELECT sha1 FROM orphan LIMIT ?", BATCH)]:
        await opened.write(partial(_set_aside, opened, batch, now))

    before = now - ASIDE_SECONDS * 1_000_000
    if dropped := await opened.blobs.drop_aside(opened.read, opened.write, before=before):
        log.info("removed %d unreferenced contents", dropped)


def _set_aside(opened: store.Store, sha1s: list[str], now: int, conn: Connection) -> None:
    for sha1 in sha1s:
        conn.execute("DELETE FROM orphan WHERE sha1 = ?", (sha1,))
        if not blobs.has_version(conn, sha1):
            opened.blobs.set_aside(conn, sha1, now=now)
            opened.renditions.drop(conn, sha1)
