"""Events: what happened to the items of a user, in order, and where to wait for the next one.

A position stands between two events; the numbers have no other meaning.  Events may come twice: they are
told apart by `event_id`, and an old one by its source's `sequence_id`.

Rule: the position is a number when it is written; numbers and text are both read.
"""

from typing import Any, Final

import pydantic

from cmsfs.models import items
from cmsfs.models.base import Model, Timestamp, UserMini

CREATE: Final = "ITEM_CREATE"  # a folder, a web link
UPLOAD: Final = "ITEM_UPLOAD"  # a new file, a new version
COPY: Final = "ITEM_COPY"
MOVE: Final = "ITEM_MOVE"  # perhaps under another name
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
COLLAB_INVITE: Final = "COLLAB_INVITE_COLLABORATOR"  # it is for the invited to say whether it begins
COLLAB_ADD: Final = "COLLAB_ADD_COLLABORATOR"
COLLAB_REMOVE: Final = "COLLAB_REMOVE_COLLABORATOR"
COLLAB_ROLE: Final = "COLLAB_ROLE_CHANGE"
COMMENT: Final = "COMMENT_CREATE"
UNCOMMENT: Final = "COMMENT_DELETE"

# What may change a tree: the stream `changes`.
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
        """The source, if it is an item that we know."""
        try:
            return items.parse_item(self.source or {})
        except pydantic.ValidationError:
            return None


class Page(Model):
    """The next events after a position; none means that there are no more for now."""

    chunk_size: int = 0
    next_stream_position: Position
    entries: list[Event] = pydantic.Field(default_factory=list)


class RealtimeServer(Model):
    """Where to wait for something new."""

    type: str = "realtime_server"
    url: str
    ttl: str | None = None
    max_retries: str | None = None
    retry_timeout: float = 610  # seconds of silence after which the connection is dead


class RealtimeServers(Model):
    chunk_size: int = 0
    entries: list[RealtimeServer] = pydantic.Field(default_factory=list)


class Notice(Model):
    """What the waiting ends with: `new_change` or `reconnect`."""

    message: str
