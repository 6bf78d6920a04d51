"""Starts background tasks and restarts them when they fail.

An unexpected failure while listing folders, polling for changes or showing notifications must not unmount the
drive: an unhandled exception of one task would cancel all others.

Rule: no failure is silent.  Each one is logged with a traceback.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

log = logging.getLogger(__name__)

# Pause before a failed task is restarted, with backoff.
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 300.0


class Starts(Protocol):
    """Starts tasks: a nursery, or `Supervisor`."""

    def start_soon(
        self, work: Callable[..., Awaitable[object]], /, *args: Any, name: object = None
    ) -> None: ...


class Supervisor:
    """Starts tasks in a nursery and contains their failures."""

    def __init__(self, nursery: Starts) -> None:
        self._nursery = nursery

    def keep(self, work: Callable[..., Awaitable[object]], /, *args: Any, name: str) -> None:
        """Run this until it returns; restart it after a failure."""
        self._nursery.start_soon(_run_with_restarts, work, args, name, name=name)

    def start_soon(self, work: Callable[..., Awaitable[object]], /, *args: Any, name: object = None) -> None:
        """Run this once; callers that wait for its result learn of a failure from the task itself."""
        self._nursery.start_soon(_once, work, args, name=name)


async def _run_with_restarts(
    work: Callable[..., Awaitable[object]], args: tuple[Any, ...], name: str
) -> None:
    rest = FIRST_REST_SECONDS
    while True:
        began = trio.current_time()
        try:
            await work(*args)
        except Exception:
            if trio.current_time() - began > LONGEST_REST_SECONDS:
                rest = FIRST_REST_SECONDS
            log.exception("unexpected error in %s; restarting it in %.0f s", name, rest)
        else:
            return
        await trio.sleep(rest)
        rest = min(2 * rest, LONGEST_REST_SECONDS)


async def _once(work: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
    try:
        await work(*args)
    except Exception:
        log.exception("unexpected error in a background task")
