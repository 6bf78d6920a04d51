"""Checks a drive of the account that folders are shared with.

It must show the same as a new drive of that account, except for unsent changes in folders that are no longer
shared.
"""

import contextlib
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from cmsfs import errors
from cmsfs.config import local_patterns
from cmsfs.journal import queue
from cmsfs.replica import tree
from cmsfs.replica.sharing import lost_access
from daemon.push import error_policy
from tests.simulation import judge as judging
from tests.simulation.machines import Machine

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation

CHANGES_OF_RIGHTS = ("rights", "unshare")

# What a drive adds to the name of an item beside another one of that name.
_NUMBER = re.compile(r" \(id \d+\)")


async def judge(sim: "_Simulation", machine: Machine, *, lost: Collection[str] = ()) -> set[str]:
    """Check the drive, of which these paths can no longer be complete; return the SHA-1s of all contents that
    it has."""
    failures = sim.outcome.failures
    sim.outcome.states["drives of the second account"] += 1
    if machine.settings.shared == "root":
        # Names in the root that are free again are restored when the drive starts; comparisons may free some.
        await _compare(sim, machine)
        await machine.stop()
        while not machine.is_alive:  # noqa: ASYNC110 - it is restarted
            await trio.sleep(1)
    fresh = sim.machine(sim.disks, "fresh", machine.name)
    for folder in fresh.folders:
        sim.disks.add(folder)
    async with trio.open_nursery() as nursery:
        await fresh.start(nursery)
        for each in (machine, fresh):
            await _compare(sim, each)
        own = _own(machine)
        judging.drop_unverified_pages(sim, machine)
        shown = await judging.drive_tree(machine, failures, is_rotten=machine.name in sim.rotten, lost=lost)
        expected = await judging.drive_tree(fresh, failures)
        expected = _without(expected, [*_held_elsewhere(machine, fresh), *lost])
        await fresh.stop()
    here = _by_plain_names(_without(shown, [*own, *lost]), own)
    there = _without(expected, [path for path in own if path not in here])
    if here != there:
        labels = sim.ledger.labels

        def named(these: dict[str, str], those: dict[str, str]) -> dict[str, str]:
            return {path: labels.get(sha1, sha1) for path, sha1 in these.items() if those.get(path) != sha1}

        failures.append(
            f"not as a new drive: {machine.name} shows {named(here, there)}, that {named(there, here)}"
        )
    return {sha1 for sha1 in shown.values() if sha1} | judging.recovered(machine)


async def discard_refused(sim: "_Simulation", machine: Machine) -> None:
    """Discard changes for which the account lacks the rights, as a user does.

    The drive knows the rights in advance, unless it could not ask, or the owner changed them since.
    """
    refused = error_policy.REMEDIES["access_denied_insufficient_permissions"]
    is_explained = (
        sim.plan.offline or machine.wire.faults or any(step.act in CHANGES_OF_RIGHTS for step in sim.steps)
    )
    for op in queue.failed(machine.agents.state.db):
        if refused in (op.error or "") and is_explained:
            sim.outcome.states["refused changes discarded"] += 1
            with contextlib.suppress(errors.UserError):
                await machine.agents.discard(tree.path(machine.agents.state.db, op.ino))


async def _compare(sim: "_Simulation", machine: Machine) -> None:
    """Have the drive compare everything with the service, twice, and accept what it asks for."""
    for _ in range(2):
        await judging.compare(sim, machine)
        await _accept_all(machine)
        await trio.sleep(judging.QUIET_SECONDS)


async def _accept_all(machine: Machine) -> None:
    for offer in machine.agents.offers.undecided():
        await machine.agents.offers.decide([offer.id], accept=True)


def _own(machine: Machine) -> list[str]:
    """Return the paths kept locally although they are no longer shared."""
    db = machine.agents.state.db
    found = []
    for row in db.rows("SELECT ino FROM node WHERE parent IS NOT NULL"):
        node = tree.find(db, row["ino"])
        if node is not None and node.is_lost:
            found.append(tree.path(db, node.ino).lstrip("/"))
    return found


def _held_elsewhere(machine: Machine, fresh: Machine) -> list[str]:
    """Return the paths on a new drive of items that this one keeps in folders that are no longer shared, to
    which it cannot move them."""
    db, there = machine.agents.state.db, fresh.agents.state.db
    found = []
    sql = "SELECT ino FROM op WHERE kind = 'move' AND state = 'held' AND error = ?"
    for row in db.rows(sql, lost_access.REASON):
        node = tree.find(db, row["ino"])
        if node is not None and node.remote_id is not None:
            shown = tree.find_remote(there, node.kind, node.remote_id)
            if shown is not None:
                found.append(tree.path(there, shown.ino).lstrip("/"))
    return found


def _by_plain_names(found: dict[str, str], own: list[str]) -> dict[str, str]:
    """Return the paths with the names at the service of items that were named differently here, because
    something that is `own` has the name."""
    plain = {}
    for path, sha1 in found.items():
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            name = _NUMBER.sub("", "/".join(parts[:count]))
            if name in own:
                path = "/".join([name, *parts[count:]])
                break
        plain[path] = sha1
    return plain


def _without(found: dict[str, str], own: list[str]) -> dict[str, str]:
    """Return the paths that are neither local nor `own`, without the folder of shared items if it is there
    only for what is `own`."""
    left = {
        path: sha1
        for path, sha1 in found.items()
        if not judging.is_local(path) and not any(path == kept or path.startswith(f"{kept}/") for kept in own)
    }
    shelf = f"{local_patterns.SHARED}/"
    if any(path.startswith(shelf) for path in own) and not any(path.startswith(shelf) for path in left):
        left.pop(local_patterns.SHARED, None)
    return left
