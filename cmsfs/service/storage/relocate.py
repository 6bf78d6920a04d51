"""Tells a stopped service that its contents are at another place now, to which they have been copied.

That is needed after a backup was restored: the database names the bucket's prefix, or the data folder, of the
service that it was taken from, and refuses any other (s3/claim.py, folder_claim.py).

Rule: the new place must have been this service's, by its id, or have contents and nobody's id.
"""

from contextlib import AsyncExitStack
from pathlib import Path

from cmsfs import errors
from cmsfs.service.storage import blobs, engine, folder_claim, store
from cmsfs.service.storage.shared import moments


async def relocate(root: Path, blobs_url: str | None, *, database_url: str | None) -> str:
    """Record where the contents are now: at `blobs_url`, or in the folder `root`; return that place.

    Raises `UserError` if the service runs, or if the place has not its contents.
    """
    async with AsyncExitStack() as stack:
        shared, _ = await store.open_database(root, database_url, moments.StoreClock(), stack)
        if not shared.try_exclusive():
            where = root if database_url is None else "the database"
            raise errors.UserError(f"A service has {where} open; stop it first.")
        if blobs_url is not None:
            return await _to_bucket(root, blobs_url, shared)
        if shared.value(blobs.LOCATION) is not None:
            raise errors.UserError("The contents of this service are in a bucket: give --blobs.")
        if database_url is None:
            raise errors.UserError(f"The contents of {root} are beside its database, wherever that is.")
        return await folder_claim.relocate(root, shared)


async def _to_bucket(root: Path, url: str, shared: engine.StoreCoordination) -> str:
    store.load_s3()
    from cmsfs.service.storage.s3 import claim

    return await claim.relocate(root, url, shared)
