"""Contents in a bucket: `blobs/ab/<sha1>` is one, put there before a row names it.

What arrives is a file on the local disk first, so that its SHA-1 is known; what is sent is fetched a few
mebibytes at a time, so that no request to the bucket lasts as long as a slow client.

A content that lost its last version is not touched for an hour, but in the table `aside`.  Then it goes in
three steps: its row says that it is being removed, and whoever would name it is sent away for a moment; its
object is deleted; its row says that.  The row stays for longer than any upload takes, and whoever names the
content then asks the bucket whether it was put there since.  Nothing else waits for the bucket inside a write
transaction.

Rule: a bucket's prefix belongs to one store, and a store knows which is its own (`blobs.json`).
"""

import enum
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import trio

from cmsfs import durability, errors
from cmsfs.runtime import chance, threads
from cmsfs.service.storage import blobs, s3_bucket

# How much is fetched at once, and held in memory for each download.
WINDOW = 4 * 1024 * 1024

# An upload in parts may put its content, fail to name it, and be committed again within seven days.
_REMEMBERED = 8 * 86_400 * 1_000_000

# Contents in one step.
_BATCH = 100

_OWNER = "cmsfs.json"


class AsideState(enum.IntEnum):
    """How far a content is that lost its last version."""

    ASIDE = 0
    GOING = 1
    GONE = 2


class ObjectReader(blobs.BlobReader):
    """Part of an object.  The first of it is there when this is."""

    def __init__(self, bucket: s3_bucket.S3Bucket, key: str, first: int, end: int) -> None:
        self._bucket = bucket
        self._key = key
        self._at = first
        self._end = end
        self._window = memoryview(b"")
        self._fetch()

    def _fetch(self) -> None:
        end = min(self._at + WINDOW, self._end)
        if self._at < end:
            self._window = memoryview(self._bucket.get_range(self._key, self._at, end))

    def read(self, size: int) -> bytes:
        if not self._window:
            self._fetch()
        data = bytes(self._window[:size])
        self._window = self._window[size:]
        self._at += len(data)
        return data

    def close(self) -> None:
        self._window = memoryview(b"")


class S3Blobs(blobs.BlobStore):
    """Construct with `open_blobs`."""

    def __init__(self, bucket: s3_bucket.S3Bucket, incoming: Path, fetched: Path) -> None:
        super().__init__(incoming)
        self.bucket = bucket
        self._fetched = fetched

    @property
    def readable(self) -> Path:
        return self._fetched

    def key(self, sha1: str) -> str:
        return f"blobs/{sha1[:2]}/{sha1}"

    def put(self, sha1: str, spool: Path, file: int) -> None:
        self.bucket.put_file(self.key(sha1), spool)
        spool.unlink()

    def open(self, sha1: str, first: int = 0, end: int | None = None) -> blobs.BlobReader:
        return ObjectReader(self.bucket, self.key(sha1), first, self.size(sha1) if end is None else end)

    def size(self, sha1: str) -> int:
        return self.bucket.size(self.key(sha1))

    def stored(self, prefix: str) -> Iterator[blobs.StoredBlob]:
        for one in self.bucket.list(f"blobs/{prefix}"):
            yield blobs.StoredBlob(one.key.rpartition("/")[2], one.size, one.modified)

    @asynccontextmanager
    async def at_hand(self, sha1: str) -> AsyncIterator[Path]:
        path = self._fetched / chance.uuid4().hex
        try:
            await threads.run_sync(self._fetch, sha1, path)
            yield path
        finally:
            with trio.CancelScope(shield=True):
                await threads.run_sync(partial(path.unlink, missing_ok=True))

    def _fetch(self, sha1: str, path: Path) -> None:
        with path.open("xb") as file:
            reader = self.open(sha1)
            while data := reader.read(blobs.CHUNK):
                file.write(data)

    def set_aside(self, conn: Connection, sha1: str, *, now: int) -> None:
        conn.execute(
            "INSERT INTO aside VALUES (?, ?, ?)"
            " ON CONFLICT (sha1) DO UPDATE SET state = excluded.state, since = excluded.since",
            (sha1, AsideState.ASIDE, now),
        )

    def bring_back(self, conn: Connection, sha1: str) -> None:
        found = conn.execute("SELECT state FROM aside WHERE sha1 = ?", (sha1,)).fetchone()
        if found is None:
            return
        if found["state"] == AsideState.GOING:
            raise blobs.BlobsUnavailable("a content of these bytes is just being removed")
        if found["state"] == AsideState.GONE:
            try:
                self.size(sha1)
            except FileNotFoundError as error:
                raise blobs.BlobsUnavailable("a content of these bytes was removed meanwhile") from error
        conn.execute("DELETE FROM aside WHERE sha1 = ?", (sha1,))

    async def drop_aside(self, read: blobs.Read, write: blobs.Write, *, before: int) -> int:
        removed = 0
        if not read("SELECT 1 FROM aside WHERE state = ? OR since < ? LIMIT 1", AsideState.GOING, before):
            return 0
        while going := await write(partial(_begin_removal, before)):
            await threads.run_sync(self.bucket.delete, [self.key(sha1) for sha1 in going])
            await write(partial(_end_removal, going, before))
            removed += len(going)
        return removed

    def sweep(self, conn: Connection) -> int:
        removed = 0
        for entry in os.scandir(self._fetched):
            Path(entry.path).unlink()
            removed += 1
        return removed


