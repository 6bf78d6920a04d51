"""Comments, and the request bodies for comments and for watermarks of files and folders.

Rule: `tagged_message` names people as `@[id:name]`; in `message` they are `@name`.
"""

import re
from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, Timestamp, UpdateBody, UserMini

MAX_MESSAGE = 10_000

# The maximum lengths of ids and names; they bound the cost of text that only looks like a mention.
_PERSON = re.compile(r"@\[\d{1,20}:([^\]]{0,255})\]", re.ASCII)

Message = Annotated[str, pydantic.Field(min_length=1, max_length=MAX_MESSAGE)]


class Comment(Model):
    type: str = "comment"
    id: str
    is_reply_comment: bool | None = None
    message: str | None = None
    tagged_message: str | None = None
    created_by: UserMini | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    item: dict[str, Any] | None = None


class Comments(Model):
    """A page of the comments on a file."""

    total_count: int = 0
    limit: int = 0
    offset: int = 0
    entries: list[Comment] = pydantic.Field(default_factory=list)


class CommentTarget(Model):
    """What a comment is on; a comment on a comment is a reply."""

    type: Literal["file", "comment"]
    id: str


class NewComment(Model):
    item: CommentTarget
    message: Message | None = None
    tagged_message: Message | None = None


class UpdateComment(UpdateBody):
    message: Message | None = None
    tagged_message: Message | None = None


def untagged(message: str) -> str:
    """Return a message with mentions replaced by plain names."""
    return _PERSON.sub(r"@\1", message)
