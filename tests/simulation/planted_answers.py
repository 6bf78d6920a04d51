"""Bugs for `planted` in the handling of wrong responses."""

from collections.abc import Callable
from typing import Any

from cmsfs.cache import block_writer, pass_through
from cmsfs.models.content.events import EventPage

Put = Callable[[Any, str, Any], None]


def damaged_download_shown(put: Put) -> None:
    """Downloaded bytes are not checked against the file's SHA-1."""
    judge = block_writer.BlockWriter._judge

    def believe(self: Any, content: Any, first: int, last: int, actual: str) -> None:
        judge(self, content, first, last, content.sha1)

    put(block_writer.BlockWriter, "_judge", believe)
    put(pass_through.PassThrough, "_follow", lambda self, sha1, size: None)


def odd_event_ends_its_page(put: Put) -> None:
    """A page of events with a malformed entry is skipped."""
    salvaged = EventPage.salvaged.__func__  # type: ignore[attr-defined]

    def nothing(cls: type[EventPage], content: bytes) -> EventPage:
        page: EventPage = salvaged(cls, content)
        return page.model_copy(update={"entries": []})

    put(EventPage, "salvaged", classmethod(nothing))
