"""Reconstructs items as they were at a moment, from their current state, their versions and the event stream.

Pure functions of `Facts`.  A state that the service reported is used as reported; where no source knows an
attribute, the item shows its current value and lists the attribute in `unsure`.

Rule: nothing is guessed.  An item that may have had another place or name is marked as such.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from cmsfs.models import url_files
from cmsfs.models.content import events

Key = tuple[str, str]  # kind and id

# Events that may change an item's contents; its name or folder; events that create an item.
_CONTENT = frozenset({events.UPLOAD, events.PROMOTE})
_NAME = frozenset({events.RENAME, events.MOVE, events.PROMOTE})
_MADE = frozenset({events.CREATE, events.COPY})


class Unsure(StrEnum):
    """An attribute of a past item that is not known for certain."""

    NAME = "name"
    # Renamed since; the name is that of the version at the moment, perhaps not the last one before it.
    SAVED_NAME = "saved-name"
    PLACE = "place"
    CONTENT = "content"
    # It existed then, but the service no longer has it.
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item's state since `at`; `cause` is the type of the event that reported it, None for the current
    one."""

    key: Key
    name: str
    parent: str | None
    at: datetime | None = None
    created: datetime | None = None
    cause: str | None = None
    version: str | None = None
    sha1: str | None = None
    size: int = 0
    is_trashed: bool = False
    # The modification time of its contents, a web link's target, and the owner's user id.
    mtime: datetime | None = None
    link: url_files.Shortcut | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version of a file, and when it was created."""

    id: str
    made: datetime
    sha1: str
    size: int
    name: str | None = None
    is_trashed: bool = False


@dataclass(slots=True)
class Facts:
    """What is known of the items: their current states, the states that events reported (`reported`, oldest
    first), and their versions.  `reach` is the time of the oldest event: every change since then has an
    event."""

    now: dict[Key, ItemState] = field(default_factory=dict)
    reported: dict[Key, list[ItemState]] = field(default_factory=dict)
    reach: datetime | None = None
    versions: dict[str, list[VersionState]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoricalItem:
    """An item as it was at the moment; `now` is its current state, None if the service no longer has it."""

    state: ItemState
    now: ItemState | None
    unsure: frozenset[Unsure] = frozenset()

    @property
    def key(self) -> Key:
        return self.state.key


def item_at(facts: Facts, key: Key, moment: datetime) -> HistoricalItem | None:
    """Return the item as it was at the moment; None if it did not exist, or was in the trash."""
    now, reported = facts.now.get(key), facts.reported.get(key, [])
    created = _first(one.created for one in [*([now] if now else []), *reversed(reported)])
    if created is not None and created > moment:
        return None
    if now is not None and now.at is not None and now.at <= moment:
        return None if now.is_trashed else HistoricalItem(now, now)
    before = [one for one in reported if one.at is not None and one.at <= moment]
    after = [one for one in reported if one.at is not None and one.at > moment]
    if before:
        found = before[-1]
        if found.is_trashed:
            return None
        unsure = set() if now else {Unsure.GONE}
    else:
        if not _was_there(now, after, moment):
            return None
        found, unsure = _without_events_before(facts, now, after, moment)
    if key[0] == "file":
        found, saved = _with_content(facts, found, now, moment, is_reported=bool(before))
        if Unsure.NAME in unsure and after and after[0].cause == events.RENAME and saved:
            unsure = unsure - {Unsure.NAME} | {Unsure.SAVED_NAME}
            found = replace(found, name=saved)
        if found.version is None and Unsure.GONE not in unsure:
            unsure.add(Unsure.CONTENT)
    return HistoricalItem(found, now, frozenset(unsure))


def files_without_content(facts: Facts, moment: datetime, keys: Iterable[Key]) -> list[Key]:
    """Return the files whose versions must be fetched to know their contents or names at the moment."""
    found = []
    for key in keys:
        if key[0] == "file" and key in facts.now and key[1] not in facts.versions:
            then = item_at(facts, key, moment)
            if then is not None and then.unsure & {Unsure.CONTENT, Unsure.NAME}:
                found.append(key)
    return found


def is_covered(facts: Facts, moment: datetime) -> bool:
    """Whether the event stream covers every change since the moment."""
    return facts.reach is not None and facts.reach <= moment


def is_newer(facts: Facts, key: Key, moment: datetime) -> bool:
    """Whether the events show that a file's current contents are from after the moment."""
    since = (one for one in facts.reported.get(key, []) if one.at is not None and one.at > moment)
    return is_covered(facts, moment) and any(one.cause in _CONTENT for one in since)


