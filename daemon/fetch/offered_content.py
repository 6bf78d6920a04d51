"""Downloads file contents from URLs that items offer, for services without downloads by ID.

    a shared link's `download_url`     the exact bytes, ranges included
    a representation of the same type  may be the file itself: used only if its SHA-1 matches

A search finds the file's offers.  Files that offer neither cannot be read: `NotSupported`.

Rule: an offer stands for the version that the search returns; other versions are not available (`NotFound`).
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import items
from cmsfs.replica.nodes import NodeKind
from cmsfs.sqlite import Database
from daemon.core import item_search

FIELDS = ("id", "type", "name", "sha1", "size", "extension", "file_version", "shared_link", "representations")

# How long a file's offers are remembered, including that there are none.
FRESH_SECONDS = 60.0
# Maximum number of files whose offers are remembered.
MOST = 1000

# A representation is always downloaded completely.
LARGEST = 16 * 1024 * 1024
# Types whose representation may be the file itself, with the name of that representation.
SAME = {"pdf": "pdf", "mp3": "mp3", "mp4": "mp4"} | dict.fromkeys(
    ("txt", "md", "csv", "log"), "extracted_text"
)

WITHOUT = "This service gives out the contents of files that have a shared link, and this one has none"


class _Known(NamedTuple):
    file: items.File
    at: float


class OfferedContent:
    """Reads contents from the offers that a search finds."""

    def __init__(self, db: Database, client: Client) -> None:
        self._db = db
        self._client = client
        self._known: dict[str, _Known] = {}

    @contextlib.asynccontextmanager
    async def content(
        self, file_id: str, *, first: int, last: int, version: str | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Like `FilesApi.content`, but of the current version only."""
        file = await self._look_up(file_id)
        if version is not None and file.file_version is not None and file.file_version.id != version:
            self._known.pop(file_id, None)
            raise errors.NotFound(404, "not_found", "The file has another version by now.")
        if (url := _download_url(file)) is not None:
            try:
                async with self._client.files.content_at(url, first=first, last=last) as chunks:
                    yield chunks
                return
            except errors.ApiError as error:
                self._known.pop(file_id, None)
                # A failure of the URL does not concern the item: the link may have expired.
                if isinstance(error, errors.RateLimited) or error.status >= 500:
                    raise
                raise errors.NotSupported(405, "not_offered", WITHOUT) from error
        data = await self._represented(file)

        async def cut() -> AsyncIterator[bytes]:
            yield data[first : last + 1]

        yield cut()

    async def _look_up(self, file_id: str) -> items.File:
        known = self._known.get(file_id)
        if known is None or trio.current_time() - known.at > FRESH_SECONDS:
            found = await item_search.find(self._db, self._client, NodeKind.FILE, file_id, fields=FIELDS)
            if not isinstance(found, items.File):
                raise errors.ProtocolError("a file is shown as something else")
            known = self._known[file_id] = _Known(found, trio.current_time())
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]
        return known.file

    async def _represented(self, file: items.File) -> bytes:
        """Return the contents from a representation that is the file itself.  Raises `NotSupported`."""
        name = file.name or ""
        wanted = SAME.get(name.rpartition(".")[2].lower())
        size = int(file.size or 0)
        offered = file.representations.entries if file.representations else []
        for one in offered if size <= LARGEST else []:
            if wanted is None or one.representation != wanted:
                continue
            data = await self._client.representations.offered(one, limit=size)
            if data is not None and hashlib.sha1(data, usedforsecurity=False).hexdigest() == file.sha1:
                return data
        raise errors.NotSupported(405, "not_offered", WITHOUT)


def _download_url(file: items.File) -> str | None:
    link = file.shared_link
    if link is None or link.download_url is None or link.is_password_enabled:
        return None
    allowed = link.effective_permission in (None, "can_download", "can_edit")
    return link.download_url if allowed else None
