"""Bugs for `planted` in what files' contents are taken for."""

import contextvars
from collections.abc import Callable
from typing import Any

from cmsfs.cache.blocks import BLOCK
from cmsfs.client.content.files import FilesApi
from cmsfs.journal import early_hashes
from daemon.fetch.block_download import BlockDownloader

Put = Callable[[Any, str, Any], None]


def wrong_range_resumed(put: Put) -> None:
    """A resumed download requests a range one block too early."""
    attempt, content = BlockDownloader._attempt, FilesApi.content
    begun: dict[int, int] = {}
    behind: contextvars.ContextVar[int] = contextvars.ContextVar("behind", default=0)

    async def again(self: Any, run: Any, room: Any) -> None:
        is_resumed = run.first > begun.setdefault(id(run), run.first)
        token = behind.set(BLOCK if is_resumed else 0)
        try:
            await attempt(self, run, room)
            begun.pop(id(run))
        finally:
            behind.reset(token)

    def elsewhere(self: Any, file_id: str, *, first: int = 0, last: Any = None, version: Any = None) -> Any:
        by = behind.get()
        return content(self, file_id, first=first - by, last=last and last - by, version=version)

    put(BlockDownloader, "_attempt", again)
    put(FilesApi, "content", elsewhere)


def early_hash_taken_for_later(put: Put) -> None:
    """The hash of a draft counts for what is written to it afterwards, too."""
    put(early_hashes, "_is_of", lambda run, draft, generation: run.draft is draft)
