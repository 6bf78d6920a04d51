"""Direct uploads of a new file or a new version: the requests, and their bodies.

A body has a known length, JSON attributes first, then the file's bytes; it is sent again from the start when
a connection or a token turns out to be stale.  A `Source` provides the bytes.  Their SHA-1 is sent as well,
and compared with the SHA-1 in the response.

Rule: a file is never in memory as a whole, and never read on the event loop.

Rule: an upload is not retried automatically after a broken connection or a 5xx, because the file may exist.
The caller looks it up, or sends it again and gets a conflict with its own file.
"""

import enum
import hashlib
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

BAD_DIGEST = "bad_digest"  # the error code if the bytes do not have the SHA-1 of the header
OTHER_BYTES = "the service received other bytes"

# One thread hop per piece: at 1 MiB the hop (0.1 ms) is small compared to reading and sending.
PIECE = 1024 * 1024

# Up to this size the body is one piece: each piece costs a system call and half a millisecond.
SMALL = 64 * 1024

Progress = Callable[[int], None]  # with the bytes of the file sent so far; restarts when the body is resent


class SourceChanged(errors.CmsfsError):
    """The file being uploaded no longer has the size that was announced; nothing was uploaded."""


class Source(Protocol):
    """Bytes that can be read repeatedly."""

    size: int

    def open(self) -> AsyncIterator[bytes]:
        """Return an iterator over the bytes; its `aclose`, if it has one, is called after use."""
        ...


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def part(self, offset: int, size: int) -> "BytesSource":
        """Some of the bytes."""
        return BytesSource(self._data[offset : offset + size])

    def sha1(self) -> str:
        """Return the SHA-1 of the bytes."""
        return hashlib.sha1(self._data, usedforsecurity=False).hexdigest()

    async def open(self) -> AsyncIterator[bytes]:
        for start in range(0, self.size, PIECE):
            yield self._data[start : start + PIECE]


class FileSource:
    """A file on disk from `offset`: to its end, or `size` bytes."""

    def __init__(self, path: Path, offset: int = 0, size: int | None = None) -> None:
        """Raises `OSError` if there is no such file and no size is given."""
        self._path = path
        self._offset = offset
        self._end = path.stat().st_size if size is None else None  # a file read to its end must not grow
        self.size = max(0, self._end - offset) if self._end is not None else size or 0

    def part(self, offset: int, size: int) -> "FileSource":
        """Some of the bytes."""
        return FileSource(self._path, self._offset + offset, size)

    def sha1(self) -> str:
        """Return the SHA-1 of the bytes; blocking.  Raises `SourceChanged` if there are fewer."""
        digest, done = hashlib.sha1(usedforsecurity=False), 0
        with self._path.open("rb", buffering=0) as file:
            while done < self.size:
                data = os.pread(file.fileno(), min(PIECE, self.size - done), self._offset + done)
                if not data:
                    raise SourceChanged(f"it ends after {self._offset + done} bytes")
                digest.update(data)
                done += len(data)
        return digest.hexdigest()

    def _read_small(self) -> bytes:
        with self._path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), self.size, self._offset)
            if len(data) < self.size:
                raise SourceChanged(f"it ends after {self._offset + len(data)} bytes")
            if self._end is not None and os.fstat(file.fileno()).st_size != self._end:
                raise SourceChanged(f"it no longer has {self._end} bytes")
            return data

    async def open(self) -> AsyncIterator[bytes]:
        """Read the file.  Raises `SourceChanged` if its size has changed."""
        if self.size <= PIECE:
            # Most files are small: one thread hop for the whole file.
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
    """A multipart/form-data body; each iteration restarts it.

    A class and not an async generator: if the service rejects the request early, the body is not read to its
    end, and an unfinished generator would be reported as a leak.
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
        # The file's name is in the attributes; the filename here only marks the part as a file.
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
        """Return the next piece.  Raises `SourceChanged` before the end, so that nothing is stored."""
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
        """Close the source; must be called after the request, even if it failed."""
        reader, self._reader = self._reader, None
        if (aclose := getattr(reader, "aclose", None)) is not None:
            await aclose()


class UploadsApi:
    """POST /files/content and POST /files/:id/content of the upload address, and their preflight checks."""

    def __init__(self, wire: Wire, upload_url: str, base_url: str) -> None:
        self._wire = wire
        self._preflight_url = f"{base_url}/files/content"
        self._url = f"{upload_url}/files"

    async def preflight_version(self, file_id: str, *, size: int) -> None:
        """Return if a version of this size would be accepted; else raise what uploading it would raise."""
        url = f"{self._preflight_url.removesuffix('/content')}/{file_id}/content"
        body = uploads.Preflight(size=size).body()
        await self._wire.ask(uploads.PreflightAnswer, "OPTIONS", url, repeat=Repeat.READ, body=body)

    async def preflight(self, name: str, parent_id: str, *, size: int | None = None) -> None:
        """Return if a file of this name could be created; otherwise raise what creating it would raise.

        Raises `Conflict` if the name is taken; its `conflict` is the item with the name.
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
        """Upload a new file and return it.

        Raises `Conflict` if the name is taken, `IntegrityError` if the service received bytes with another
        SHA-1, `SourceChanged` if the size of the source has changed.
        Cancelled: the file may or may not exist.
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
        """Upload a new version of a file and return the file; `name` also renames it.

        Raises `PreconditionFailed` if its version is no longer `etag`, and otherwise as `new_file` does.
        """
        given = {"name": name, "content_modified_at": content_modified_at}
        # The values have the right types already: skip the validation.
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
            # The service compares the SHA-1 too, and rejects what we would reject below.
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
