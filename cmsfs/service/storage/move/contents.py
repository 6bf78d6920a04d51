"""Moves the contents that files have, those that are not there yet, each verified by its SHA-1 on the way."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import trio

from cmsfs.runtime import threads
from cmsfs.service.storage import blobs, store

# Contents at a time: a bucket takes its time for each.
AT_ONCE = 8


@dataclass(slots=True)
class MovedContents:
    """What came of it; `broken` are those that the source has not, or not whole."""

    moved: int = 0
    size: int = 0
    there: int = 0
    broken: list[str] = field(default_factory=list)


async def move(source: store.Store, target: store.Store, progress: Callable[[int], None]) -> MovedContents:
    """Give the target the source's contents; `progress` hears how much of 256 is done.

    Cancelled or failed: what has arrived stays, and need not be sent again.  Raises `BlobsUnavailable`.
    """
    report = MovedContents()
    limit = trio.CapacityLimiter(AT_ONCE)

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
        named = await source.query(partial(blobs.sizes, prefix=prefix))
        if not named:
            continue
        there = await threads.run_sync(partial(_stored, target, prefix))
        async with trio.open_nursery() as nursery:
            for sha1, size in named.items():
                if there.get(sha1) == size:
                    report.there += 1
                else:
                    nursery.start_soon(one, sha1, size)
    return report


def _stored(target: store.Store, prefix: str) -> dict[str, int]:
    return {one.sha1: one.size for one in target.blobs.stored(prefix)}


def _copy(source: store.Store, target: store.Store, sha1: str, size: int) -> bool:
    """Whether the source has this content, whole."""
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
