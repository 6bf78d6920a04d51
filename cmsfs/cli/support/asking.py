"""Runs a command's requests to the service with one deadline for all; prints a note while the user waits."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from cmsfs import errors, output

T = TypeVar("T")

# Shorter than the timeout of a request, which must suffice for uploads.
SECONDS = 30.0
NOTE_SECONDS = 3.0


def run(work: Callable[..., Awaitable[T]], *args: Any, seconds: float | None = None) -> T:
    """Run `work` and return its result.  Raises its errors, and `RemoteTimeout` after `seconds`."""
    return trio.run(_asked, work, args, SECONDS if seconds is None else seconds)


async def _asked(work: Callable[..., Awaitable[T]], args: tuple[Any, ...], seconds: float) -> T:
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tell)
            found = await work(*args)
            nursery.cancel_scope.cancel()
        return found
    raise errors.RemoteTimeout(f"no answer after {seconds:.0f} seconds")


async def _tell() -> None:
    await trio.sleep(NOTE_SECONDS)
    output.note("Waiting for the service...")
