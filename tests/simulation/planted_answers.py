"""Bugs for `planted` in what the product does about answers that are wrong."""

from collections.abc import Callable
from typing import Any

from cmsfs.cache import block_writer, pass_through
from cmsfs.models.content.events import EventPage

Put = Callable[[Any, str, Any], None]


def damaged_download_shown(put: Put) -> None:
    """Bytes that came are not compared with what the file is."""
    judge = block_writer.BlockWriter._judge

    def believe(self: Any, content: Any, first: int, last: int, actual: str) -> None:
        judge(self, content, first, last, content.sha1)

    put(block_writer.BlockWriter, "_judge", believe)
    put(pass_through.PassThrough, "_follow", lambda self, sha1, size: None)


def odd_event_ends_its_page(put: Put) -> None:
    """A page with an entry that cannot be read is passed over."""
    salvaged = EventPage.salvaged.__func__  # type: ignore[attr-defined]

    def nothing(cls: type[EventPage], content: bytes) -> EventPage:
        page: EventPage = salvaged(cls, content)
        return page.model_copy(update={"entries": []})

    put(EventPage, "salvaged", classmethod(nothing))
