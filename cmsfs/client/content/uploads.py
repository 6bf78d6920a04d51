"""Direct uploads of a new file or a new version: the requests, and their bodies.

A body is of known length, JSON attributes first, then the file's bytes; it is sent again from its beginning
when a connection or a token turned out stale.  A `Source` gives the bytes.  The SHA-1 goes with them and is
compared with what the service says it has.

Rule: a file is never in memory, and never read on the event loop.

Rule: an upload is not repeated by itself after a broken connection or a 5xx: the file may be there.  The
caller looks, or sends it again and meets its own file as the holder of the name.
"""

import enum
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from cmsfs import errors
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import base, wire_names
from cmsfs.models.content import items, uploads
from cmsfs.runtime import chance, threads

BAD_DIGEST = "bad_digest"  # the code of a refusal whose bytes did not have the SHA-1 of the header
OTHER_BYTES = "the service received other bytes"

# One thread hop for each piece: at 1 MiB the hop (0.1 ms) is small against reading and sending.
PIECE = 1024 * 1024

# Up to this size all of the body is one piece: each piece is a call of the kernel, and half a millisecond.
SMALL = 64 * 1024

Progress = Callable[[int], None]  # how many bytes of the file are on their way; starts again with a repeat


class SourceChanged(errors.CmsfsError):
    """The file being uploaded no longer has the size that was announced; nothing was uploaded."""


class Source(Protocol):
    """Bytes that can be read as often as need be."""

    size: int

    def open(self) -> AsyncIterator[bytes]:
        """The bytes from the beginning.  An iterator with an `aclose` gets it called after use."""
        ...


