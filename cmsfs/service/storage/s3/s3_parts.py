"""Parts of unfinished uploads in a bucket: `sessions/<session>/<part>` is one, for all processes.

A store that had them in its folder before may have some there still, which are read until their uploads are
complete or over.

Rule: what cannot be removed because the bucket is out of reach is left to the sweeper, which lists the bucket
once an hour; nobody waits for it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cmsfs.service.storage import blobs, parts
from cmsfs.service.storage.s3 import s3_bucket, s3_reader

_TOP = "sessions"


class S3Parts(parts.Parts):
    """`before` is the folder where they were."""

    def __init__(self, bucket: s3_bucket.S3Bucket, before: Path) -> None:
        super().__init__()
        self._bucket = bucket
        self._before = parts.FolderParts(before)

    def key(self, session: str, part: str) -> str:
        return f"{_TOP}/{session}/{part}"

    def make(self, session: str) -> None:
        """Nothing has to be there for an object to be put."""

    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        def place(spool: Path, file: int) -> None:
            self._bucket.put_file(self.key(session, part), spool)
            spool.unlink()

        incoming.hand_to(place)

    def drop_part(self, session: str, part: str) -> None:
        with suppress(blobs.BlobsUnavailable):
            self._bucket.delete([self.key(session, part)])

    def open(self, session: str, part: str, size: int) -> blobs.BlobReader:
        try:
            return s3_reader.ObjectReader(self._bucket, self.key(session, part), 0, size)
        except FileNotFoundError:
            return self._before.open(session, part, size)

    def stored(self, before: int) -> Iterator[tuple[str, str]]:
        for one in self._bucket.list(_TOP):
            if one.modified < before:
                _, session, part = one.key.split("/")
                yield session, part

    def _remove(self, session: str) -> None:
        keys = [one.key for one in self._bucket.list(f"{_TOP}/{session}")]
        if keys:
            self._bucket.delete(keys)

    def sweep(self, read: blobs.Read, *, now: int, alone: bool) -> int:
        return self._before.sweep(read, now=now, alone=alone)
