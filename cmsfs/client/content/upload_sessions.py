"""Chunked uploads: parts sent in parallel, resumable, committed as a file.

A caller that keeps the session's id can resume after any interruption: `send` requests the list of uploaded
parts and sends the others.  The service verifies the SHA-1 of each part and of the whole file.

Rule: a part that is rejected because it exists already is compared, not sent again.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.content.uploads import BAD_DIGEST, OTHER_BYTES, BytesSource, FileSource, Progress, Source
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import items, upload_sessions, uploads
from cmsfs.models.paging import OffsetPage
from cmsfs.runtime import threads

# As recommended by the public API: three to five, lowest offsets first.
PARALLEL = 5
PAGE = 1000

# After this many 202 responses, each with the requested wait, the commit counts as stuck.
MAX_COMMITS = 600
COMMIT_WAIT = 2.0

# A part that was damaged in transit is rejected and sent again, up to this many attempts.
PART_ATTEMPTS = 5


class PartDamaged(errors.IntegrityError):
    """A part was damaged in transit repeatedly.  None of it was stored; the session is still valid."""


class PartSource:
    """The bytes of one part as a body that can be sent again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._readers: list[_PartReader] = []

    def __aiter__(self) -> "_PartReader":
        self._readers.append(_PartReader(self._source))
        return self._readers[-1]

    async def aclose(self) -> None:
        """Close the source; must be called after the request, even if it failed."""
        while self._readers:
            await self._readers.pop().aclose()


class _PartReader:
    """Reads a part once.  A response that arrives before the whole body was sent may close the reader during
    a read; then the read closes the source."""

    def __init__(self, source: Source) -> None:
        self._pieces = aiter(source.open())
        self._is_reading = self._is_closed = False

    def __aiter__(self) -> "_PartReader":
        return self

    async def __anext__(self) -> bytes:
        if self._is_closed:
            raise StopAsyncIteration
        self._is_reading = True
        try:
            return await anext(self._pieces)
        finally:
            self._is_reading = False
            if self._is_closed:
                await self._close()

    async def aclose(self) -> None:
        self._is_closed = True
        if not self._is_reading:
            await self._close()

    async def _close(self) -> None:
        if (aclose := getattr(self._pieces, "aclose", None)) is not None:
            with trio.CancelScope(shield=True):
                await aclose()


