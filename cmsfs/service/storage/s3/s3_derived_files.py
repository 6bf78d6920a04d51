"""Derived files in a bucket, as objects `renditions/ab/<sha1>/<name>`, shared by all processes.

Rule: derived files are removed together with their content, an hour after its last version (`s3_blobs.py`),
so that no transaction waits for the bucket.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Connection

from cmsfs.service.storage import blobs, derived_files
from cmsfs.service.storage.s3 import s3_bucket

_TOP = "renditions"


def folder(sha1: str) -> str:
    """The prefix of a content's derived files."""
    return f"{_TOP}/{sha1[:2]}/{sha1}"


class S3DerivedFiles(derived_files.DerivedFiles):
    """The objects below `renditions`; the worker writes to a local folder."""

    def __init__(self, bucket: s3_bucket.S3Bucket, root: Path) -> None:
        super().__init__(root)
        self._bucket = bucket

    def key(self, sha1: str, name: str) -> str:
        return f"{folder(sha1)}/{name}"

    def prepare(self, sha1: str) -> Path:
        return self.root / f"{sha1}.new"

    def keep(self, sha1: str, name: str) -> None:
        self._bucket.put_file(self.key(sha1, name), self.prepare(sha1))
        self.discard(sha1)

    def read(self, sha1: str, name: str) -> bytes:
        return self._bucket.get(self.key(sha1, name))

    def drop(self, conn: Connection, sha1: str) -> None:
        derived_files.delete_rows(conn, sha1)

    def stored(self, prefix: str) -> Iterator[derived_files.StoredRendition]:
        for one in self._bucket.list(f"{_TOP}/{prefix}"):
            _, _, sha1, name = one.key.split("/")
            yield derived_files.StoredRendition(sha1, name, one.modified)

    def remove(self, found: list[derived_files.StoredRendition]) -> None:
        self._bucket.delete([self.key(one.sha1, one.name) for one in found])

    def sweep(self, referenced: Callable[[str], set[str]], *, exclusive: bool) -> int:
        # Also removes the subfolders' files of a store that kept its derived files locally before.
        return blobs.sweep_folder(self.root, exclusive=exclusive)
