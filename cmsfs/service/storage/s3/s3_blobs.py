"""Contents in a bucket, as objects `blobs/ab/<sha1>`; each is put before a row references it.

An upload is spooled to a local file first, because the key is its SHA-1.  A download is fetched a few
mebibytes at a time, so that no request to the bucket lasts as long as a slow client.

A content that lost its last version is kept for an hour, with a row in the table `aside`.  Then it is removed
in three steps: the row is marked as removing, and new references get a temporary error; the object and its
derived files are deleted; the row is marked as removed.  The row is kept for longer than any upload can take:
whoever references the content again first checks whether the bucket has it.  No other write transaction waits
for the bucket.
"""

import enum
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs.runtime import chance, clock, threads
from cmsfs.service.storage import blobs
from cmsfs.service.storage.s3 import presigned, s3_bucket, s3_derived_files, s3_reader

# A chunked upload may put its content, fail before it references it, and be committed again for seven days.
_REMOVED_ROW_LIFETIME = 8 * 86_400 * 1_000_000

# Contents removed in one step.
_BATCH = 100


class AsideState(enum.IntEnum):
    """The removal state of a content that lost its last version."""

    ASIDE = 0
    REMOVING = 1
    REMOVED = 2


class S3Blobs(blobs.BlobStore):
    """The objects below `blobs`; `fetched` is the folder of local copies for the worker.

    With a `signer`, downloads are redirected to presigned URLs.
    """

    def __init__(
        self,
        bucket: s3_bucket.S3Bucket,
        incoming: Path,
        fetched: Path,
        *,
        signer: presigned.Signer | None = None,
    ) -> None:
        super().__init__(incoming)
        self.bucket = bucket
        self._fetched = fetched
        self._signer = signer

    @property
    def local_folder(self) -> Path:
        return self._fetched

    def key(self, sha1: str) -> str:
        return f"blobs/{sha1[:2]}/{sha1}"

    def check_reachable(self) -> None:
        self.bucket.probe(s3_bucket.OWNER_KEY)

    @property
    def redirects_downloads(self) -> bool:
        return self._signer is not None

    def presigned_url(self, sha1: str, response_headers: Mapping[str, str]) -> str | None:
        if self._signer is None:
            return None
        return self._signer.sign_url(self.key(sha1), response_headers, at=int(clock.time()))

    def put(self, sha1: str, spool: Path, file: int) -> None:
        self.bucket.put_file(self.key(sha1), spool)
        spool.unlink()

    def open(self, sha1: str, first: int = 0, end: int | None = None) -> blobs.BlobReader:
        try:
            return s3_reader.ObjectReader(
                self.bucket, self.key(sha1), first, self.size(sha1) if end is None else end
            )
        except FileNotFoundError:
            raise blobs.ContentLost(sha1) from None

    def size(self, sha1: str) -> int:
        return self.bucket.size(self.key(sha1))

    def stored(self, prefix: str) -> Iterator[blobs.StoredBlob]:
        for one in self.bucket.list(f"blobs/{prefix}"):
            yield blobs.StoredBlob(one.key.rpartition("/")[2], one.size, one.modified)

    @asynccontextmanager
    async def local_copy(self, sha1: str) -> AsyncIterator[Path]:
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
        if found["state"] == AsideState.REMOVING:
            raise blobs.BlobsUnavailable("a content of these bytes is just being removed")
        if found["state"] == AsideState.REMOVED:
            try:
                self.size(sha1)
            except FileNotFoundError as error:
                raise blobs.BlobsUnavailable("a content of these bytes was removed meanwhile") from error
        conn.execute("DELETE FROM aside WHERE sha1 = ?", (sha1,))

    async def drop_aside(self, read: blobs.Read, write: blobs.Write, *, before: int) -> int:
        removed = 0
        if not read("SELECT 1 FROM aside WHERE state = ? OR since < ? LIMIT 1", AsideState.REMOVING, before):
            return 0
        while removing := await write(partial(_begin_removal, before)):
            await threads.run_sync(self._delete, removing)
            await write(partial(_end_removal, removing, before))
            removed += len(removing)
        return removed

    def _delete(self, sha1s: list[str]) -> None:
        keys = [self.key(sha1) for sha1 in sha1s]
        for sha1 in sha1s:
            keys += [one.key for one in self.bucket.list(s3_derived_files.folder(sha1))]
        self.bucket.delete(keys)

    def sweep(self, conn: Connection) -> int:
        return 0  # `service check` lists the bucket

    def sweep_incoming(self, *, exclusive: bool) -> int:
        removed = super().sweep_incoming(exclusive=exclusive)
        return removed + blobs.sweep_folder(self._fetched, exclusive=exclusive)


def _begin_removal(before: int, conn: Connection) -> list[str]:
    """Mark contents that were set aside before a time as removing; returns their SHA-1s.

    Also deletes the rows of removed contents that no upload needs any more.
    """
    conn.execute(
        "DELETE FROM aside WHERE state = ? AND since < ?",
        (AsideState.REMOVED, before - _REMOVED_ROW_LIFETIME),
    )
    due = "SELECT sha1 FROM aside WHERE state = ? OR (state = ? AND since < ?) LIMIT ?"
    values = (AsideState.REMOVING, AsideState.ASIDE, before, _BATCH)
    found = [row["sha1"] for row in conn.execute(due, values).fetchall()]
    referenced = [sha1 for sha1 in found if blobs.has_version(conn, sha1)]
    conn.executemany("DELETE FROM aside WHERE sha1 = ?", [(sha1,) for sha1 in referenced])
    removing = [sha1 for sha1 in found if sha1 not in referenced]
    conn.executemany(
        "UPDATE aside SET state = ? WHERE sha1 = ?", [(AsideState.REMOVING, sha1) for sha1 in removing]
    )
    return removing


def _end_removal(removing: list[str], now: int, conn: Connection) -> None:
    values = [(AsideState.REMOVED, now, sha1) for sha1 in removing]
    conn.executemany("UPDATE aside SET state = ?, since = ? WHERE sha1 = ?", values)
