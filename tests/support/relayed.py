"""The relay of `faults` in its own thread, for synchronous tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from tests.support import faults


@contextmanager
def relayed(port: int, plan: faults.Plan) -> Iterator[int]:
    """Run the relay to this port, with the faults of the plan, for the duration of the context."""
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