class BytesSource:
    """Bytes that are in memory already."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def part(self, offset: int, size: int) -> Source:
        """Some of the bytes."""
        return BytesSource(self._data[offset : offset + size])

    async def open(self) -> AsyncIterator[bytes]:
        for start in range(0, self.size, PIECE):
            yield self._data[start : start + PIECE]


class FileSource:
    """A file on disk from `offset` on: to its end, or `size` bytes."""

    def __init__(self, path: Path, offset: int = 0, size: int | None = None) -> None:
        """Raises `OSError` if there is no such file and no size is given."""
        self._path = path
        self._offset = offset
        self._end = path.stat().st_size if size is None else None  # a file read to its end must not grow
        self.size = max(0, self._end - offset) if self._end is not None else size or 0

    def part(self, offset: int, size: int) -> Source:
        """Some of the bytes."""
        return FileSource(self._path, self._offset + offset, size)

    def _read_small(self) -> bytes:
        with self._path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), self.size, self._offset)
            if len(data) < self.size:
                raise SourceChanged(f"it ends after {self._offset + len(data)} bytes")
            if self._end is not None and os.fstat(file.fileno()).st_size != self._end:
                raise SourceChanged(f"it no longer has {self._end} bytes")
            return data

    async def open(self) -> AsyncIterator[bytes]:
        """Raises `SourceChanged` when the file is found shorter or longer than it was."""
        if self.size <= PIECE:
            # Most files are small: one hop for all of it.
            yield await threads.run_sync(self._read_small)
            return
        with await threads.run_sync(lambda: self._path.open("rb", buffering=0)) as file:
            sent = 0
            while sent < self.size:
                wanted = min(PIECE, self.size - sent)
                piece = await threads.run_sync(os.pread, file.fileno(), wanted, self._offset + sent)
                if not piece:
                    raise SourceChanged(f"it ends after {self._offset + sent} bytes")
                sent += len(piece)
                yield piece
            if self._end is not None and os.fstat(file.fileno()).st_size != self._end:
                raise SourceChanged(f"it no longer has {self._end} bytes")


class _Stage(enum.Enum):
    HEAD = enum.auto()
    FILE = enum.auto()
    END = enum.auto()


class MultipartBody:
    """A multipart/form-data body; iterating it starts it anew.

    A class and not an async generator: a service that refuses early leaves the body unfinished, and a
    generator left so is reported as a leak.
    """

    def __init__(
        self, attributes: dict[str, Any], source: Source, *, progress: Progress | None = None
    ) -> None:
        self._source = source
        self._size = source.size
        self._progress = progress
        self._reader: AsyncIterator[bytes] | None = None
        self._stage = _Stage.HEAD
        self._sent = 0
        boundary = chance.token_hex(16)
        # The name that counts is in the attributes; the file name only marks the part as a file.
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="attributes"\r\n'
            f"Content-Type: application/json\r\n\r\n{json.dumps(attributes)}\r\n"
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
            f"Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.headers = {
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(len(self._head) + self._size + len(self._tail)),
        }

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._stage = _Stage.HEAD
        return self

    async def __anext__(self) -> bytes:
        """Raises `SourceChanged` before the body is complete, so that the service takes nothing."""
        if self._stage is _Stage.HEAD:
            await self.aclose()
            self._reader = aiter(self._source.open())
            self._sent = 0
            self._stage = _Stage.FILE
            return self._head if self._size > SMALL else await self._whole()
        if self._stage is _Stage.END:
            raise StopAsyncIteration
        assert self._reader is not None
        try:
            piece = await anext(self._reader)
        except StopAsyncIteration:
            self._end()
            return self._tail
        self._count(piece)
        return piece

    async def _whole(self) -> bytes:
        assert self._reader is not None
        pieces = [self._head]
        async for piece in self._reader:
            self._count(piece)
            pieces.append(piece)
        self._end()
        return b"".join([*pieces, self._tail])

    def _end(self) -> None:
        if self._sent != self._size:
            raise SourceChanged(f"{self._sent} bytes came instead of {self._size}") from None
        self._stage = _Stage.END

    def _count(self, piece: bytes) -> None:
        self._sent += len(piece)
        if self._sent > self._size:
            raise SourceChanged(f"more than {self._size} bytes came")
        if self._progress is not None:
            self._progress(self._sent)

    async def aclose(self) -> None:
        """Close the source; to be called when the request is over, however it ended."""
        reader, self._reader = self._reader, None
        if (aclose := getattr(reader, "aclose", None)) is not None:
            await aclose()


class UploadsApi:
    """POST /files/content and POST /files/:id/content of the upload address, and the question beforehand."""

    def __init__(self, wire: Wire, upload_url: str, base_url: str) -> None:
        self._wire = wire
        self._preflight_url = f"{base_url}/files/content"
        self._url = f"{upload_url}/files"

    async def preflight_version(self, file_id: str, *, size: int) -> None:
        """Return if a version of this size would be taken; raise what sending it would raise."""
        url = f"{self._preflight_url.removesuffix('/content')}/{file_id}/content"
        body = uploads.Preflight(size=size).body()
        await self._wire.ask(uploads.PreflightAnswer, "OPTIONS", url, repeat=Repeat.READ, body=body)

    async def preflight(self, name: str, parent_id: str, *, size: int | None = None) -> None:
        """Return if a file of this name could be made there; raise what making it would raise.

        `Conflict` if the name is taken: `conflict` of it is the holder.
        """
        wish = uploads.Preflight(name=name, parent=base.Reference(id=parent_id))
        if size is not None:
            wish = wish.model_copy(update={"size": size})
            wish.model_fields_set.add("size")
        body = wish.body()
        await self._wire.ask(
            uploads.PreflightAnswer, "OPTIONS", self._preflight_url, repeat=Repeat.READ, body=body
        )

    async def new_file(
        self,
        attributes: uploads.UploadAttributes,
        source: Source,
        *,
        sha1: str,
        progress: Progress | None = None,
    ) -> items.File:
        """The new file.

        Raises `Conflict` if the name is taken, `IntegrityError` if the service has other bytes than
        `sha1` says, `SourceChanged` if the source has another size than it said.
        Cancelled: the file may be there or not.
        """
        return await self._send("content", attributes.body(), source, sha1=sha1, progress=progress)

    async def new_version(
        self,
        file_id: str,
        source: Source,
        *,
        sha1: str,
        etag: str | None = None,
        name: str | None = None,
        content_modified_at: datetime | None = None,
        progress: Progress | None = None,
    ) -> items.File:
        """The file with its new content; `name` renames it as well.

        Raises `PreconditionFailed` if it is no longer of the version `etag`, and as `new_file` does.
        """
        given = {"name": name, "content_modified_at": content_modified_at}
        # What is typed here already is not validated once more.
        attributes = uploads.VersionAttributes.model_construct(
            {key for key, value in given.items() if value is not None},
            name=name,
            content_modified_at=content_modified_at,
        )
        return await self._send(
            f"{file_id}/content", attributes.body(), source, sha1=sha1, etag=etag, progress=progress
        )

    async def _send(
        self,
        path: str,
        attributes: dict[str, object],
        source: Source,
        *,
        sha1: str,
        etag: str | None = None,
        progress: Progress | None,
    ) -> items.File:
        body = MultipartBody(attributes, source, progress=progress)
        headers = body.headers | {wire_names.SHA1_HEADER: sha1}
        if etag is not None:
            headers["if-match"] = etag
        try:
            result = await self._wire.ask(
                uploads.UploadResult,
                "POST",
                f"{self._url}/{path}",
                kind="upload",
                params=FIELDS_PARAM,
                headers=headers,
                content=body,
            )
        except errors.BadRequest as error:
            if error.code != BAD_DIGEST:
                raise
            # The service compares too, and refuses what we would refuse of its answer.
            raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual="another") from error
        finally:
            await body.aclose()
        if len(result.entries) != 1:
            raise errors.ProtocolError(f"the answer to an upload has {len(result.entries)} files")
        file = result.entries[0]
        if file.sha1 is None:
            raise errors.ProtocolError("the answer to an upload carries no SHA-1")
        if file.sha1.lower() != sha1.lower():
            raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual=file.sha1)
        return file
