"""Executes a restore plan at the service; steps whose order does not matter run in parallel.

A rejected step is reported and does not affect the others.  A step whose target name is still taken by an
item that is to be moved waits for that item; in a cycle of renames, one item gets a temporary name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Protocol

import trio

from cmsfs import errors
from cmsfs.client.history.as_of import Facts, ItemState, Key
from cmsfs.client.history.restore_plan import Action, RestorePlan, RestoreStep
from cmsfs.client.history.undo_log import UndoLog
from cmsfs.client.session import Client
from cmsfs.models import wire_names

AT_ONCE = 8

# The contents of a folder in the trash are listed only once it is restored, so that the plan grows by a
# level.
_PASSES = 5


class Past(Protocol):
    """Past and current state of some items: `load` fetches the current state again, `plan` is what
    remains."""

    facts: Facts

    async def load(self) -> None: ...

    def plan(self) -> RestorePlan: ...


class PlanExecutor:
    """Executes the steps of plans; `refused` lists the steps that the service rejected, with the error."""

    def __init__(self, client: Client, undo: IO[str] | None, progress: Callable[[int], None]) -> None:
        self._client = client
        self._undo = undo
        self._progress = progress
        self.done: list[RestoreStep] = []
        self.refused: list[tuple[RestoreStep, errors.CmsfsError]] = []
        self._waiting: list[tuple[RestoreStep, errors.CmsfsError]] = []
        self._away: set[Key] = set()

    async def restore_past(self, past: Past) -> RestorePlan:
        """Execute plans until nothing remains, including what only becomes visible after earlier steps.
        Returns what is left."""
        plan = past.plan()
        for _ in range(_PASSES):
            tried = {(step.action, step.key) for step, _ in self.refused}
            plan.steps = [step for step in plan.steps if (step.action, step.key) not in tried]
            if not plan.steps:
                break
            await self.execute(plan, past.facts.now)
            await past.load()
            plan = past.plan()
        return plan

    async def execute_in_order(self, plan: RestorePlan, now: Mapping[Key, ItemState]) -> None:
        """Execute the steps one after the other, without deferring any."""
        self._log_for_undo(plan, now)
        for step in plan.steps:
            await self._try(step)
            if step.action == "restore" and step in self.done:
                await self._move_on(step)
        self.refused += self._drain()

    async def _move_on(self, step: RestoreStep) -> None:
        """Move a restored item to its place; the service restores it to where it was deleted."""
        item = await self._client.items.get(*step.key)
        if (item.name, item.parent.id if item.parent else None) != (step.name, step.parent):
            await self._try(replace(step, action="place"))

    def _log_for_undo(self, plan: RestorePlan, now: Mapping[Key, ItemState]) -> None:
        if self._undo is not None:
            for step in plan.steps:
                UndoLog.note(self._undo, now[step.key])

    async def execute(self, plan: RestorePlan, now: Mapping[Key, ItemState]) -> None:
        """Execute the steps by action, in the plan's order; moves and renames may wait for each other."""
        self._log_for_undo(plan, now)
        files = [step for step in plan.of("trash") if step.key[0] != "folder"]
        await self._together(files)
        # Restore folders first: an item that was deleted before its folder needs the folder back.
        for step in plan.of("restore"):
            if step.key[0] == "folder":
                await self._try(step)
        await self._together([step for step in plan.of("restore") if step.key[0] != "folder"])
        await self._together(plan.of("promote"))
        waiting = plan.of("place") + [step for step, _ in self._drain()]
        stuck = await self._place(waiting, now)
        for step in plan.of("trash"):
            if step.key[0] == "folder":
                await self._try(step)
        # The folders trashed just now may have held the names that the remaining steps need.
        self.refused += self._drain() + await self._place([step for step, _ in stuck], now)

    async def _place(
        self, steps: list[RestoreStep], now: Mapping[Key, ItemState]
    ) -> list[tuple[RestoreStep, errors.CmsfsError]]:
        """Execute moves and renames; return those whose names are taken by items that the plan does not
        move."""
        while steps:
            await self._in_turn(steps, now)
            stuck = self._drain()
            if len(stuck) == len(steps):
                return stuck
            steps = [step for step, _ in stuck]
        return []

    async def _in_turn(self, steps: list[RestoreStep], now: Mapping[Key, ItemState]) -> None:
        """Run each step after the one whose item holds its target name, so that a chain of renames needs one
        request a step."""
        holders = {
            _place_key(now[step.key].parent, now[step.key].name): step
            for step in steps
            if step.action == "place" and step.key not in self._away and not now[step.key].is_trashed
        }
        waits: dict[RestoreStep, RestoreStep] = {}
        after: dict[RestoreStep, list[RestoreStep]] = {}
        ready = []
        for step in steps:
            holder = holders.get(_place_key(step.parent, step.name))
            if holder is None or holder.key == step.key:
                ready.append(step)
            else:
                waits[step] = holder
                after.setdefault(holder, []).append(step)
        while ready or after:
            if ready:
                await self._together(ready)
                moved = ready
            else:
                # The remaining steps form a cycle.
                moved = [_step_on_cycle(next(iter(after)), waits)]
                await self._rename_temporarily(moved[0])
            ready = [next_one for step in moved for next_one in after.pop(step, [])]

    async def _rename_temporarily(self, step: RestoreStep) -> None:
        self._away.add(step.key)
        kind, number = step.key
        await self._client.items.update(kind, number, name=f"{step.name} (id {number})")

    def _drain(self) -> list[tuple[RestoreStep, errors.CmsfsError]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    async def _together(self, steps: Sequence[RestoreStep]) -> None:
        limit = trio.CapacityLimiter(AT_ONCE)

        async def one(step: RestoreStep) -> None:
            async with limit:
                await self._try(step)

        async with trio.open_nursery() as nursery:
            for step in steps:
                nursery.start_soon(one, step)

    async def _try(self, step: RestoreStep) -> None:
        try:
            await self._actions[step.action](self, step)
        except errors.Conflict as error:
            self._waiting.append((step, error))
            return
        except (errors.ApiError, errors.NotFound) as error:
            self.refused.append((step, error))
            return
        self.done.append(step)
        self._progress(len(self.done))

    async def _trash(self, step: RestoreStep) -> None:
        kind, number = step.key
        await self._client.items.delete(kind, number, recursive=True)

    async def _restore(self, step: RestoreStep) -> None:
        kind, number = step.key
        await self._client.items.restore(kind, number, name=step.name, parent_id=step.parent)

    async def _promote(self, step: RestoreStep) -> None:
        assert step.version is not None
        _, number = step.key
        try:
            await self._client.versions.promote(number, step.version)
        except errors.NotFound:
            # The version itself is in the trash: restore it first.
            await self._client.versions.restore(number, step.version)
            await self._client.versions.promote(number, step.version)

    async def _move(self, step: RestoreStep) -> None:
        kind, number = step.key
        await self._client.items.update(kind, number, name=step.name, parent_id=step.parent)

    _actions: Mapping[Action, Callable[["PlanExecutor", RestoreStep], Awaitable[None]]] = {
        "trash": _trash,
        "restore": _restore,
        "promote": _promote,
        "place": _move,
    }


def _place_key(parent: str | None, name: str) -> tuple[str | None, str]:
    return parent, wire_names.name_key(name)


def _step_on_cycle(step: RestoreStep, waits: Mapping[RestoreStep, RestoreStep]) -> RestoreStep:
    seen: set[RestoreStep] = set()
    while step not in seen:
        seen.add(step)
        step = waits[step]
    return step


async def undo_plan(client: Client, before: Sequence[ItemState]) -> tuple[RestorePlan, dict[Key, ItemState]]:
    """Return the steps that undo a restore, given the items' states before it; and their current states."""
    found: list[list[RestoreStep]] = [[] for _ in before]
    now: dict[Key, ItemState] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def plan_one(position: int, was: ItemState) -> None:
        async with limit:
            found[position], now[was.key] = await _undo_steps(client, was)

    async with trio.open_nursery() as nursery:
        for position, was in enumerate(before):
            nursery.start_soon(plan_one, position, was)
    return RestorePlan([step for steps in found for step in steps]), now


async def _undo_steps(client: Client, was: ItemState) -> tuple[list[RestoreStep], ItemState]:
    kind, number = was.key
    try:
        item = await client.items.get(kind, number)
    except errors.NotFound:
        if was.is_trashed:
            return [], was
        now = replace(was, is_trashed=True)
        return [RestoreStep("restore", was.key, was.name, was.parent)], now
    version = item.file_version.id if item.type == "file" and item.file_version else None
    parent = item.parent.id if item.parent else None
    now = ItemState(was.key, item.name or "", parent, version=version)
    if was.is_trashed:
        return [RestoreStep("trash", was.key, was.name, was.parent)], now
    steps = []
    if version != was.version and was.version is not None:
        steps.append(RestoreStep("promote", was.key, was.name, version=was.version))
    # After a promotion as well: promoting a version may bring back an older name.
    if (item.name, parent) != (was.name, was.parent) or version != was.version:
        steps.append(RestoreStep("place", was.key, was.name, was.parent))
    return steps, now
