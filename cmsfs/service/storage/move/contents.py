"""Copies referenced contents that the target lacks, and verifies each by its SHA-1."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import trio

from cmsfs.runtime import threads
from cmsfs.service.storage import blobs, store

# Concurrent copies: a bucket has a high latency.
MAX_CONCURRENT = 8


@dataclass(slots=True)
class MovedContents:
    """The result of a copy; `broken` are contents that are missing or damaged in the source."""

    moved: int = 0
    size: int = 0
    already_there: int = 0
    broken: list[str] = field(default_factory=list)


async def move(source: store.Store, target: store.Store, progress: Callable[[int], None]) -> MovedContents:
    """Copy the source's contents to the target; `progress` gets how many of 256 steps are done.

    Cancelled or failed: copied contents stay, and are not copied again.  Raises `BlobsUnavailable`.
    """
    report = MovedContents()
    limit = trio.CapacityLimiter(MAX_CONCURRENT)

    async def one(sha1: str, size: int) -> None:
        async with limit:
            if await threads.run_sync(partial(_copy, source, target, sha1, size)):
                report.moved += 1
                report.size += size
            else:
                report.broken.append(sha1)

    for number in range(256):
        prefix = f"{number:02x}"
        progress(number)
        referenced = await source.query(partial(blobs.referenced_sizes, prefix=prefix))
        if not referenced:
            continue
        already_there = await threads.run_sync(partial(_stored, target, prefix))
        async with trio.open_nursery() as nursery:
            for sha1, size in referenced.items():
                if already_there.get(sha1) == size:
                    report.already_there += 1
                else:
                    nursery.start_soon(one, sha1, size)
    return report


def _stored(target: store.Store, prefix: str) -> dict[str, int]:
    return {one.sha1: one.size for one in target.blobs.stored(prefix)}


def _copy(source: store.Store, target: store.Store, sha1: str, size: int) -> bool:
    """Copy one content; False if it is missing or damaged in the source."""
    incoming = blobs.IncomingBlob(target.blobs)
    try:
        try:
            with closing(source.blobs.open(sha1)) as reader:
                incoming.append_from(reader, size)
                if reader.read(1) or incoming.sha1_now() != sha1:
                    return False
        except blobs.BlobsUnavailable:
            raise
        except OSError:
            return False
        incoming.keep_now()
        return True
    finally:
        incoming.close()
