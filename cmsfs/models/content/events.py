"""Events: the ordered stream of changes to a user's items, and the long-poll server.

A stream position is between two events and is otherwise opaque.  Events may be delivered twice: duplicates
have the same `event_id`, and an outdated one has an older `sequence_id` in its source.

Rule: positions are written as numbers; both numbers and text are read.
"""

import json
from typing import Any, Final, Self

import pydantic
import pydantic_core

from cmsfs.models.base import Model, Timestamp, UserMini
from cmsfs.models.content import items

CREATE: Final = "ITEM_CREATE"  # a folder, a web link
UPLOAD: Final = "ITEM_UPLOAD"  # a new file, a new version
COPY: Final = "ITEM_COPY"
MOVE: Final = "ITEM_MOVE"  # possibly with a new name
RENAME: Final = "ITEM_RENAME"
MODIFY: Final = "ITEM_MODIFY"
TRASH: Final = "ITEM_TRASH"
RESTORE: Final = "ITEM_UNDELETE_VIA_TRASH"
PROMOTE: Final = "ITEM_MAKE_CURRENT_VERSION"
LOCK: Final = "LOCK_CREATE"
UNLOCK: Final = "LOCK_DESTROY"
SHARE: Final = "ITEM_SHARED_CREATE"
UNSHARE: Final = "ITEM_SHARED_UNSHARE"
SHARE_UPDATE: Final = "ITEM_SHARED_UPDATE"
COLLAB_INVITE: Final = "COLLAB_INVITE_COLLABORATOR"  # pending until the invited user accepts
COLLAB_ADD: Final = "COLLAB_ADD_COLLABORATOR"
COLLAB_REMOVE: Final = "COLLAB_REMOVE_COLLABORATOR"
COLLAB_ROLE: Final = "COLLAB_ROLE_CHANGE"
COMMENT: Final = "COMMENT_CREATE"
UNCOMMENT: Final = "COMMENT_DELETE"
TASK: Final = "TASK_CREATE"
TASK_UPDATE: Final = "TASK_UPDATE"
TASK_ASSIGNED: Final = "TASK_ASSIGNMENT_CREATE"
TASK_ASSIGNMENT_UPDATE: Final = "TASK_ASSIGNMENT_UPDATE"
TASK_ASSIGNMENT_DELETE: Final = "TASK_ASSIGNMENT_DELETE"

# Events that may change a tree: the stream `changes`.
TREE: Final = frozenset(
    {CREATE, UPLOAD, COPY, MOVE, RENAME, MODIFY, TRASH, RESTORE, PROMOTE, LOCK, UNLOCK}
    | {COLLAB_INVITE, COLLAB_ADD, COLLAB_REMOVE, COLLAB_ROLE}
)

NEW_CHANGE: Final = "new_change"
RECONNECT: Final = "reconnect"

Position = int | str


class Event(Model):
    type: str = "event"
    event_id: str
    event_type: str | None = None
    created_at: Timestamp | None = None
    recorded_at: Timestamp | None = None
    created_by: UserMini | None = None
    session_id: str | None = None
    source: dict[str, Any] | None = None  # the item as it was after the event
    additional_details: dict[str, Any] | None = None

    def item(self) -> items.File | items.Folder | items.WebLink | None:
        """Return the source as an item; None if it is not a valid one."""
        try:
            return items.parse_item(self.source or {})
        except pydantic.ValidationError:
            return None


class EventPage(Model):
    """The next events after a position; an empty page means that there are no more for now."""

    chunk_size: int = 0
    next_stream_position: Position
    entries: list[Event] = pydantic.Field(default_factory=list)

    @classmethod
    def salvaged(cls, content: bytes) -> Self:
        """Parse a page that contains invalid events: of these, keep only which item they are about.

        Raises `ValueError` if the content is not a page of events.
        """
        said = json.loads(content)
        if not isinstance(said, dict) or not isinstance(said.get("entries"), list):
            raise ValueError("there are no entries")
        events = [_salvaged(one) for one in said["entries"]]
        return cls.model_validate({**said, "entries": [one for one in events if one is not None]})


def _salvaged(said: Any) -> Event | None:
    try:
        event = Event.model_validate(said)
        pydantic_core.to_json(said)  # raises for text that is not valid Unicode
        return event
    except ValueError:
        pass
    source = said.get("source") if isinstance(said, dict) else None
    if not isinstance(source, dict):
        return None
    about = {key: source.get(key) for key in ("type", "id", "item_type", "item_id")}
    if not all(
        value is None or (isinstance(value, str | int) and str(value).isascii()) for value in about.values()
    ):
        return None
    # For events of this type, the client requests the current item from the service.
    return Event(event_id=f"not understood: {about}", event_type=MODIFY, source=about)


class RealtimeServer(Model):
    """The server for long polls."""

    type: str = "realtime_server"
    url: str
    ttl: str | None = None
    max_retries: str | None = None
    retry_timeout: float = 610  # seconds of silence after which the connection is dead


class RealtimeServers(Model):
    chunk_size: int = 0
    entries: list[RealtimeServer] = pydantic.Field(default_factory=list)


class RealtimeNotice(Model):
    """The result of a long poll: `new_change` or `reconnect`."""

    message: str