def tree_at(facts: Facts, folder: str, moment: datetime) -> dict[Key, HistoricalItem]:
    """Return everything that was below a folder at the moment, each folder before its children."""
    below: dict[str | None, list[HistoricalItem]] = {}
    for key in {*facts.now, *facts.reported}:
        if (then := item_at(facts, key, moment)) is not None:
            below.setdefault(then.state.parent, []).append(then)
    found: dict[Key, HistoricalItem] = {}
    folders = [folder]
    for parent in folders:
        for then in sorted(below.get(parent, []), key=lambda one: (one.state.name, one.key)):
            if then.key not in found and then.key != ("folder", folder):
                found[then.key] = then
                if then.key[0] == "folder":
                    folders.append(then.key[1])
    return found


def paths(tree: Mapping[Key, HistoricalItem], folder: str) -> dict[Key, str]:
    """Return the path of each item of `tree_at`, relative to the folder."""
    known = {folder: ""}
    found = {}
    for key, then in tree.items():
        found[key] = known[then.state.parent or ""] + then.state.name
        if key[0] == "folder":
            known[key[1]] = found[key] + "/"
    return found


def present_paths(present: Mapping[Key, ItemState], folder: str) -> dict[Key, str]:
    """Return the path of each of these items relative to the folder, which they are below now."""
    found: dict[Key, str] = {("folder", folder): ""}

    def path(key: Key) -> str:
        if key not in found:
            state = present[key]
            above = path(("folder", state.parent or ""))
            found[key] = f"{above}/{state.name}" if above else state.name
        return found[key]

    return {key: path(key) for key in present}


def trashed_root(
    reported: Mapping[Key, list[ItemState]], trash: Mapping[Key, ItemState], key: Key
) -> ItemState | None:
    """Return the item of the trash that an item is, or was trashed with, by its last reported parent."""
    seen: set[Key] = set()
    while key not in seen:
        seen.add(key)
        if (found := trash.get(key)) is not None:
            return found
        if not (states := reported.get(key)) or states[-1].parent is None:
            return None
        key = ("folder", states[-1].parent)
    return None


def _was_there(now: ItemState | None, after: list[ItemState], moment: datetime) -> bool:
    """Whether an item without an event before the moment existed at the moment."""
    if after:
        # If the first event since restored or created the item, it was not there before.
        return after[0].cause not in {events.RESTORE, *_MADE} and after[0].created is not None
    return now is not None


def _without_events_before(
    facts: Facts, now: ItemState | None, after: list[ItemState], moment: datetime
) -> tuple[ItemState, set[Unsure]]:
    unsure: set[Unsure] = set()
    if not after:
        assert now is not None
        found = replace(now, is_trashed=False)
        if not is_covered(facts, moment):
            unsure |= {Unsure.NAME, Unsure.PLACE}
        return found, unsure
    # The first event since reports the earlier state, except for what that event itself changed.
    found = replace(after[0], is_trashed=False)
    if after[0].cause in _NAME:
        unsure.add(Unsure.NAME)
    if after[0].cause == events.MOVE:
        unsure.add(Unsure.PLACE)
    if not is_covered(facts, moment):
        # There may have been changes before the oldest event that the service keeps.
        unsure |= {Unsure.NAME, Unsure.PLACE}
    if now is None:
        unsure.add(Unsure.GONE)
    return found, unsure


def _with_content(
    facts: Facts, found: ItemState, now: ItemState | None, moment: datetime, *, is_reported: bool
) -> tuple[ItemState, str | None]:
    """Return the state with the version that was current at the moment (None if unknown), and the name that
    the version was saved under."""
    if is_reported and found.version is not None:
        return found, None
    if (known := facts.versions.get(found.key[1])) is not None:
        made = [one for one in known if one.made <= moment]
        if not made:
            return replace(found, version=None, sha1=None, size=0), None
        best = max(made, key=lambda one: one.made)
        if best.id != found.version:
            # A version's creation time is the only time that is known of its contents.
            found = replace(found, version=best.id, sha1=best.sha1, size=best.size, mtime=best.made)
        return found, best.name
    if now is not None and is_covered(facts, moment) and not is_newer(facts, found.key, moment):
        return replace(found, version=now.version, sha1=now.sha1, size=now.size), None
    return replace(found, version=None, sha1=None, size=0), None


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return next((one for one in moments if one is not None), None)
