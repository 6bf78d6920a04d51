"""Representations that the service derives from a file: extracted text and thumbnails.

The service generates them on the first request, so the caller may have to wait.

Rule: requests with the access token go only to addresses from the service that use TLS if the service does.
"""

from urllib.parse import urljoin, urlsplit

import trio

from cmsfs import errors
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import items

TEXT = "[extracted_text]"

# Most representations are generated within a second.
FIRST_WAIT_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 5.0

_READY = ("success", "viewable")


class RepresentationsApi:
    """`representations` of /files/:id, and the contents at their addresses."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url

    async def read(self, file_id: str, hints: str, *, limit: int) -> bytes | None:
        """Return the representation that `hints` selects (`TEXT`, `[jpg?dimensions=320x320]`) as soon as it
        is ready; None if the file has none.  Raises `ProtocolError` if it exceeds `limit` bytes.

        Waits without a limit; callers set deadlines.
        """
        wait = FIRST_WAIT_SECONDS
        while True:
            found = await self._find(file_id, hints)
            state = found.status.state if found is not None and found.status is not None else None
            if found is None or state in ("none", "error", None):
                return None
            template = found.content.url_template if found.content is not None else None
            if state in _READY and template:
                return await self._content(template, limit)
            await trio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def offered(self, one: items.Representation, *, limit: int) -> bytes | None:
        """Return the contents of a representation from a response, as soon as it is ready; None if it cannot
        be generated or exceeds `limit` bytes.

        Waits without a limit; callers set deadlines.
        """
        wait = FIRST_WAIT_SECONDS
        while True:
            state = one.status.state if one.status is not None else None
            template = one.content.url_template if one.content is not None else None
            if state in _READY and template:
                try:
                    return await self._content(template, limit)
                except errors.ProtocolError:
                    return None
            if state not in ("pending", "none") or one.info is None or not one.info.url:
                return None
            url = urljoin(self._base, one.info.url)
            one = await self._wire.ask(items.Representation, "GET", url, repeat=Repeat.READ)
            if one.status is None or one.status.state not in _READY:
                await trio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def _find(self, file_id: str, hints: str) -> items.Representation | None:
        answer = await self._wire.ask(
            items.File,
            "GET",
            f"{self._base}/files/{file_id}",
            repeat=Repeat.READ,
            params={"fields": "representations"},
            headers={"x-rep-hints": hints},
        )
        offered = answer.representations.entries if answer.representations else []
        return offered[0] if offered else None

    async def _content(self, template: str, limit: int) -> bytes:
        url = urljoin(self._base, template.replace("{+asset_path}", ""))
        if urlsplit(self._base).scheme == "https" and urlsplit(url).scheme != "https":
            raise errors.ProtocolError("a representation is offered at an address without TLS")
        headers = {"accept-encoding": "identity"}
        got = bytearray()
        async with self._wire.stream(url, kind="other", headers=headers) as (_, body):
            async for piece in body:
                got += piece
                if len(got) > limit:
                    raise errors.ProtocolError(f"a representation has more than {limit} bytes")
        return bytes(got)
