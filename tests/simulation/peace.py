"""Ends all faults and waits until everything is idle: at the end of a story, and in the middle of some."""

from typing import TYPE_CHECKING

import trio

from cmsfs.journal import queue
from cmsfs.models import wire_names
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT
from daemon.core.health import LONGEST_PROBE_SECONDS
from tests.simulation import judge, logins, narrow, second_account, wire
from tests.simulation.machines import Machine
from tests.simulation.wire import NetworkConditions
from tests.simulation.world import acting

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation

# After the last fault, all changes must be synced after so long, the last part of it without activity.
PEACE_SECONDS = 130.0
QUIET_SECONDS = 40.0
RETRY_SECONDS = 20.0

# When requests that were silent at the end of the faults have failed, too.
SILENCE_SECONDS = wire.SILENT_SECONDS + 5.0

# When a drive whose refresh of the tokens was silent, too, has noticed that its login has ended, and its user
# has logged in again.
LOGIN_SECONDS = LONGEST_PROBE_SECONDS * 1.3 + logins.NOTICED_SECONDS + RETRY_SECONDS

# Drives poll by search no more often than this: nothing but idle polls would be left to do.
PEACE_POLL_SECONDS = 30.0

# The most requests a drive may make in the whole period, and in its quiet part.
PEACE_REQUESTS = 150
QUIET_REQUESTS = 60

# And as many more for each change that stays held, since it is retried with all its attempts three times.
HELD_REQUESTS = 60


async def check_midway(sim: "_Simulation") -> None:
    """Pause the faults in the middle of a story, check all invariants, and resume."""
    sim.outcome.faults["rest"] += 1
    await wait_for_quiet(sim)
    await judge.judge(sim)
    sim.outcome.failures[:] = [
        failure if failure.startswith("at rest, ") else f"at rest, {failure}"
        for failure in sim.outcome.failures
    ]
    sim.set_network_conditions()
    for machine in sim.machines:
        machine.agents.pull.seconds = machine.settings.poll_seconds


async def wait_for_quiet(sim: "_Simulation") -> None:
    """End all faults and wait until everything should be synced; check the number of requests."""
    sim.kill_schedule.clear()
    for machine in sim.machines:
        machine.wire.is_down = machine.wire.is_closed = False
        machine.wire.forced.clear()
        machine.wire.conditions = NetworkConditions(latency=0.01)
        machine.wire.liar.rate = 0.0
        sim.troubles.repair(*machine.folders)
    while sim.under_way or not all(process.is_up for process in sim.processes.values()):  # noqa: ASYNC110
        await trio.sleep(1)  # processes come and go
    if sim.plan.narrow:
        await narrow.bring_back(sim, sim.machines[-1])
    requests = [machine.wire.requests for machine in sim.machines]
    for name, programs in sim.programs.items():
        with acting(f"{name}'s programs"):
            await programs.close_all()
    await sim.person.act("release", ())
    await sim.other.act("release", ())
    names, restored = _names(sim.machines[0]), _restored(sim, sim.machines[0])
    unlisted = _unlisted(sim, sim.machines[0])
    for machine in sim.machines:
        with acting(machine.name):
            machine.agents.pull.seconds = max(PEACE_POLL_SECONDS, machine.settings.poll_seconds)
            await machine.agents.resume()
            await machine.agents.retry(None)
            # More room, as in an emptied trash, has everything retried once more: now, and not in the end.
            machine.agents.account.doubt_space()
    for seconds in (RETRY_SECONDS, SILENCE_SECONDS - RETRY_SECONDS):
        await trio.sleep(seconds)
        for machine in sim.machines:
            with acting(machine.name):
                if sim.is_second(machine):
                    await second_account.discard_refused(sim, machine)
                # Operations with a long backoff may have failed once more.
                await machine.agents.retry(None)
                await judge.confirm_missing(sim, machine, may_fail=True)
    if any(machine.login and not machine.agents.health.can_ask for machine in sim.machines):
        await trio.sleep(LOGIN_SECONDS)
    await trio.sleep(PEACE_SECONDS - QUIET_SECONDS - SILENCE_SECONDS)
    for machine in sim.machines:
        with acting(machine.name):
            await judge.confirm_missing(sim, machine)
    sim.before_quiet = [machine.wire.changes for machine in sim.machines]
    before = [machine.wire.requests for machine in sim.machines]
    await trio.sleep(QUIET_SECONDS)
    for machine, at_first, at_last in zip(sim.machines, requests, before, strict=True):
        in_peace, in_quiet = machine.wire.requests - at_first, machine.wire.requests - at_last
        held = queue.counts(machine.agents.state.db).get("held", 0)
        if in_peace > PEACE_REQUESTS + HELD_REQUESTS * held or in_quiet > QUIET_REQUESTS:
            sim.outcome.failures.append(
                f"not quiet: {machine.name} makes {in_peace} requests in peace, {in_quiet} at its end"
            )
    if judge.is_alone(sim.plan):
        now = _names(sim.machines[0])
        # What the service had before the drive started may become known later; and what was restored, also by
        # a move that failed for the program, which may be shown where it was before that.
        perhaps = set(map(wire_names.name_key, sim.ledger.perhaps_undeleted))
        moved = {path for path, item in names.items() if _key(path, item) in perhaps and item in now.values()}
        gone = sorted(names.keys() - now.keys() - moved)
        late = {path for path in now.keys() - names if not path.startswith(unlisted)}
        new = sorted(p for p in late if now[p] not in restored and _key(p, now[p]) not in perhaps)
        if gone or (new and not sim.plan.filled):
            sim.outcome.failures.append(f"renamed: nobody else is there, and {gone} became {new}")


