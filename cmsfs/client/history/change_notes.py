"""Describes events for people: who did what to which item, and when.

Rule: the wording is ours; an event of an unknown type is described by its type's name.
"""

from dataclasses import dataclass
from datetime import datetime

from cmsfs.client import remote_paths
from cmsfs.models.content import events, items

# The source of a collaboration event is not an item.
DONE = {
    events.CREATE: "created",
    events.UPLOAD: "uploaded",
    events.COPY: "copied here",
    events.MOVE: "moved here",
    events.RENAME: "renamed",
    events.MODIFY: "changed its properties",
    events.TRASH: "deleted",
    events.RESTORE: "restored from the trash",
    events.PROMOTE: "restored an older version",
    events.LOCK: "locked",
    events.UNLOCK: "unlocked",
    events.SHARE: "shared by a link",
    events.UNSHARE: "removed the shared link",
    events.SHARE_UPDATE: "changed the shared link",
    events.COLLAB_INVITE: "invited somebody",
    events.COLLAB_ADD: "shared with somebody",
    events.COLLAB_REMOVE: "ended a collaboration",
    events.COLLAB_ROLE: "changed a role",
    events.COMMENT: "commented",
    events.UNCOMMENT: "removed a comment",
    events.TASK: "made a task",
    events.TASK_UPDATE: "changed a task",
    events.TASK_ASSIGNED: "assigned a task",
    events.TASK_ASSIGNMENT_UPDATE: "answered a task",
    events.TASK_ASSIGNMENT_DELETE: "took a task back",
}
_MOVED_AWAY = "moved away"


def action_of(event: events.Event) -> str:
    """Return what was done, in words."""
    word = event.event_type or ""
    return DONE.get(word, word.lower().replace("_", " "))


def author_of(event: events.Event) -> str:
    """Return who did it; "" if the event does not say."""
    by = event.created_by
    return (by.name or by.login or by.id) if by else ""


@dataclass(frozen=True, slots=True)
class ChangeNote:
    """One change; `path` is the item's path after it, as far as the service reports that."""

    at: datetime | None
    by: str
    done: str
    path: str
    event: str
    item_id: str

    def as_json(self) -> dict[str, str | None]:
        return {
            "at": self.at.isoformat() if self.at else None,
            "by": self.by,
            "event": self.event,
            "done": self.done,
            "path": self.path,
            "id": self.item_id,
        }

    def row(self) -> list[str]:
        when = f"{self.at.astimezone():%Y-%m-%d %H:%M}" if self.at else ""
        return [when, self.by, self.done, self.path]


class ChangeNotes:
    """Filters a stream of events for those about one item, or, for a folder, about anything in it.

    Events must be passed in order: an item that leaves the folder is recognized by earlier events in it.
    """

    def __init__(self, item: remote_paths.Found) -> None:
        self._id = item.id
        self._type = item.type
        self._is_all = item.id == remote_paths.ROOT_ID
        self._within: set[tuple[str, str]] = set()

    def of(self, event: events.Event) -> ChangeNote | None:
        """Return the change that the event describes; None if it is about something else."""
        item = event.item()
        if item is None:
            return None
        key = item.type, item.id
        is_here = self._is_all or key == (self._type, self._id) or self._is_below(item)
        if not is_here and key not in self._within:
            return None
        (self._within.add if is_here else self._within.discard)(key)
        word = event.event_type or ""
        return ChangeNote(
            at=event.created_at,
            by=author_of(event),
            done=action_of(event) if is_here else _MOVED_AWAY,
            path=remote_paths.path_of(item) if item.path_collection else item.name or item.id,
            event=word,
            item_id=item.id,
        )

    def _is_below(self, item: items.File | items.Folder | items.WebLink) -> bool:
        if self._type != "folder":
            return False
        above = item.path_collection.entries if item.path_collection else []
        return self._id in {folder.id for folder in above} or (
            item.parent is not None and item.parent.id == self._id
        )
