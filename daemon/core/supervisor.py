"""Starts background tasks and restarts them when they fail.

A failure that nobody expected in what lists folders, follows changes or warns of them must not take the drive
away from the programs that use it: without a handler of its own, an exception of one task ends all others.

Rule: nothing fails in silence.  Each failure is a line with a traceback.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

log = logging.getLogger(__name__)

# How long what has failed rests, ever longer while it goes on failing.
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 300.0


class Starts(Protocol):
    """Where a task is started: a nursery, or `Supervisor`."""

    def start_soon(
        self, work: Callable[..., Awaitable[object]], /, *args: Any, name: object = None
    ) -> None: ...


class Supervisor:
    """Starts tasks in a nursery; their failures stay with them."""

    def __init__(self, nursery: Starts) -> None:
        self._nursery = nursery

    def keep(self, work: Callable[..., Awaitable[object]], /, *args: Any, name: str) -> None:
        """Have this run until it returns; it is begun again after a failure."""
        self._nursery.start_soon(_kept, work, args, name, name=name)

    def start_soon(self, work: Callable[..., Awaitable[object]], /, *args: Any, name: object = None) -> None:
        """Have this run once; whoever waits for what it brings hears from itself that it failed."""
        self._nursery.start_soon(_once, work, args, name=name)


async def _kept(work: Callable[..., Awaitable[object]], args: tuple[Any, ...], name: str) -> None:
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
