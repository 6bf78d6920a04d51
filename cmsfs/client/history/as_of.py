"""How items were at a moment, out of what the service says of them now, of their past and of its events.

Pure: whoever has the facts gets the tree.  A state that the service told is taken as it is; what nothing
tells is named in `unsure`, and then the item is shown as it is now.

Rule: nothing is guessed.  An item that may have been elsewhere, or called otherwise, says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from cmsfs.models import url_files
from cmsfs.models.content import events

Key = tuple[str, str]  # kind and id

# After these, an item's bytes may be others; after those, its name or its folder.
_CONTENT = frozenset({events.UPLOAD, events.PROMOTE})
_NAME = frozenset({events.RENAME, events.MOVE, events.PROMOTE})
_MADE = frozenset({events.CREATE, events.COPY})


class Unsure(StrEnum):
    """What cannot be known of an item as it was."""

    NAME = "name"
    # It was renamed since; this is the name that its contents were saved by, perhaps not the last before.
    SAVED_NAME = "saved-name"
    PLACE = "place"
    CONTENT = "content"
    # It was there, and the service does not have it any more.
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item as it was from `at` on; `cause` is the event that told, None: as it is now."""

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
    # What its contents say of when they were made, what a web link said, and whose it is.
    mtime: datetime | None = None
    link: url_files.Shortcut | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version of a file, and when it was made."""

    id: str
    made: datetime
    sha1: str
    size: int
    name: str | None = None
    is_trashed: bool = False


@dataclass(slots=True)
class Facts:
    """What is known; `reach` is the time of the oldest event: from then on every change has one."""

    now: dict[Key, ItemState] = field(default_factory=dict)
    told: dict[Key, list[ItemState]] = field(default_factory=dict)
    reach: datetime | None = None
    versions: dict[str, list[VersionState]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemThen:
    """An item as it was at the moment; `now` is what it is, None if the service does not have it any more."""

    state: ItemState
    now: ItemState | None
    unsure: frozenset[Unsure] = frozenset()

    @property
    def key(self) -> Key:
        return self.state.key


def item_then(facts: Facts, key: Key, moment: datetime) -> ItemThen | None:
    """The item as it was at the moment; None if it was not there."""
    now, told = facts.now.get(key), facts.told.get(key, [])
    created = _first(one.created for one in [*([now] if now else []), *reversed(told)])
    if created is not None and created > moment:
        return None
    if now is not None and now.at is not None and now.at <= moment:
        return None if now.is_trashed else ItemThen(now, now)
    before = [one for one in told if one.at is not None and one.at <= moment]
    after = [one for one in told if one.at is not None and one.at > moment]
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
        found, saved = _with_content(facts, found, now, moment, is_told=bool(before))
        if Unsure.NAME in unsure and after and after[0].cause == events.RENAME and saved:
            unsure = unsure - {Unsure.NAME} | {Unsure.SAVED_NAME}
            found = replace(found, name=saved)
        if found.version is None and Unsure.GONE not in unsure:
            unsure.add(Unsure.CONTENT)
    return ItemThen(found, now, frozenset(unsure))


def files_without_content(facts: Facts, moment: datetime, keys: Iterable[Key]) -> list[Key]:
    """Those of the items whose versions have to be asked for, to know what they said at the moment."""
    found = []
    for key in keys:
        if key[0] == "file" and key in facts.now and key[1] not in facts.versions:
            then = item_then(facts, key, moment)
            if then is not None and then.unsure & {Unsure.CONTENT, Unsure.NAME}:
                found.append(key)
    return found


def is_covered(facts: Facts, moment: datetime) -> bool:
    """Whether every change since the moment has its event."""
    return facts.reach is not None and facts.reach <= moment


def is_newer(facts: Facts, key: Key, moment: datetime) -> bool:
    """Whether events tell that the current contents of a file were made after the moment."""
    since = (one for one in facts.told.get(key, []) if one.at is not None and one.at > moment)
    return is_covered(facts, moment) and any(one.cause in _CONTENT for one in since)


def tree_then(facts: Facts, folder: str, moment: datetime) -> dict[Key, ItemThen]:
    """Everything that was below a folder at the moment, a folder before what was in it."""
    below: dict[str | None, list[ItemThen]] = {}
    for key in {*facts.now, *facts.told}:
        if (then := item_then(facts, key, moment)) is not None:
            below.setdefault(then.state.parent, []).append(then)
    found: dict[Key, ItemThen] = {}
    folders = [folder]
    for parent in folders:
        for then in sorted(below.get(parent, []), key=lambda one: (one.state.name, one.key)):
            if then.key not in found and then.key != ("folder", folder):
                found[then.key] = then
                if then.key[0] == "folder":
                    folders.append(then.key[1])
    return found


def paths(tree: Mapping[Key, ItemThen], folder: str) -> dict[Key, str]:
    """The path of each item of `tree_then` below the folder."""
    known = {folder: ""}
    found = {}
    for key, then in tree.items():
        found[key] = known[then.state.parent or ""] + then.state.name
        if key[0] == "folder":
            known[key[1]] = found[key] + "/"
    return found


def _was_there(now: ItemState | None, after: list[ItemState], moment: datetime) -> bool:
    """Whether an item that no event tells of before the moment was there."""
    if after:
        # What came out of the trash, or was made, was not.
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
    # The first event of it since tells how it was but for what the event itself changed.
    found = replace(after[0], is_trashed=False)
    if after[0].cause in _NAME:
        unsure.add(Unsure.NAME)
    if after[0].cause == events.MOVE:
        unsure.add(Unsure.PLACE)
    if not is_covered(facts, moment):
        # Something may have happened to it before the oldest event that is kept.
        unsure |= {Unsure.NAME, Unsure.PLACE}
    if now is None:
        unsure.add(Unsure.GONE)
    return found, unsure


def _with_content(
    facts: Facts, found: ItemState, now: ItemState | None, moment: datetime, *, is_told: bool
) -> tuple[ItemState, str | None]:
    """The state with the version of the moment, None where not known; and the name it was saved by."""
    if is_told and found.version is not None:
        return found, None
    if (known := facts.versions.get(found.key[1])) is not None:
        made = [one for one in known if one.made <= moment]
        if not made:
            return replace(found, version=None, sha1=None, size=0), None
        best = max(made, key=lambda one: one.made)
        if best.id != found.version:
            # When these contents were made is all that a version tells of its times.
            found = replace(found, version=best.id, sha1=best.sha1, size=best.size, mtime=best.made)
        return found, best.name
    if now is not None and is_covered(facts, moment) and not is_newer(facts, found.key, moment):
        return replace(found, version=now.version, sha1=now.sha1, size=now.size), None
    return replace(found, version=None, sha1=None, size=0), None


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return next((one for one in moments if one is not None), None)
