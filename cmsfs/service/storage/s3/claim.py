"""Sees that a bucket's prefix belongs to one store, and that a store has its bytes in one.

The store knows by a note (`blobs.json`: a file of its folder, or a value in its database for all processes)
where its bytes are and under which id; the prefix has an object with the id of its store.  A database whose
store had the note in its folder takes it from there.

Rules: killed anywhere, the next start goes on with it.  Of several processes that start at once the first to
note an id says it.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cmsfs import errors
from cmsfs.runtime import chance, threads
from cmsfs.service.storage import blobs, engine
from cmsfs.service.storage.s3 import s3_bucket


@dataclass(frozen=True, slots=True)
class _Claim:
    url: str
    id: str
    claimed: bool

    def data(self) -> bytes:
        return json.dumps(asdict(self)).encode()


async def open_bucket(
    root: Path, url: str | None, db: engine.Engine, shared: engine.Together
) -> s3_bucket.S3Bucket:
    """The bucket of the store in `root`, which is this store's then.

    Raises `UserError` if the bytes are elsewhere, or the bucket is another store's or cannot be asked.
    """
    known = _read(shared.value(blobs.NOTE) or _of_folder(root))
    if known is not None and url is None:
        raise errors.UserError(f"The contents of {root} are in {known.url}: give --blobs {known.url}.")
    assert url is not None  # or they are in the folder
    bucket = s3_bucket.S3Bucket(url)
    if known is not None and known.url != bucket.url:
        raise errors.UserError(f"The contents of {root} are in {known.url}, not in {url}.")
    if known is None and any(entry.is_file() for entry in (root / "blobs").rglob("*")):
        raise errors.UserError(f"{root} has contents in its own folder; a new store can have them in {url}.")
    if known is None and db.rows("SELECT 1 FROM version LIMIT 1"):
        raise errors.UserError(f"The database names contents that are in another folder, not in {url}.")
    try:
        await _claim(bucket, known, shared)
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error
    return bucket


async def _claim(bucket: s3_bucket.S3Bucket, known: _Claim | None, shared: engine.Together) -> None:
    found = await threads.run_sync(_owner, bucket)
    if found is None:
        mine = known or _Claim(bucket.url, chance.uuid4().hex, claimed=False)
        known = _read(await shared.add_value(blobs.NOTE, mine.data()))
    elif known is None:
        # Another process, which has noted it first, may have put the object meanwhile.
        known = _read(shared.value(blobs.NOTE))
    else:
        known = _read(await shared.add_value(blobs.NOTE, known.data()))
    if known is None:
        raise errors.UserError(f"{bucket.url} has the contents of another store; choose another prefix.")
    if known.url != bucket.url:
        raise errors.UserError(f"The contents are in {known.url}, not in {bucket.url}.")
    if found is None:
        if not known.claimed:
            await threads.run_sync(bucket.put_new, s3_bucket.OWNER, json.dumps({"id": known.id}).encode())
        found = await threads.run_sync(_owner, bucket)  # another process's, perhaps
    if found is None:
        raise errors.UserError(f"{bucket.url} has nothing of this store; is AWS_ENDPOINT_URL right?")
    if found != known.id:
        raise errors.UserError(f"{bucket.url} has the contents of another store; choose another prefix.")
    if not known.claimed:
        await shared.set_value(blobs.NOTE, replace(known, claimed=True).data())


def _owner(bucket: s3_bucket.S3Bucket) -> str | None:
    """The id of the store that a prefix belongs to; None: it is nobody's."""
    try:
        return str(json.loads(bucket.get(s3_bucket.OWNER))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""


def _of_folder(root: Path) -> bytes | None:
    try:
        return (root / blobs.NOTE).read_bytes()
    except FileNotFoundError:
        return None


def _read(data: bytes | None) -> _Claim | None:
    return None if data is None else _Claim(**json.loads(data))
