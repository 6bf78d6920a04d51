"""Contents in a bucket: `blobs/ab/<sha1>` is one, put there before a row names it.

What arrives is a file on the local disk first, so that its SHA-1 is known; what is sent is fetched a few
mebibytes at a time, so that no request to the bucket lasts as long as a slow client.

A content that lost its last version is not touched for an hour, but in the table `aside`.  Then it goes in
three steps: its row says that it is being removed, and whoever would name it is sent away for a moment; its
object is deleted, and what was derived from it; its row says that.  The row stays for longer than any upload
takes, and whoever names the content then asks the bucket whether it was put there since.  Nothing else waits
for the bucket inside a write transaction.
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

# An upload in parts may put its content, fail to name it, and be committed again within seven days.
_REMEMBERED = 8 * 86_400 * 1_000_000

# Contents in one step.
_BATCH = 100


class AsideState(enum.IntEnum):
    """How far a content is that lost its last version."""

    ASIDE = 0
    GOING = 1
    GONE = 2


class S3Blobs(blobs.BlobStore):
    """The objects below `blobs`; `fetched` is the folder of those that the worker reads.

    With a `signer` clients are given addresses in the bucket.
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
    def readable(self) -> Path:
        return self._fetched

    def key(self, sha1: str) -> str:
        return f"blobs/{sha1[:2]}/{sha1}"

    def reach(self) -> None:
        self.bucket.reach(s3_bucket.OWNER)

    @property
    def redirects(self) -> bool:
        return self._signer is not None

    def address(self, sha1: str, answer: Mapping[str, str]) -> str | None:
        if self._signer is None:
            return None
        return self._signer.address(self.key(sha1), answer, at=int(clock.time()))

    def put(self, sha1: str, spool: Path, file: int) -> None:
        self.bucket.put_file(self.key(sha1), spool)
        spool.unlink()

    def open(self, sha1: str, first: int = 0, end: int | None = None) -> blobs.BlobReader:
        return s3_reader.ObjectReader(
            self.bucket, self.key(sha1), first, self.size(sha1) if end is None else end
        )

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
            await threads.run_sync(self._delete, going)
            await write(partial(_end_removal, going, before))
            removed += len(going)
        return removed

    def _delete(self, sha1s: list[str]) -> None:
        keys = [self.key(sha1) for sha1 in sha1s]
        for sha1 in sha1s:
            keys += [one.key for one in self.bucket.list(s3_derived_files.folder(sha1))]
        self.bucket.delete(keys)

    def sweep(self, conn: Connection) -> int:
        return 0  # `service check` looks through a bucket

    def sweep_incoming(self, *, alone: bool) -> int:
        removed = super().sweep_incoming(alone=alone)
        return removed + blobs.sweep_folder(self._fetched, alone=alone)


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
