"""Runs a bounded number of tasks over a list; raises a single exception unwrapped.

A nursery alone wraps exceptions of its tasks in a group, which `except errors.NotFound` would not match.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import trio

T = TypeVar("T")


async def for_each(work: Iterable[T], do: Callable[[T], Awaitable[None]], *, tasks: int) -> None:
    """Await `do` for every item, `tasks` at a time; the first exception cancels the others."""
    queue = iter(work)
    failures: list[Exception] = []

    async def worker(first: T) -> None:
        # atomic: no await between taking an item and checking the queue again
        for piece in itertools.chain([first], queue):
            try:
                await do(piece)
            except Exception as error:
                failures.append(error)
                nursery.cancel_scope.cancel()
                return

    # A short list needs no more tasks than items, and one item or none needs no tasks.
    begun = list(itertools.islice(queue, tasks))
    if len(begun) < 2:
        for piece in itertools.chain(begun, queue):
            await do(piece)
        return
    async with trio.open_nursery() as nursery:
        for first in begun:
            nursery.start_soon(worker, first)
    if failures:
        raise failures[0]


async def first_of(*waits: Callable[[], Awaitable[None]]) -> None:
    """Return when the first of these returns; the others are cancelled."""
    async with trio.open_nursery() as nursery:

        async def one(wait: Callable[[], Awaitable[None]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(one, wait)
