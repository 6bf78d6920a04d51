"""Ensures that a bucket prefix belongs to exactly one store, and that a store uses exactly one prefix.

The store records the prefix and its id in `blobs.json` (a file in its folder, or a shared value in its
database); the prefix has an object with the id of its store.  If only the folder has the record, it is copied
to the database.

Rules: after a crash at any point, the next start completes the claim.  If several processes start at once,
the first id that is recorded wins.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cmsfs import errors
from cmsfs.runtime import chance, threads
from cmsfs.service.storage import blobs, engine, folder_claim
from cmsfs.service.storage.s3 import s3_bucket


@dataclass(frozen=True, slots=True)
class _Claim:
    url: str
    id: str
    claimed: bool

    def data(self) -> bytes:
        return json.dumps(asdict(self)).encode()


async def open_bucket(
    root: Path, url: str | None, db: engine.Engine, shared: engine.StoreCoordination
) -> s3_bucket.S3Bucket:
    """Open the bucket of the store in `root` and claim its prefix.

    Raises `UserError` if the contents are elsewhere, or the bucket is another store's or unreachable.
    """
    known = _parse(shared.value(blobs.LOCATION) or _read_folder_note(root))
    if known is not None and url is None:
        raise errors.UserError(f"The contents of {root} are in {known.url}: give --blobs {known.url}.")
    assert url is not None  # with neither, contents are in the folder, and nobody calls this
    bucket = s3_bucket.S3Bucket(url)
    if known is not None and known.url != bucket.url:
        raise errors.UserError(
            f"The contents of {root} are in {known.url}, not in {url}; if they were copied there, stop the"
            " service and run cmsfs service relocate."
        )
    if known is None and folder_claim.has_blobs(root):
        raise errors.UserError(f"{root} has contents in its own folder; a new store can have them in {url}.")
    if folder_claim.is_claimed(shared) or (known is None and db.rows("SELECT 1 FROM version LIMIT 1")):
        raise errors.UserError(f"The database refers to contents in another folder, not in {url}.")
    try:
        await _claim(bucket, known, shared)
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error
    return bucket


async def relocate(root: Path, url: str, shared: engine.StoreCoordination) -> str:
    """Record that the contents have been copied to another prefix; return its URL.

    Raises `UserError` if the prefix has not the contents of this store, or is unreachable.
    """
    known = _parse(shared.value(blobs.LOCATION) or _read_folder_note(root))
    if known is None:
        raise errors.UserError("The contents of this service are in no bucket.")
    bucket = s3_bucket.S3Bucket(url)
    try:
        found = await threads.run_sync(_read_owner_id, bucket)
        if found is None:
            # Copied without it, perhaps.
            if not await threads.run_sync(lambda: any(True for _ in bucket.list("blobs"))):
                raise errors.UserError(f"{bucket.url} has no contents.")
            owner = json.dumps({"id": known.id}).encode()
            await threads.run_sync(bucket.put_new, s3_bucket.OWNER_KEY, owner)
        elif found != known.id:
            raise errors.UserError(f"{bucket.url} has the contents of another store.")
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error
    await shared.set_value(blobs.LOCATION, _Claim(bucket.url, known.id, claimed=True).data())
    return bucket.url


async def _claim(bucket: s3_bucket.S3Bucket, known: _Claim | None, shared: engine.StoreCoordination) -> None:
    found = await threads.run_sync(_read_owner_id, bucket)
    if found is None:
        mine = known or _Claim(bucket.url, chance.uuid4().hex, claimed=False)
        known = _parse(await shared.add_value(blobs.LOCATION, mine.data()))
    elif known is None:
        # Another process may have recorded its id and put the object meanwhile.
        known = _parse(shared.value(blobs.LOCATION))
    else:
        known = _parse(await shared.add_value(blobs.LOCATION, known.data()))
    if known is None:
        raise errors.UserError(f"{bucket.url} has the contents of another store; choose another prefix.")
    if known.url != bucket.url:
        raise errors.UserError(f"The contents are in {known.url}, not in {bucket.url}.")
    if found is None:
        if not known.claimed:
            await threads.run_sync(bucket.put_new, s3_bucket.OWNER_KEY, json.dumps({"id": known.id}).encode())
        found = await threads.run_sync(_read_owner_id, bucket)  # another process may have put it first
    if found is None:
        raise errors.UserError(f"{bucket.url} has no data of this store; is AWS_ENDPOINT_URL right?")
    if found != known.id:
        raise errors.UserError(f"{bucket.url} has the contents of another store; choose another prefix.")
    if not known.claimed:
        await shared.set_value(blobs.LOCATION, replace(known, claimed=True).data())


def _read_owner_id(bucket: s3_bucket.S3Bucket) -> str | None:
    """The id of the store that owns a prefix; None if it is unclaimed."""
    try:
        return str(json.loads(bucket.get(s3_bucket.OWNER_KEY))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""


def _read_folder_note(root: Path) -> bytes | None:
    try:
        return (root / blobs.LOCATION).read_bytes()
    except FileNotFoundError:
        return None


def _parse(data: bytes | None) -> _Claim | None:
    return None if data is None else _Claim(**json.loads(data))