class UploadSessionsApi:
    """/files/upload_sessions and /files/:id/upload_sessions of the upload address."""

    def __init__(self, wire: Wire, upload_url: str) -> None:
        self._wire = wire
        self._url = f"{upload_url}/files"

    async def begin(self, folder_id: str, name: str, size: int) -> upload_sessions.UploadSession:
        """Create a session for a new file.  Raises `Conflict` if the name is taken."""
        body = {"folder_id": folder_id, "file_size": size, "file_name": name}
        return await self._wire.ask(
            upload_sessions.UploadSession, "POST", f"{self._url}/upload_sessions", kind="upload", body=body
        )

    async def begin_version(self, file_id: str, size: int) -> upload_sessions.UploadSession:
        """Create a session for a new version of a file."""
        url = f"{self._url}/{file_id}/upload_sessions"
        return await self._wire.ask(
            upload_sessions.UploadSession, "POST", url, kind="upload", body={"file_size": size}
        )

    async def get(self, session_id: str) -> upload_sessions.UploadSession:
        """Return a session.  Raises `Gone` or `NotFound` if it has ended."""
        url = f"{self._url}/upload_sessions/{session_id}"
        return await self._wire.ask(
            upload_sessions.UploadSession, "GET", url, kind="upload", repeat=Repeat.READ
        )

    async def abort(self, session_id: str) -> None:
        """Abort the upload; its parts are deleted."""
        await self._wire.tell("DELETE", f"{self._url}/upload_sessions/{session_id}")

    async def parts(self, session: upload_sessions.UploadSession) -> list[upload_sessions.Part]:
        """Return the uploaded parts, by offset."""
        url = session.session_endpoints.list_parts or f"{self._part_url(session)}/parts"
        found: list[upload_sessions.Part] = []
        while True:
            page = await self._wire.ask(
                OffsetPage[upload_sessions.Part],
                "GET",
                url,
                kind="upload",
                repeat=Repeat.READ,
                params={"limit": str(PAGE), "offset": str(len(found))},
            )
            found += page.entries
            if not page.entries or len(found) >= page.total_count:
                return sorted(found, key=lambda part: part.offset)

    async def send(
        self,
        session: upload_sessions.UploadSession,
        source: FileSource | BytesSource,
        *,
        progress: Progress | None = None,
        is_new: bool = False,
    ) -> list[upload_sessions.Part]:
        """Send the missing parts; return all parts for `commit`.  `is_new`: no part was ever sent.

        Raises `IntegrityError` if an uploaded part differs from the source, `PartDamaged` if a part is
        repeatedly damaged in transit, `OSError` if the source cannot be read.  Cancelled, or after any other
        error: uploaded parts are kept, and another call resumes.
        """
        there = {} if is_new else {part.offset: part for part in await self.parts(session)}
        done = sum(part.size for part in there.values())
        give, take = trio.open_memory_channel[tuple[int, FileSource | BytesSource, str]](0)

        async def hash_parts() -> None:
            # The next part is ready when a worker is, so that no connection waits for the processor.
            with give:
                for offset in range(0, source.size, session.part_size):
                    piece = source.part(offset, min(session.part_size, source.size - offset))
                    await give.send((offset, piece, await threads.run_sync(piece.sha1)))

        async def send_parts() -> None:
            nonlocal done
            async for offset, piece, sha1 in take:
                part = there.get(offset)
                if part is None:
                    part = await self._send_undamaged(session, offset, piece, sha1, source.size)
                    done += part.size
                if part.size != piece.size or (part.sha1 is not None and part.sha1.lower() != sha1):
                    raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual=part.sha1 or "another")
                there[offset] = part
                if progress is not None:
                    progress(done)

        failed: list[errors.CmsfsError | OSError] = []

        async def guarded(work: Callable[[], Awaitable[None]]) -> None:
            try:
                await work()
            except (errors.CmsfsError, OSError) as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        with take:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(guarded, hash_parts)
                for _ in range(PARALLEL):
                    nursery.start_soon(guarded, send_parts)
        if failed:
            raise failed[0]
        return [there[offset] for offset in sorted(there)]

    async def _send_undamaged(
        self,
        session: upload_sessions.UploadSession,
        offset: int,
        piece: Source,
        sha1: str,
        total: int,
    ) -> upload_sessions.Part:
        for attempt in range(PART_ATTEMPTS):
            try:
                return await self._send_part(session, offset, piece, sha1, total)
            except PartDamaged:
                if attempt + 1 == PART_ATTEMPTS:
                    raise
                await trio.sleep(attempt)
        raise AssertionError

    async def _send_part(
        self,
        session: upload_sessions.UploadSession,
        offset: int,
        piece: Source,
        sha1: str,
        total: int,
    ) -> upload_sessions.Part:
        headers = {
            "digest": upload_sessions.digest(sha1),
            "content-range": f"bytes {offset}-{offset + piece.size - 1}/{total}",
            "content-type": "application/octet-stream",
            "content-length": str(piece.size),
        }
        body = PartSource(piece)
        try:
            answer = await self._wire.ask(
                upload_sessions.UploadedPart,
                "PUT",
                self._part_url(session),
                kind="upload",
                # Safe to repeat: a second upload is rejected with a conflict, which is handled below.
                repeat=Repeat.READ,
                headers=headers,
                content=body,
            )
        except errors.Conflict:
            for part in await self.parts(session):
                if part.offset == offset:
                    return part
            raise
        except errors.PreconditionFailed as error:
            raise PartDamaged(OTHER_BYTES, expected=sha1, actual="another") from error
        finally:
            await body.aclose()
        return answer.part

    async def commit(
        self,
        session: upload_sessions.UploadSession,
        parts: list[upload_sessions.Part],
        *,
        sha1: str,
        etag: str | None = None,
        content_created_at: datetime | None = None,
        content_modified_at: datetime | None = None,
    ) -> items.File:
        """Commit the parts as a file and return it.  Waits while the service joins the parts.

        Raises `Conflict` if the name is taken, `PreconditionFailed` if the file's version is no longer
        `etag`, `IntegrityError` if the file has another SHA-1.  Cancelled: the file may or may not exist.
        """
        times = {"content_created_at": content_created_at, "content_modified_at": content_modified_at}
        given = upload_sessions.CommitAttributes.model_validate(
            {key: v for key, v in times.items() if v is not None}
        )
        body = upload_sessions.Commit(parts=parts, attributes=given).body()
        headers = {"digest": upload_sessions.digest(sha1)} | ({} if etag is None else {"if-match": etag})
        url = session.session_endpoints.commit or f"{self._part_url(session)}/commit"
        for _ in range(MAX_COMMITS):
            try:
                result = await self._wire.ask_ready(
                    uploads.UploadResult,
                    "POST",
                    url,
                    kind="upload",
                    params=FIELDS_PARAM,
                    headers=headers,
                    body=body,
                )
            except errors.BadRequest as error:
                if error.code != BAD_DIGEST:
                    raise
                raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual="another") from error
            if isinstance(result, float):
                await trio.sleep(result or COMMIT_WAIT)
                continue
            if len(result.entries) != 1 or (result.entries[0].sha1 or "").lower() != sha1.lower():
                raise errors.ProtocolError("the answer to a commit is not the file that was sent")
            return result.entries[0]
        raise errors.ProtocolError("the service does not come to an end with joining the parts")

    def _part_url(self, session: upload_sessions.UploadSession) -> str:
        return session.session_endpoints.upload_part or f"{self._url}/upload_sessions/{session.id}"
