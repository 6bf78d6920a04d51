"""Plans the restore of a folder: computes the steps from its past and current state.

Pure.  What is not known stays unchanged and is listed with the reason.

Rule: nothing is permanently deleted; new items go to the trash.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from cmsfs.client.history.as_of import HistoricalItem, ItemState, Key, Unsure

Action = Literal["trash", "restore", "promote", "place"]

# In this order, names are freed before they are reused, and a folder is trashed after items were moved out of
# it.
ORDER: tuple[Action, ...] = ("trash", "restore", "promote", "place")

_WHY = {
    Unsure.NAME: "what it was called is not known",
    Unsure.SAVED_NAME: "it gets the name that its contents were saved by",
    Unsure.PLACE: "where it was is not known",
    Unsure.CONTENT: "what it said is not known",
    Unsure.GONE: "the service does not have it any more",
}
_WITH_FOLDER = "it comes back out of the trash with its folder"


@dataclass(frozen=True, slots=True)
class RestoreStep:
    """One change; `name` and `parent` are the target place, `version` the target contents."""

    action: Action
    key: Key
    name: str
    parent: str | None = None
    version: str | None = None


@dataclass(slots=True)
class RestorePlan:
    """The steps in order, and the items with unknown attributes: key, name and reason."""

    steps: list[RestoreStep] = field(default_factory=list)
    unknown: list[tuple[Key, str, str]] = field(default_factory=list)

    def of(self, action: Action) -> list[RestoreStep]:
        return [step for step in self.steps if step.action == action]


def make_plan(
    then: Mapping[Key, HistoricalItem],
    present: Mapping[Key, ItemState],
    elsewhere: Mapping[Key, HistoricalItem],
    trashed_with_folder: Collection[Key] = (),
) -> RestorePlan:
    """Return the steps from `present`, the current items below the folder, to `then`, the past ones (each
    folder before its children).  `elsewhere`: items of `present` that were in another place then.
    `trashed_with_folder`: items that the service does not show until their folder is restored."""
    plan = RestorePlan()
    for key, one in then.items():
        state, now = one.state, one.now
        for reason in sorted(one.unsure):
            is_inside = reason is Unsure.GONE and key in trashed_with_folder
            plan.unknown.append((key, state.name, _WITH_FOLDER if is_inside else _WHY[reason]))
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
    plan.steps += _remove_added({key: one for key, one in present.items() if key not in then}, elsewhere)
    plan.steps.sort(key=_rank)
    return plan


def folder_plan(then: HistoricalItem, in_the_way: Key | None) -> RestorePlan:
    """Return the steps that move a folder itself back, with its contents; `in_the_way` is a new item there,
    which is trashed."""
    state, now = then.state, then.now
    assert now is not None
    action: Action = "restore" if now.is_trashed else "place"
    steps = [RestoreStep(action, then.key, state.name, state.parent)]
    if in_the_way is not None:
        steps.insert(0, RestoreStep("trash", in_the_way, state.name, state.parent))
    return RestorePlan(steps)


def _remove_added(
    others: Mapping[Key, ItemState], elsewhere: Mapping[Key, HistoricalItem]
) -> list[RestoreStep]:
    """Return the steps that move items back that came from elsewhere, and trash new ones with their
    contents."""
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
    # New files are trashed first to free their names; new folders last, as items may have to move out of
    # them.
    if step.action == "trash" and step.key[0] == "folder":
        return len(ORDER)
    return ORDER.index(step.action)
