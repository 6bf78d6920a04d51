"""Sends an archive as it is made: nothing of it is kept, in memory or on the disk, but a piece at a time."""

from collections.abc import Awaitable, Callable, Generator, Iterator
from urllib.parse import quote

import trio
from starlette import responses, types

from cmsfs.runtime import threads
from cmsfs.service.archives.archive_plan import ArchivePlan, Member
from cmsfs.service.archives.zip_writer import ZipWriter
from cmsfs.service.content import files
from cmsfs.service.storage import blobs

# A file that is no larger is read as a whole.
WHOLE = blobs.CHUNK

# How long it may take to say that an archive has failed.
_SECONDS = 5.0


class ZipProgress:
    """How far the download of an archive is."""

    def __init__(self, plan: ArchivePlan) -> None:
        self.state = "in_progress"
        self.downloaded = 0
        self.lost = 0  # files whose bytes were gone when it was their turn
        self.plan = plan


class ZipResponse(responses.Response):
    """An archive, streamed.  It is made no further when the client goes away.

    `ended` is called before the client sees the end, or when there is none.
    """

    def __init__(
        self, kept: blobs.BlobStore, name: str, progress: ZipProgress, ended: Callable[[], Awaitable[None]]
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
        self._pieces = _pieces(kept, progress)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(files.until_gone, receive, nursery.cancel_scope)
                while scope["method"] != "HEAD":
                    data = await threads.run_sync(next, self._pieces, b"")
                    if not data:
                        self._progress.state = "succeeded"
                        await self._ended()
                        break
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                nursery.cancel_scope.cancel()
        finally:
            self._pieces.close()
            if self._progress.state != "succeeded":
                self._progress.state = "failed"
                with trio.move_on_after(_SECONDS, shield=True):
                    await self._ended()


def _pieces(kept: blobs.BlobStore, progress: ZipProgress) -> Generator[bytes, None, None]:
    """The archive, about a mebibyte at a time; for a thread."""
    writer = ZipWriter()
    found: list[bytes] = []
    size = 0
    for member in progress.plan.members:
        for data in _member(writer, kept, member, progress):
            found.append(data)
            size += len(data)
            if size >= blobs.CHUNK:
                yield b"".join(found)
                found, size = [], 0
    yield b"".join([*found, writer.close()])


def _member(
    writer: ZipWriter, kept: blobs.BlobStore, member: Member, progress: ZipProgress
) -> Iterator[bytes]:
    if member.sha1 is None:
        yield writer.folder(member.path, member.modified)
        return
    try:
        reader = kept.open(member.sha1, 0, member.size)
    except FileNotFoundError:  # deleted for good since the download began
        progress.lost += 1
        return
    try:
        if member.size <= WHOLE:
            yield writer.file(member.path, reader.read_exactly(member.size), member.modified)
        else:
            yield writer.begin(member.path, member.size, member.modified)
            for at in range(0, member.size, blobs.CHUNK):
                yield writer.more(reader.read_exactly(min(blobs.CHUNK, member.size - at)))
            yield writer.end()
    finally:
        reader.close()
    progress.downloaded += 1