def _begin_removal(before: int, conn: Connection) -> list[str]:
    """Contents that are to be removed now, of those that were set aside before a moment.

    On this occasion rows go that no upload needs any more.
    """
    conn.execute("DELETE FROM aside WHERE state = ? AND since < ?", (AsideState.GONE, before - _REMEMBERED))
    due = "SELECT sha1 FROM aside WHERE state = ? OR (state = ? AND since < ?) LIMIT ?"
    values = (AsideState.GOING, AsideState.ASIDE, before, _BATCH)
    found = [row["sha1"] for row in conn.execute(due, values).fetchall()]
    named = [sha1 for sha1 in found if blobs.has_version(conn, sha1)]
    conn.executemany("DELETE FROM aside WHERE sha1 = ?", [(sha1,) for sha1 in named])
    going = [sha1 for sha1 in found if sha1 not in named]
    conn.executemany(
        "UPDATE aside SET state = ? WHERE sha1 = ?", [(AsideState.GOING, sha1) for sha1 in going]
    )
    return going


def _end_removal(going: list[str], now: int, conn: Connection) -> None:
    values = [(AsideState.GONE, now, sha1) for sha1 in going]
    conn.executemany("UPDATE aside SET state = ?, since = ? WHERE sha1 = ?", values)


def open_blobs(root: Path, url: str | None) -> S3Blobs:
    """The contents of the store in `root`, which are in a bucket or shall be; for a thread.

    Raises `UserError` if they are elsewhere, or the bucket is another store's or cannot be asked.
    """
    said = root / "blobs.json"
    known = json.loads(said.read_text(encoding="utf-8")) if said.exists() else None
    if known is not None and url is None:
        raise errors.UserError(f"The contents of {root} are in {known['url']}: give --blobs {known['url']}.")
    assert url is not None  # or they are in the folder
    bucket = s3_bucket.S3Bucket(url)
    if known is not None and known["url"] != bucket.url:
        raise errors.UserError(f"The contents of {root} are in {known['url']}, not in {url}.")
    if known is None and any(entry.is_file() for entry in (root / "blobs").rglob("*")):
        raise errors.UserError(f"{root} has contents in its own folder; a new store can have them in {url}.")
    try:
        _claim(bucket, said, known)
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error
    fetched = root / "fetched"
    fetched.mkdir(exist_ok=True, mode=0o700)
    return S3Blobs(bucket, root / "incoming", fetched)


def _claim(bucket: s3_bucket.S3Bucket, said: Path, known: dict[str, Any] | None) -> None:
    """See that the bucket's prefix is this store's.  Killed anywhere, the next start goes on with it."""
    found = _owner(bucket)
    if known is None:
        known = {"url": bucket.url, "id": chance.uuid4().hex, "claimed": False}
        if found is None:
            _note(said, known)
    if found is None and not known["claimed"]:
        bucket.put_new(_OWNER, json.dumps({"id": known["id"]}).encode())
        found = _owner(bucket)
    if found is None:
        raise errors.UserError(f"{bucket.url} has nothing of this store; is AWS_ENDPOINT_URL right?")
    if found != known["id"]:
        raise errors.UserError(f"{bucket.url} has the contents of another store; choose another prefix.")
    if not known["claimed"]:
        _note(said, known | {"claimed": True})


def _owner(bucket: s3_bucket.S3Bucket) -> str | None:
    """The id of the store that a prefix belongs to; None: it is nobody's."""
    try:
        return str(json.loads(bucket.get(_OWNER))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""


def _note(path: Path, found: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(found), encoding="utf-8")
    durability.sync(new)
    new.rename(path)
    durability.sync(path.parent)
