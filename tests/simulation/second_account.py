"""The judgement of a drive of the account that folders are shared with.

What it has to show nobody else tells: it is what a new drive of the account shows, but for what it keeps
since it was not sent while that was allowed.
"""

from typing import TYPE_CHECKING

import trio

from cmsfs.replica import tree
from tests.simulation import judge as judging
from tests.simulation.machines import Machine

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation


async def judge(one: "_Simulation", machine: Machine) -> set[str]:
    """Judge it; the contents that it has."""
    failures = one.outcome.failures
    one.outcome.states["drives of the second account"] += 1
    if machine.settings.shared == "root":
        # Names of the root that are free again are given when the drive begins.
        await machine.stop()
        while not machine.is_alive:  # noqa: ASYNC110 - it is started again
            await trio.sleep(1)
    fresh = one.machine(one.disks, "fresh", machine.name)
    for folder in fresh.folders:
        one.disks.add(folder)
    async with trio.open_nursery() as nursery:
        await fresh.start(nursery)
        for each in (machine, fresh):
            for _ in range(2):
                await each.agents.poll(full=True)
                await _accept_all(each)
                await trio.sleep(judging.QUIET_SECONDS)
        own = _own(machine)
        shown = await judging.drive_tree(machine, failures, is_rotten=machine.name in one.rotten)
        expected = await judging.drive_tree(fresh, failures)
        await fresh.stop()
    here, there = (_without(found, own) for found in (shown, expected))
    if here != there:
        labels = one.ledger.labels

        def named(these: dict[str, str], those: dict[str, str]) -> dict[str, str]:
            return {path: labels.get(sha1, sha1) for path, sha1 in these.items() if those.get(path) != sha1}

        failures.append(
            f"not as a new drive: {machine.name} shows {named(here, there)}, that {named(there, here)}"
        )
    return {sha1 for sha1 in shown.values() if sha1} | judging.recovered(machine)


async def _accept_all(machine: Machine) -> None:
    for offer in machine.agents.offers.undecided():
        await machine.agents.offers.decide([offer.id], accept=True)


def _own(machine: Machine) -> list[str]:
    """Paths of what is kept here of what is not shared any more."""
    db = machine.agents.state.db
    found = []
    for row in db.rows("SELECT ino FROM node WHERE parent IS NOT NULL"):
        node = tree.find(db, row["ino"])
        if node is not None and node.is_lost:
            found.append(tree.path(db, node.ino).lstrip("/"))
    return found


def _without(found: dict[str, str], own: list[str]) -> dict[str, str]:
    return {
        path: sha1
        for path, sha1 in found.items()
        if not judging.is_local(path) and not any(path == kept or path.startswith(f"{kept}/") for kept in own)
    }
