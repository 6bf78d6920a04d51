"""Leak checks for an idle drive: lookup counts, handles, tasks, deferred updates, requests, new items
without a response, descriptors."""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from cmsfs.replica.nodes import ROOT

if TYPE_CHECKING:
    from tests.simulation.machines import Machine

# How many tasks of a drive may have the same name; of all others there is one, which runs permanently.
TASK_LIMITS = {"work": math.inf, "one": 2}

# Deferred updates, except those behind a held operation, which wait for the user: also if they may be of the
# item that this created without a response, or if a read that failed has just asked for the item again.
_DEFERRED_UPDATES = """
  SELECT count(*) AS n FROM doubt
  WHERE NOT EXISTS (SELECT 1 FROM op WHERE op.ino = doubt.ino AND op.state = 'held')
    AND NOT EXISTS (
      SELECT 1 FROM node AS n JOIN op ON op.ino = n.ino AND op.state = 'held'
      WHERE n.kind = doubt.kind AND n.remote_id = doubt.remote_id)
    AND NOT EXISTS (
      SELECT 1 FROM unheard AS u JOIN op ON op.ino = u.ino AND op.state = 'held'
      WHERE (u.folder, u.name_key) = (doubt.folder, doubt.name_key))
"""

# New items that were sent without a response and that no operation looks up: if the service has them, they
# come back as somebody else's.  Of an item that was deleted there, the versions that were sent stay known.
_UNANSWERED = """
  SELECT count(*) AS n FROM unheard
  WHERE remote_id IS NULL AND NOT EXISTS (SELECT 1 FROM op WHERE op.ino = unheard.ino)
"""

# Work that is in progress at the first look has ended after so many seconds.
LEAK_SECONDS = 60


async def find_leaks(machine: "Machine") -> list[str]:
    """Return a description of each leak that persists."""
    for _ in range(LEAK_SECONDS):
        if not current_leaks(machine):
            return []
        await trio.sleep(1)
    return current_leaks(machine)


def current_leaks(machine: "Machine") -> list[str]:
    """Return a description of everything that is in use right now."""
    agents, kernel = machine.agents, machine.kernel
    found = []
    known = {ino: count for ino, count in kernel.lookups().items() if ino != ROOT}
    there = {ino: agents.fs.inodes.lookups(ino) for ino in known}
    used, opened = agents.fs.inodes.totals()
    if known != there or used != len(known):
        found.append(f"the kernel holds the lookups {known}, the drive knows of {used} inodes, {there}")
    if opened:
        found.append(f"{opened} inodes are open")
    if count := agents.state.db.rows(_DEFERRED_UPDATES)[0]["n"]:
        found.append(f"{count} deferred updates are left")
    if count := agents.state.db.rows(_UNANSWERED)[0]["n"]:
        found.append(f"{count} new items are without a response, and no operation asks for them")
    if waiting := {name: count for name, count in agents.pace.queues.items() if name != "changes"}:
        found.append(f"requests wait: {waiting}")
    if coming := agents.hydrator.coming():
        found.append(f"downloads are in progress: {coming}")
    names = Counter(task.name.rpartition(".")[2] for task in _below(machine.task))
    if twice := {name: count for name, count in names.items() if count > TASK_LIMITS.get(name, 1)}:
        found.append(f"too many tasks: {twice}")
    return found


def _below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in task.child_nurseries:
        for one in nursery.child_tasks:
            yield one
            yield from _below(one)


def leaked_descriptors(home: Path, *, dead: Collection[int] = ()) -> list[str]:
    """Return the story's files that are still open, except for the descriptors in `dead`."""
    found = open_descriptors([home])
    return sorted(str(target.relative_to(home)) for fd, target in found.items() if fd not in dead)


def open_descriptors(folders: Collection[Path]) -> dict[int, Path]:
    """Return the open descriptors of files below these folders, with their paths."""
    found: dict[int, Path] = {}
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = one.readlink()
        except FileNotFoundError:  # the descriptor of this listing
            continue
        if any(target.is_relative_to(folder) for folder in folders):
            found[int(one.name)] = target
    return found
