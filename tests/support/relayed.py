"""The relay of `faults` in a thread of its own, for tests that are no coroutines."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from tests.support import faults


@contextmanager
def relayed(port: int, plan: faults.Plan) -> Iterator[int]:
    """While this is open a port of this machine leads to that one, as the plan says."""
    up, down = threading.Event(), trio.Event()
    found: list[tuple[int, trio.lowlevel.TrioToken]] = []

    async def run() -> None:
        async with faults.running("127.0.0.1", port, plan) as relay:
            found.append((relay.port, trio.lowlevel.current_trio_token()))
            up.set()
            await down.wait()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    try:
        assert up.wait(30)
        yield found[0][0]
    finally:
        found[0][1].run_sync_soon(down.set)
        thread.join(10)
