"""The files endpoint: contents, copies and permissions of a file.

Rule: `content` yields exactly the requested bytes or raises; it never ends early without an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from cmsfs import errors
from cmsfs.client.content import shared_links
from cmsfs.client.content.items import living
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.bodies import Body
from cmsfs.client.transport.lazy import httpx
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Download, Wire
from cmsfs.models.base import Reference
from cmsfs.models.content import items

if TYPE_CHECKING:
    from cmsfs.client.transport.bulk_stream import Sink

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)", re.ASCII)

# Maximum number of files whose shared link is remembered.
_MAX_LINKED = 10_000


class FilesApi:
    """/files/:id and the paths below it."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/files"
        self._links: dict[str, str] = {}

    def shown_by(self, link: str, file_id: str) -> None:
        """Request this file's contents with a shared link's header from now on."""
        self._links.pop(file_id, None)
        self._links[file_id] = link
        if len(self._links) > _MAX_LINKED:
            del self._links[next(iter(self._links))]

    async def permissions(self, file_id: str) -> items.Permissions | None:
        """Return this account's permissions for the file; None if the service does not report them."""
        url, params = f"{self._url}/{file_id}", {"fields": "permissions,item_status"}
        found = await self._wire.ask(items.File, "GET", url, repeat=Repeat.READ, params=params)
        return living(found).permissions

    async def copy(
        self, file_id: str, *, parent_id: str, name: str | None = None, version: str | None = None
    ) -> items.File:
        """Copy a version of the file (by default the current one) at the service, with description, tags and
        metadata; return the new file."""
        body = items.CopyItem(parent=Reference(id=parent_id)).body()
        if name is not None:
            body["name"] = name
        if version is not None:
            body["version"] = version
        return await self._wire.ask(
            items.File, "POST", f"{self._url}/{file_id}/copy", params=FIELDS_PARAM, body=body
        )

    def content(
        self, file_id: str, *, first: int = 0, last: int | None = None, version: str | None = None
    ) -> AbstractAsyncContextManager[ContentStream]:
        """Stream the bytes from `first` to `last`, inclusive; without `last`, the whole file.

        Leaving the block early closes the connection.  Raises `ProtocolError` for a response that is not
        these bytes, `Offline` if the connection breaks; both may happen after some bytes were yielded.
        """
        # Our service sends the bytes directly on request; other services redirect to a download URL.
        headers = _range_of(first, last) | {"prefer": "return=representation"}
        if (link := self._links.get(file_id)) is not None:
            headers |= shared_links.header(link)
        params = {"version": version} if version is not None else None
        url = f"{self._url}/{file_id}/content"
        # A version's bytes never change.
        answer = self._wire.stream(
            url, kind="download", params=params, headers=headers, lasting=version is not None
        )
        return _OpenContent(answer, first, last)

    def content_at(self, url: str, *, first: int, last: int) -> AbstractAsyncContextManager[ContentStream]:
        """Stream bytes as `content` does, from a URL that the service has issued for the file."""
        url = urljoin(self._url, url)
        if urlsplit(self._url).scheme == "https" and urlsplit(url).scheme != "https":
            raise errors.ProtocolError("a download is offered at an address without TLS")
        return _OpenContent(
            self._wire.stream(url, kind="download", headers=_range_of(first, last)), first, last
        )


def _range_of(first: int, last: int | None) -> dict[str, str]:
    """Return the headers for a byte range, without compression: ranges are of the stored bytes."""
    headers = {"accept-encoding": "identity"}
    if last is not None:
        if not 0 <= first <= last:
            raise ValueError(f"no range: {first}-{last}")
        headers["range"] = f"bytes={first}-{last}"
    elif first:
        raise ValueError("a range needs its last byte")
    return headers


class _OpenContent:
    """A response, as a context whose value is its `ContentStream`."""

    __slots__ = ("_answer", "_first", "_last")

    def __init__(
        self,
        answer: Download,
        first: int,
        last: int | None,
    ) -> None:
        self._answer, self._first, self._last = answer, first, last

    async def __aenter__(self) -> ContentStream:
        head, body = await self._answer.__aenter__()
        try:
            return ContentStream(head, body, self._first, self._last)
        except BaseException:
            await self._answer.__aexit__(*sys.exc_info())
            raise

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._answer.__aexit__(*raised)


class ContentStream:
    """The bytes from `first` to `last` of a response; without `last`, all of it.

    Raises `ProtocolError` for a head that does not match the range, for too few bytes, and for too many
    unless the response is the whole file.
    """

    def __init__(self, head: httpx.Response, body: Body, first: int, last: int | None) -> None:
        self._body = body
        self._skip, self._cut = 0, False
        headers = {name.lower(): value for name, value in head.headers.raw}
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise errors.ProtocolError("the service compresses a download although it was asked not to")
        length = headers.get(b"content-length", b"")
        announced = int(length) if length.isdigit() else None
        # Bytes still to come; None: until the response ends.
        self._left = announced if last is None else last - first + 1
        if head.status_code == HTTPStatus.PARTIAL_CONTENT and last is not None:
            content_range = headers.get(b"content-range", b"").decode("latin-1")
            found = _CONTENT_RANGE.fullmatch(content_range)
            if found is None or (int(found[1]), int(found[2])) != (first, last):
                raise errors.ProtocolError(f"the service answers bytes {first}-{last} with {content_range!r}")
            if announced not in (None, self._left):
                raise errors.ProtocolError(
                    f"the service announces {announced} bytes for a range of {self._left}"
                )
        elif head.status_code != HTTPStatus.OK:
            raise errors.ProtocolError(f"the service answers a download with status {head.status_code}")
        elif last is not None:
            # The range was ignored: extract it from the whole file.
            if announced is not None and announced <= last:
                raise errors.ProtocolError(
                    f"the file has {announced} bytes, bytes {first}-{last} were asked for"
                )
            self._skip, self._cut = first, True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._cut and self._left == 0:
            raise StopAsyncIteration
        try:
            piece = await anext(self._body)
            while self._skip >= len(piece):
                self._skip -= len(piece)
                piece = await anext(self._body)
        except StopAsyncIteration:
            if self._skip or self._left:
                raise errors.ProtocolError(f"a download ends {self._left} bytes too early") from None
            raise
        if self._skip:
            piece = piece[self._skip :]
            self._skip = 0
        if self._left is None:
            return piece
        if len(piece) > self._left:
            if not self._cut:
                raise errors.ProtocolError("a download has more bytes than were asked for")
            piece = piece[: self._left]
        self._left -= len(piece)
        return piece

    async def pour(self, sink: Sink) -> int:
        """Write the next bytes to `sink` in the receiving thread; return how many, 0 if not supported: then
        iterate instead.  Raises as iterating does."""
        if self._skip or self._cut or not self._left:
            return 0
        count = await self._body.pour(sink)
        self._left -= count
        return count

    async def aclose(self) -> None:
        """Close the stream, as leaving the block of `FilesApi.content` does."""
        await self._body.aclose()
