"""The background queue that extracts text for search and makes other renditions in the worker.

A file that is plain text from one end to the other is found at once.  Any other that may hold words is in
the backlog (`unindexed`) from the transaction that names its content until the worker has read it; a restart
goes on where the service stopped.  A file whose words cannot be had is found by its name, and the log says
why.

Rule: one process works the backlog off, however many have the store open, and no upload waits for it.
"""

import json
import logging
from functools import partial
from pathlib import Path
from sqlite3 import Connection, Row

import trio

from cmsfs.runtime import threads
from cmsfs.service.renditions import missing_readers
from cmsfs.service.storage import blobs, derived_files, engine
from cmsfs.service.storage.derived_files import TEXT, DerivedState
from cmsfs.service.storage.store import Store
from cmsfs.service.worker import extraction, worker_client

log = logging.getLogger(__name__)

# A command that only wants to say something to the service is gone before a worker has started.
SETTLE_SECONDS = 1.0

# How soon what another process wrote is noticed; a worker with nothing to do for so long is ended.
POLL_SECONDS = 5.0

_RETRY_SECONDS = 60.0

# Files in one transaction: thousands may be copies of one, and other writers do not wait for all of them.
BATCH = 20

# After every write, and for every file: the order of the tables is told, or all items may come first.
NEXT = "SELECT id, sha1 FROM item WHERE id = (SELECT min(item) FROM unindexed)"
SAME = "SELECT item FROM unindexed CROSS JOIN item WHERE item.id = item AND sha1 = ? LIMIT ?"


async def look(head: bytes, size: int) -> extraction.Look:
    """The first look at a content; never inside a transaction, where everybody would wait for it."""
    return await threads.run_sync(extraction.look, head, size)


def note(conn: Connection, row: Row, seen: extraction.Look) -> None:
    """A file has this content now: let search find it, at once or by the backlog."""
    conn.execute("UPDATE document SET file_content = ? WHERE id = ?", (seen.text, row["id"]))
    conn.execute("DELETE FROM unindexed WHERE item = ?", (row["id"],))
    if seen.promising:
        _put(conn, row)


def note_copy(conn: Connection, source: Row, version: Row, made: Row) -> None:
    """A file was made of a version of another one."""
    if version["id"] == source["version"]:
        conn.execute(
            "UPDATE document SET file_content = (SELECT file_content FROM document WHERE id = ?)"
            " WHERE id = ?",
            (source["id"], made["id"]),
        )
        waits = conn.execute("SELECT 1 FROM unindexed WHERE item = ?", (source["id"],)).fetchone()
        if waits is None:
            return
    _put(conn, made)


def _put(conn: Connection, row: Row) -> None:
    conn.execute("INSERT INTO unindexed (item) VALUES (?) ON CONFLICT DO NOTHING", (row["id"],))


async def run(store: Store, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Work the backlog off until cancelled, unless another process does; the worker then has ended."""
    task_status.started()
    await trio.sleep(SETTLE_SECONDS)
    await store.shared.run_as_leader("indexing", partial(_lead, store))


async def _lead(store: Store) -> None:
    await missing_readers.catch_up(store)
    async with worker_client.open_workshop(store.blobs.local_folder, store.renditions.root) as shop:
        while True:
            await _work(store, shop)


async def _work(store: Store, shop: worker_client.WorkerClient) -> None:
    """The next job; without one, wait for what may bring one."""
    written = store.written  # first, so that what is written meanwhile is not missed
    try:
        if await _make_next(store, shop) or await _index_next(store, shop):
            return
    except engine.DatabaseUnavailable as error:
        log.debug("the indexing waits for the database: %s", error)  # which says so once
    except blobs.BlobsUnavailable as error:
        log.warning("the indexing waits for the contents: %s", error.strerror)
        await trio.sleep(POLL_SECONDS)
        return
    except Exception:
        # A full disk, say: it is no document's fault, and the service goes on without.
        log.exception("the indexing failed; it goes on in a minute")
        await trio.sleep(_RETRY_SECONDS)
        return
    with trio.move_on_after(POLL_SECONDS):
        await written.wait()
        return
    await shop.rest()


async def _make_next(store: Store, shop: worker_client.WorkerClient) -> bool:
    """What a client asked for comes before what nobody waits for."""
    found = store.read("SELECT sha1, name FROM rendition WHERE state = 0 ORDER BY asked_at LIMIT 1")
    if not found:
        return False
    sha1, name = found[0]["sha1"], found[0]["name"]
    reason = await _make(store, shop, sha1, name)
    if reason is not None:
        log.warning("there is no %s of the content %s: %s", name, sha1, reason)
    return True


async def _make(store: Store, shop: worker_client.WorkerClient, sha1: str, name: str) -> str | None:
    """Have a rendition made and recorded; why it is impossible, if it is."""
    target = store.renditions.prepare(sha1)
    reason = None
    try:
        await _do(store, shop, sha1, name, target)
        await threads.run_sync(store.renditions.keep, sha1, name)
    except worker_client.WorkerFailed as error:
        reason = str(error)
        await missing_readers.note(store, reason)
    finally:
        store.renditions.discard(sha1)
    state = DerivedState.MADE if reason is None else DerivedState.IMPOSSIBLE
    await store.write(lambda conn: derived_files.record(conn, sha1, name, state, now=store.now()))
    return reason


async def _do(store: Store, shop: worker_client.WorkerClient, sha1: str, name: str, target: Path) -> None:
    try:
        async with store.blobs.local_copy(sha1) as source:
            await shop.do(derived_files.worker_job(name, source, target))
    except FileNotFoundError as error:
        raise worker_client.WorkerFailed("its bytes are not there") from error


async def _index_next(store: Store, shop: worker_client.WorkerClient) -> bool:
    found = store.read(NEXT)
    if not found:
        return False
    number, sha1 = found[0]["id"], found[0]["sha1"]
    state = derived_files.states(store.read, [sha1]).get((sha1, TEXT), DerivedState.ASKED)
    text: str | None = ""
    if state is DerivedState.ASKED:
        reason = await _make(store, shop, sha1, TEXT)
        if reason is not None:
            log.warning("file %d is found by its name alone: %s", number, reason)
        state = DerivedState.MADE if reason is None else DerivedState.IMPOSSIBLE
    if state is DerivedState.MADE:
        text = await threads.run_sync(_read, store, sha1)
    while await store.write(lambda conn: _record(conn, sha1, text)):
        pass
    return True


def _read(store: Store, sha1: str) -> str | None:
    try:
        return store.renditions.read(sha1, TEXT).decode()
    except FileNotFoundError:
        return None


def _record(conn: Connection, sha1: str, text: str | None) -> bool:
    """Some files in the backlog with this content have these words; whether there are more of them.

    None: they are to be had once more.
    """
    if text is None:
        conn.execute("DELETE FROM rendition WHERE sha1 = ? AND name = ?", (sha1, TEXT))
        return False
    found = conn.execute(SAME, (sha1, BATCH)).fetchall()
    numbers = json.dumps([row["item"] for row in found])
    files = "SELECT CAST(value AS BIGINT) FROM json_each(?)"
    # Without words, what is there stays: the beginning of a text whose blob cannot be read, say.
    if text:
        conn.execute(f"UPDATE document SET file_content = ? WHERE id IN ({files})", (text, numbers))
    conn.execute(f"DELETE FROM unindexed WHERE item IN ({files})", (numbers,))
    return len(found) == BATCH
