"""Reads an object a few mebibytes at a time: no request to the bucket lasts as long as a slow client."""

from cmsfs.service.storage import blobs
from cmsfs.service.storage.s3 import s3_bucket

# Bytes per request, and held in memory for each download.
WINDOW = 4 * 1024 * 1024


class ObjectReader(blobs.BlobReader):
    """Reads a range of an object; the constructor fetches the first window."""

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
