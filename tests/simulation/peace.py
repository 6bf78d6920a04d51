"""All is well: nobody dies, the network is good, programs end.  At the end of a story, and within some."""

from typing import TYPE_CHECKING

import trio

from tests.simulation import judge
from tests.simulation.wire import Weather
from tests.simulation.world import who

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation

# When all is well again, everything has to be where it belongs after so long, and to be quiet.
PEACE_SECONDS = 130.0
QUIET_SECONDS = 40.0
RETRY_SECONDS = 20.0

# So many requests a drive makes in peace, and of them in the quiet at its end.
PEACE_REQUESTS = 150
QUIET_REQUESTS = 60


async def rest(one: "_Simulation") -> None:
    """Peace within a story: what must be true at its end must be true then."""
    one.outcome.faults["rest"] += 1
    await come(one)
    await judge.judge(one)
    one.outcome.failures[:] = [
        said if said.startswith("at rest, ") else f"at rest, {said}" for said in one.outcome.failures
    ]
    one.trouble()


async def come(one: "_Simulation") -> None:
    """Return when it has lasted long enough for all to be in its place."""
    one.dooms.clear()
    for machine in one.machines:
        machine.wire.is_down = False
        machine.wire.next.clear()
        machine.wire.weather = Weather(latency=0.01)
        machine.wire.liar.rate = 0.0
        one.troubles.well(*machine.folders)
    while one.under_way or not all(  # noqa: ASYNC110 - processes come and go
        process.is_alive and not process.is_dying for process in one.processes.values()
    ):
        await trio.sleep(1)
    requests = [machine.wire.requests for machine in one.machines]
    for name, programs in one.programs.items():
        token = who.set(f"{name}'s programs")
        await programs.let_go()
        who.reset(token)
    await one.person.act("release", ())
    await one.other.act("release", ())
    for machine in one.machines:
        await machine.agents.resume()
        await machine.agents.retry(None)
    await trio.sleep(RETRY_SECONDS)
    for machine in one.machines:
        # What had failed often enough to wait long, and met another hindrance since.
        await machine.agents.retry(None)
    await trio.sleep(PEACE_SECONDS - QUIET_SECONDS - RETRY_SECONDS)
    one.before_quiet = [machine.wire.changes for machine in one.machines]
    before = [machine.wire.requests for machine in one.machines]
    await trio.sleep(QUIET_SECONDS)
    for machine, at_first, at_last in zip(one.machines, requests, before, strict=True):
        in_peace, in_quiet = machine.wire.requests - at_first, machine.wire.requests - at_last
        if in_peace > PEACE_REQUESTS or in_quiet > QUIET_REQUESTS:
            one.outcome.failures.append(
                f"not quiet: {machine.name} makes {in_peace} requests in peace, {in_quiet} at its end"
            )
