"""The background queue that extracts text for search and makes other renditions in the worker.

The text of a file that is entirely plain text is indexed at once.  Any other file that may have text is in
the backlog (`unindexed`) from the transaction that stores its content until the worker has read it; a restart
resumes there.  A file without extractable text can be found by its name, and the log gives the reason.

Rule: one process works off the backlog, however many have the store open, and uploads never wait for it.
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

# Short-lived commands that only talk to the service end before a worker would start.
SETTLE_SECONDS = 1.0

# How soon we notice what another process wrote; a worker idle for this long is stopped.
POLL_SECONDS = 5.0

_RETRY_SECONDS = 60.0

# Files per transaction: thousands may be copies of one content, and other writers should not wait for them.
BATCH = 20

# Runs after every write and for every file: the join order is forced, or the query may scan all items.
NEXT_IN_BACKLOG = "SELECT id, sha1 FROM item WHERE id = (SELECT min(item) FROM unindexed)"
SAME_CONTENT = "SELECT item FROM unindexed CROSS JOIN item WHERE item.id = item AND sha1 = ? LIMIT ?"


async def first_look(head: bytes, size: int) -> extraction.FirstLook:
    """Run the first check on content; never inside a transaction, where other writers would wait for it."""
    return await threads.run_sync(extraction.first_look, head, size)


def record_content(conn: Connection, row: Row, seen: extraction.FirstLook) -> None:
    """Record a file's new content for search: index its text at once or queue it."""
    conn.execute("UPDATE document SET file_content = ? WHERE id = ?", (seen.text, row["id"]))
    conn.execute("DELETE FROM unindexed WHERE item = ?", (row["id"],))
    if seen.promising:
        _enqueue(conn, row)


def record_copied_content(conn: Connection, source: Row, version: Row, made: Row) -> None:
    """Record for search that a file was created from a version of another one."""
    if version["id"] == source["version"]:
        conn.execute(
            "UPDATE document SET file_content = (SELECT file_content FROM document WHERE id = ?)"
            " WHERE id = ?",
            (source["id"], made["id"]),
        )
        waits = conn.execute("SELECT 1 FROM unindexed WHERE item = ?", (source["id"],)).fetchone()
        if waits is None:
            return
    _enqueue(conn, made)


def _enqueue(conn: Connection, row: Row) -> None:
    conn.execute("INSERT INTO unindexed (item) VALUES (?) ON CONFLICT DO NOTHING", (row["id"],))


async def run(store: Store, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Work off the backlog until cancelled, unless another process does; on return the worker has ended."""
    task_status.started()
    await trio.sleep(SETTLE_SECONDS)
    await store.shared.run_as_leader("indexing", partial(_lead, store))


async def _lead(store: Store) -> None:
    await missing_readers.retry_failed(store)
    async with worker_client.open_worker(store.blobs.local_folder, store.renditions.root) as worker:
        while True:
            await _work(store, worker)


async def _work(store: Store, worker: worker_client.WorkerClient) -> None:
    """Run the next job; without one, wait for a write or the poll interval."""
    written = store.written  # taken first, so that no write is missed
    try:
        if await _make_next_requested(store, worker) or await _index_next(store, worker):
            return
    except engine.DatabaseUnavailable as error:
        log.debug("indexing waits for the database: %s", error)  # the store logs the outage once
    except blobs.BlobsUnavailable as error:
        log.warning("indexing waits for the contents: %s", error.strerror)
        await trio.sleep(POLL_SECONDS)
        return
    except Exception:
        # A full disk, for example: not the document's fault, and the service continues without indexing.
        log.exception("indexing failed; retrying in a minute")
        await trio.sleep(_RETRY_SECONDS)
        return
    with trio.move_on_after(POLL_SECONDS):
        await written.wait()
        return
    await worker.stop()


async def _make_next_requested(store: Store, worker: worker_client.WorkerClient) -> bool:
    """Make the rendition that was requested first; return False if none is.  Runs before the backlog."""
    found = store.read("SELECT sha1, name FROM rendition WHERE state = 0 ORDER BY asked_at LIMIT 1")
    if not found:
        return False
    sha1, name = found[0]["sha1"], found[0]["name"]
    reason = await _make_rendition(store, worker, sha1, name)
    if reason is not None:
        log.warning("cannot make %s of content %s: %s", name, sha1, reason)
    return True


async def _make_rendition(
    store: Store, worker: worker_client.WorkerClient, sha1: str, name: str
) -> str | None:
    """Make and record a rendition; return the reason if it is impossible."""
    target = store.renditions.prepare(sha1)
    reason = None
    try:
        await _run_job(store, worker, sha1, name, target)
        await threads.run_sync(store.renditions.keep, sha1, name)
    except worker_client.WorkerFailed as error:
        reason = str(error)
        await missing_readers.note_failure(store, reason)
    finally:
        store.renditions.discard(sha1)
    state = DerivedState.MADE if reason is None else DerivedState.IMPOSSIBLE
    await store.write(lambda conn: derived_files.record(conn, sha1, name, state, now=store.now()))
    return reason


async def _run_job(
    store: Store, worker: worker_client.WorkerClient, sha1: str, name: str, target: Path
) -> None:
    try:
        async with store.blobs.local_copy(sha1) as source:
            await worker.run_job(derived_files.worker_job(name, source, target))
    except FileNotFoundError as error:
        raise worker_client.WorkerFailed("its bytes are not there") from error


async def _index_next(store: Store, worker: worker_client.WorkerClient) -> bool:
    found = store.read(NEXT_IN_BACKLOG)
    if not found:
        return False
    number, sha1 = found[0]["id"], found[0]["sha1"]
    state = derived_files.states(store.read, [sha1]).get((sha1, TEXT), DerivedState.ASKED)
    text: str | None = ""
    if state is DerivedState.ASKED:
        reason = await _make_rendition(store, worker, sha1, TEXT)
        if reason is not None:
            log.warning("file %d is found by its name alone: %s", number, reason)
        state = DerivedState.MADE if reason is None else DerivedState.IMPOSSIBLE
    if state is DerivedState.MADE:
        text = await threads.run_sync(_read_text, store, sha1)
    while await store.write(lambda conn: _store_text(conn, sha1, text)):
        pass
    return True


def _read_text(store: Store, sha1: str) -> str | None:
    try:
        return store.renditions.read(sha1, TEXT).decode()
    except FileNotFoundError:
        return None


def _store_text(conn: Connection, sha1: str, text: str | None) -> bool:
    """Store this text for some files of the backlog with this content; return whether there are more.

    `text` None: the text is gone and has to be extracted again.
    """
    if text is None:
        conn.execute("DELETE FROM rendition WHERE sha1 = ? AND name = ?", (sha1, TEXT))
        return False
    found = conn.execute(SAME_CONTENT, (sha1, BATCH)).fetchall()
    numbers = json.dumps([row["item"] for row in found])
    files = "SELECT CAST(value AS BIGINT) FROM json_each(?)"
    # An empty text does not replace what is indexed: the beginning of a text whose blob cannot be read, say.
    if text:
        conn.execute(f"UPDATE document SET file_content = ? WHERE id IN ({files})", (text, numbers))
    conn.execute(f"DELETE FROM unindexed WHERE item IN ({files})", (numbers,))
    return len(found) == BATCH
