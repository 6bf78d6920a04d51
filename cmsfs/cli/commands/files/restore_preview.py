"""What `cmsfs restore` shows before it changes anything: each change, what is not known, and how many."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cmsfs import output
from cmsfs.client.history import as_of, gathering, restore_plan

# Changes shown before the question; `--dry-run` shows all.
_SHOWN = 20
_SAYS = {
    "trash": "to the trash",
    "restore": "from the trash",
    "promote": "contents",
    "place": "name and place",
}


@dataclass(frozen=True, slots=True)
class ItemPaths:
    """The paths that items had then and have now, and when their contents of then were saved."""

    then: Mapping[as_of.Key, str] = field(default_factory=dict)
    now: Mapping[as_of.Key, str] = field(default_factory=dict)
    saved: Mapping[as_of.Key, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, past: gathering.PastOfFolder, above: str) -> "ItemPaths":
        """Return those of the items of a folder with this path."""
        then = as_of.paths(past.then, past.folder)
        now = as_of.present_paths(past.present, past.folder)
        return cls(
            then={key: f"{above}/{path}" for key, path in then.items()},
            now={key: f"{above}/{path}" for key, path in now.items()},
            saved={key: one.state.mtime for key, one in past.then.items() if one.state.mtime is not None},
        )

    def of_step(self, step: restore_plan.RestoreStep) -> str:
        """Return the path that a step is about: of what is new since the one that it has now."""
        known = self.now if step.action == "trash" else self.then
        return known.get(step.key, step.name)


def show(plan: restore_plan.RestorePlan, paths: ItemPaths, *, as_json: bool, is_all: bool) -> None:
    """Print the steps of a plan and what is not known; a summary on standard error."""
    if as_json:
        unknown = [
            {"path": paths.then.get(key, name), "id": key[1], "reason": why}
            for key, name, why in plan.unknown
        ]
        output.document({"steps": [step_as_json(step, paths) for step in plan.steps], "unknown": unknown})
        return
    if not plan.steps:
        output.say("Nothing is to be changed.")
    lines = [[_SAYS[step.action], paths.of_step(step), _remark(step, paths)] for step in plan.steps]
    _table(lines, is_all=is_all)
    if plan.unknown:
        output.note(f"{output.plural(len({key for key, _, _ in plan.unknown}), 'item')} not known in full:")
        _table([[paths.then.get(key, name), why] for key, name, why in plan.unknown], is_all=is_all)
    if plan.steps:
        counts = Counter(_SAYS[step.action] for step in plan.steps)
        told = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        output.note(f"{output.plural(len(plan.steps), 'change')}: {told}.")


def step_as_json(step: restore_plan.RestoreStep, paths: ItemPaths) -> dict[str, str | None]:
    """Return a step for `--json`; `now` is the present path of what is moved or renamed back."""
    kind, number = step.key
    now = {"now": paths.now.get(step.key)} if step.action == "place" else {}
    said = {"action": step.action, "type": kind, "id": number, "path": paths.of_step(step)}
    return {**said, **now, "version": step.version}


def _remark(step: restore_plan.RestoreStep, paths: ItemPaths) -> str:
    match step.action:
        case "trash" if step.key in paths.now:
            return "new since then" + (", with what is in it" if step.key[0] == "folder" else "")
        case "promote" if (saved := paths.saved.get(step.key)) is not None:
            return f"as saved at {saved.astimezone():%Y-%m-%d %H:%M:%S}"
        case "place" if step.key in paths.then:
            return f"now {paths.now.get(step.key, 'in another folder')}"
        case "place" if (now := paths.now.get(step.key)) is not None:
            return f"now {now}; back to where it was then"
    return ""


def _table(lines: list[list[str]], *, is_all: bool) -> None:
    most = None if is_all else _SHOWN
    output.table(lines[:most])
    if most is not None and len(lines) > most:
        output.note(f"and {len(lines) - most:,} more")
