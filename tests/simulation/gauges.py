"""What has to be back when nobody uses a drive: lookups, handles, tasks, news left aside, requests."""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from cmsfs.replica.nodes import ROOT

if TYPE_CHECKING:
    from tests.simulation.machines import Machine

# Tasks of a drive of which there are several by the same name; of all others there is one, and it stands.
SEVERAL = {"work": math.inf, "one": 2}

# What waits for an operation that is held waits for a person.
_LEFT_ASIDE = """
  SELECT count(*) AS n FROM doubt
  WHERE NOT EXISTS (SELECT 1 FROM op WHERE op.ino = doubt.ino AND op.state = 'held')
"""

# What is on its way when somebody looks has ended so much later.
SECONDS = 60


async def not_back(machine: "Machine") -> list[str]:
    """What does not come back, in words."""
    for _ in range(SECONDS):
        if not risen(machine):
            return []
        await trio.sleep(1)
    return risen(machine)


def risen(machine: "Machine") -> list[str]:
    """What is not back at this moment."""
    agents, kernel = machine.agents, machine.kernel
    found = []
    known = {ino: count for ino, count in kernel.lookups().items() if ino != ROOT}
    there = {ino: agents.fs.inodes.lookups(ino) for ino in known}
    used, opened = agents.fs.inodes.totals()
    if known != there or used != len(known):
        found.append(f"the kernel holds the lookups {known}, the drive knows of {used} inodes, {there}")
    if opened:
        found.append(f"{opened} inodes are open")
    if count := agents.state.db.rows(_LEFT_ASIDE)[0]["n"]:
        found.append(f"{count} news are left aside")
    if waiting := {name: count for name, count in agents.pace.queues.items() if name != "changes"}:
        found.append(f"requests wait: {waiting}")
    if coming := agents.hydrator.coming():
        found.append(f"contents are on their way: {coming}")
    names = Counter(task.name.rpartition(".")[2] for task in _below(machine.task))
    if twice := {name: count for name, count in names.items() if count > SEVERAL.get(name, 1)}:
        found.append(f"tasks are left: {twice}")
    return found


def _below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in task.child_nurseries:
        for one in nursery.child_tasks:
            yield one
            yield from _below(one)


def descriptors(home: Path, *, dead: Collection[int] = ()) -> list[str]:
    """Files of a story that are open still, but for what the `dead` had open."""
    found = open_below([home])
    return sorted(str(target.relative_to(home)) for fd, target in found.items() if fd not in dead)


def open_below(folders: Collection[Path]) -> dict[int, Path]:
    """Descriptors of files below these folders, and what they are of."""
    found: dict[int, Path] = {}
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = one.readlink()
        except FileNotFoundError:  # that of the listing itself
            continue
        if any(target.is_relative_to(folder) for folder in folders):
            found[int(one.name)] = target
    return found