def _key(path: str, item: tuple[str, str | None]) -> str:
    """Return the key of its name; of a conflict copy's, that of the file's; of one that the drive gave it as
    long as it was in its original folder, where the name was in use, that of the name that it was to get."""
    name = path.rpartition("/")[2].replace(f" (restored {item[1]})", "")
    return wire_names.name_key(naming.original_name(name) or name)


def _names(machine: Machine) -> dict[str, tuple[str, str | None]]:
    """Return the paths of all that programs were shown, and that is not for this machine alone; with the
    kinds and IDs of their items.

    No path leads to what was reported late, in a folder that a program still has open and that is deleted:
    the next full comparison removes it.
    """
    db = machine.agents.state.db
    rows = db.rows(
        "WITH RECURSIVE shown(ino) AS (SELECT ?"
        "  UNION ALL SELECT node.ino FROM shown JOIN node ON node.parent = shown.ino)"
        " SELECT ino, kind, remote_id FROM shown JOIN node USING (ino) WHERE NOT local AND ino > 2",
        ROOT,
    )
    paths = {tree.path(db, row["ino"]): (row["kind"], row["remote_id"]) for row in rows}
    return {path: item for path, item in paths.items() if not judge.is_local(path)}


def _unlisted(sim: "_Simulation", machine: Machine) -> tuple[str, ...]:
    """Return the paths, with a slash, of folders that programs restored from the trash, and whose items are
    not known yet."""
    db = machine.agents.state.db
    rows = db.rows(
        "SELECT ino, name FROM node WHERE kind = 'folder' AND parent IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM listing WHERE listing.ino = node.ino AND listed_at >= 0)"
    )
    keys = set(map(wire_names.name_key, sim.ledger.undeleted))
    return tuple(f"{tree.path(db, row['ino'])}/" for row in rows if wire_names.name_key(row["name"]) in keys)


def _restored(sim: "_Simulation", machine: Machine) -> set[tuple[str, str]]:
    """Return the kinds and IDs of items that programs restored from the trash, and whose place is not heard
    of yet."""
    rows = machine.agents.state.db.rows("SELECT kind, remote_id, name_key FROM doubt")
    keys = set(map(wire_names.name_key, sim.ledger.undeleted))
    return {(row["kind"], row["remote_id"]) for row in rows if row["name_key"] in keys}
