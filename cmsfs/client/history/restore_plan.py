"""What brings a folder back to what it was: the steps, out of how it was and how it is.

Pure.  What is not known stays as it is and is listed with the reason.

Rule: nothing is removed for good; what is new goes to the trash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cmsfs.client.history.as_of import ItemState, ItemThen, Key, Unsure

Action = Literal["trash", "restore", "promote", "place"]

# In this order: names get free before they are taken, and a folder goes when what it held is out of it.
ORDER: tuple[Action, ...] = ("trash", "restore", "promote", "place")

_WHY = {
    Unsure.NAME: "what it was called is not known",
    Unsure.SAVED_NAME: "it gets the name that its contents were saved by",
    Unsure.PLACE: "where it was is not known",
    Unsure.CONTENT: "what it said is not known",
    Unsure.GONE: "the service does not have it any more",
}


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """One change; `name` and `parent` are where the item is to be, `version` what it is to say."""

    action: Action
    key: Key
    name: str
    parent: str | None = None
    version: str | None = None


@dataclass(slots=True)
class RestorePlan:
    """The steps in their order, and the items of which something cannot be known, each with the reason."""

    steps: list[RestoreStep] = field(default_factory=list)
    unknown: list[tuple[Key, str, str]] = field(default_factory=list)

    def of(self, action: Action) -> list[RestoreStep]:
        return [step for step in self.steps if step.action == action]


def make_plan(
    then: Mapping[Key, ItemThen], present: Mapping[Key, ItemState], elsewhere: Mapping[Key, ItemThen]
) -> RestorePlan:
    """What makes of `present`, what is below the folder now, what was there `then` (a folder before what was
    in it).  `elsewhere`: what of `present` was at that time in another place."""
    plan = RestorePlan()
    for key, one in then.items():
        state, now = one.state, one.now
        for reason in sorted(one.unsure):
            plan.unknown.append((key, state.name, _WHY[reason]))
        if now is None:
            continue
        if now.is_trashed:
            plan.steps.append(RestoreStep("restore", key, state.name, state.parent))
        name = now.name if Unsure.NAME in one.unsure else state.name
        parent = now.parent if Unsure.PLACE in one.unsure else state.parent
        if (name, parent) != (now.name, now.parent):
            plan.steps.append(RestoreStep("place", key, name, parent))
        if key[0] == "file" and state.version is not None and state.sha1 != now.sha1:
            plan.steps.append(RestoreStep("promote", key, state.name, version=state.version))
    plan.steps += _new({key: one for key, one in present.items() if key not in then}, elsewhere)
    plan.steps.sort(key=_rank)
    return plan


def folder_plan(then: ItemThen, in_the_way: Key | None) -> RestorePlan:
    """What brings a folder itself back to where it was, with what is in it; `in_the_way` is new there."""
    state, now = then.state, then.now
    assert now is not None
    action: Action = "restore" if now.is_trashed else "place"
    steps = [RestoreStep(action, then.key, state.name, state.parent)]
    if in_the_way is not None:
        steps.insert(0, RestoreStep("trash", in_the_way, state.name, state.parent))
    return RestorePlan(steps)


def _new(others: Mapping[Key, ItemState], elsewhere: Mapping[Key, ItemThen]) -> list[RestoreStep]:
    """What came in goes back to where it was, what is new to the trash, with what is in it."""
    new = {key for key in others if key not in elsewhere}
    steps = []
    for key, state in others.items():
        if key in new:
            if ("folder", state.parent or "") not in new:
                steps.append(RestoreStep("trash", key, state.name, state.parent))
            continue
        was = elsewhere[key].state
        if (was.name, was.parent) != (state.name, state.parent):
            steps.append(RestoreStep("place", key, was.name, was.parent))
    return steps


def _rank(step: RestoreStep) -> int:
    # New files free their names at once, new folders may hold what is to be moved out of them.
    if step.action == "trash" and step.key[0] == "folder":
        return len(ORDER)
    return ORDER.index(step.action)
