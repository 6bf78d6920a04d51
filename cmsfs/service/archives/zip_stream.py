"""Streams an archive while it is generated: at any time only one piece of it is in memory, none on disk."""

import logging
from collections.abc import Awaitable, Callable, Generator, Iterator
from urllib.parse import quote

import trio
from starlette import responses, types

from cmsfs.runtime import threads
from cmsfs.service.archives.archive_plan import ArchivePlan, Member
from cmsfs.service.archives.zip_writer import ZipWriter
from cmsfs.service.content import files
from cmsfs.service.storage import blobs

log = logging.getLogger(__name__)

# Files up to this size are read as a whole.
MAX_WHOLE_FILE = blobs.CHUNK

# Time limit for recording that an archive failed.
_REPORT_SECONDS = 5.0


class ZipProgress:
    """The progress of an archive's download."""

    def __init__(self, plan: ArchivePlan) -> None:
        self.state = "in_progress"
        self.downloaded = 0
        self.lost = 0  # files whose contents are missing
        self.plan = plan


class ZipResponse(responses.Response):
    """Streams an archive; stops generating it when the client disconnects.

    If a content cannot be read, the response stays incomplete, which ends the connection.
    `ended` is called before the client receives the end, or on failure.
    """

    def __init__(
        self,
        blob_store: blobs.BlobStore,
        name: str,
        progress: ZipProgress,
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers(
            {
                "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
                "Content-Type": "application/zip",
                "Cache-Control": "no-store",
            }
        )
        del self.headers["content-length"]
        self._progress = progress
        self._ended = ended
        self._pieces = _pieces(blob_store, progress)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        try:
            # Before the response begins, a failure is an answer of its own (problems.py).
            data = b"" if scope["method"] == "HEAD" else await self._next_piece()
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(files.cancel_on_disconnect, receive, nursery.cancel_scope)
                if not data or await self._stream(data, send):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                nursery.cancel_scope.cancel()
        finally:
            self._pieces.close()
            if self._progress.state != "succeeded":
                self._progress.state = "failed"
                with trio.move_on_after(_REPORT_SECONDS, shield=True):
                    await self._ended()

    async def _next_piece(self) -> bytes:
        return await threads.run_sync(next, self._pieces, b"")

    async def _stream(self, data: bytes, send: types.Send) -> bool:
        """Send the archive; False, with the response incomplete, if a content cannot be read."""
        while data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            try:
                data = await self._next_piece()
            except OSError as error:
                log.warning("archive aborted, a content cannot be read: %s", error.strerror or error)
                return False
        self._progress.state = "succeeded"
        await self._ended()
        return True


def _pieces(blob_store: blobs.BlobStore, progress: ZipProgress) -> Generator[bytes, None, None]:
    """Yield the archive in pieces of about 1 MiB; blocking, run it in a thread."""
    writer = ZipWriter()
    parts: list[bytes] = []
    size = 0
    for member in progress.plan.members:
        for data in _member(writer, blob_store, member, progress):
            parts.append(data)
            size += len(data)
            if size >= blobs.CHUNK:
                yield b"".join(parts)
                parts, size = [], 0
    yield b"".join([*parts, writer.close()])


def _member(
    writer: ZipWriter, blob_store: blobs.BlobStore, member: Member, progress: ZipProgress
) -> Iterator[bytes]:
    if member.sha1 is None:
        yield writer.folder(member.path, member.modified)
        return
    try:
        reader = blob_store.open(member.sha1, 0, member.size)
    except blobs.ContentLost as error:
        blobs.log_lost(error)
        progress.lost += 1
        return
    try:
        if member.size <= MAX_WHOLE_FILE:
            yield writer.file(member.path, reader.read_exactly(member.size), member.modified)
        else:
            yield writer.begin(member.path, member.size, member.modified)
            for at in range(0, member.size, blobs.CHUNK):
                yield writer.more(reader.read_exactly(min(blobs.CHUNK, member.size - at)))
            yield writer.end()
    finally:
        reader.close()
    progress.downloaded += 1
