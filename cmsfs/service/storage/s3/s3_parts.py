"""Parts of unfinished uploads in a bucket, as objects `sessions/<session>/<part>`, shared by all processes.

A store that kept parts in its folder before may still have some there; they are read until their uploads are
complete or expired.

Rule: if the bucket is unreachable, removal is left to the sweeper, which lists the bucket once an hour; no
request waits for it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cmsfs.service.storage import blobs, parts
from cmsfs.service.storage.s3 import s3_bucket, s3_reader

_TOP = "sessions"


class S3Parts(parts.Parts):
    """The objects below `sessions`; `before` is the folder that held the parts before."""

    def __init__(self, bucket: s3_bucket.S3Bucket, before: Path) -> None:
        super().__init__()
        self._bucket = bucket
        self._legacy_folder = parts.FolderParts(before)

    def key(self, session: str, part: str) -> str:
        return f"{_TOP}/{session}/{part}"

    def create_session(self, session: str) -> None:
        """Do nothing: a bucket needs no folders."""

    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        def place(spool: Path, file: int) -> None:
            self._bucket.put_file(self.key(session, part), spool)
            spool.unlink()

        incoming.move_to(place)

    def drop_part(self, session: str, part: str) -> None:
        with suppress(blobs.BlobsUnavailable):
            self._bucket.delete([self.key(session, part)])

    def open(self, session: str, part: str, size: int) -> blobs.BlobReader:
        try:
            return s3_reader.ObjectReader(self._bucket, self.key(session, part), 0, size)
        except FileNotFoundError:
            return self._legacy_folder.open(session, part, size)

    def stored(self, before: int) -> Iterator[tuple[str, str]]:
        for one in self._bucket.list(_TOP):
            if one.modified < before:
                _, session, part = one.key.split("/")
                yield session, part

    def _remove(self, session: str) -> None:
        keys = [one.key for one in self._bucket.list(f"{_TOP}/{session}")]
        if keys:
            self._bucket.delete(keys)

    def sweep(self, read: blobs.Read, *, now: int, exclusive: bool) -> int:
        return self._legacy_folder.sweep(read, now=now, exclusive=exclusive)
