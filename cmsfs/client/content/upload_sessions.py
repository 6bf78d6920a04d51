"""Chunked uploads: parts sent in parallel, resumable, committed as a file.

A caller that keeps the session's id can go on after anything: `send` asks which parts are there and sends
the others.  The service compares each part, and the whole, with their SHA-1.

Rule: a part that is refused because it is there already is looked at, not sent again.
"""

import hashlib
from collections.abc import AsyncIterator
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

# As the public API advises: three to five, the lowest offsets first.
PARALLEL = 4
PAGE = 1000

# The commit's answer was 202 so often, each time with a wait that the service asked for: it hangs.
MAX_COMMITS = 600
COMMIT_WAIT = 2.0

# A part that was damaged on its way is refused and sent again; so often in a row is no accident.
PART_ATTEMPTS = 5


class PartDamaged(errors.IntegrityError):
    """A part went wrong on its way again and again.  The service took none of it: the session is good."""


class PartSource:
    """The bytes of one part as a body that can be sent again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reader: AsyncIterator[bytes] | None = None
        self._begun = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._begun = False
        return self

    async def __anext__(self) -> bytes:
        if not self._begun or self._reader is None:
            await self.aclose()
            self._begun = True
            self._reader = aiter(self._source.open())
        return await anext(self._reader)

    async def aclose(self) -> None:
        """Close the source; to be called when the request is over, however it ended."""
        reader, self._reader = self._reader, None
        if (aclose := getattr(reader, "aclose", None)) is not None:
            await aclose()


class UploadSessionsApi:
    """/files/upload_sessions and /files/:id/upload_sessions of the upload address."""

    def __init__(self, wire: Wire, upload_url: str) -> None:
        self._wire = wire
        self._url = f"{upload_url}/files"

    async def begin(self, folder_id: str, name: str, size: int) -> upload_sessions.UploadSession:
        """A session for a new file.  Raises `Conflict` if the name is taken."""
        body = {"folder_id": folder_id, "file_size": size, "file_name": name}
        return await self._wire.ask(
            upload_sessions.UploadSession, "POST", f"{self._url}/upload_sessions", kind="upload", body=body
        )

    async def begin_version(self, file_id: str, size: int) -> upload_sessions.UploadSession:
        """A session for a new version."""
        url = f"{self._url}/{file_id}/upload_sessions"
        return await self._wire.ask(
            upload_sessions.UploadSession, "POST", url, kind="upload", body={"file_size": size}
        )

    async def get(self, session_id: str) -> upload_sessions.UploadSession:
        """Raises `Gone` or `NotFound` for one that is over."""
        url = f"{self._url}/upload_sessions/{session_id}"
        return await self._wire.ask(
            upload_sessions.UploadSession, "GET", url, kind="upload", repeat=Repeat.READ
        )

    async def abort(self, session_id: str) -> None:
        """Give the upload up; its parts go."""
        await self._wire.tell("DELETE", f"{self._url}/upload_sessions/{session_id}")

    async def parts(self, session: upload_sessions.UploadSession) -> list[upload_sessions.Part]:
        """The parts that have arrived, by offset."""
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
    ) -> list[upload_sessions.Part]:
        """Send the parts that have not arrived; all parts, ready for `commit`.

        Raises `IntegrityError` if a part that is there has other bytes than the source, `PartDamaged` if
        one does not come through.  Cancelled, or after any other error: what has arrived stays, and calling
        this again goes on.
        """
        there = {part.offset: part for part in await self.parts(session)}
        done = sum(part.size for part in there.values())
        offsets = iter(range(0, source.size, session.part_size))

        async def worker() -> None:
            nonlocal done
            for offset in offsets:
                piece = source.part(offset, min(session.part_size, source.size - offset))
                sha1 = await _sha1(piece)
                part = there.get(offset)
                if part is None:
                    part = await self._send_undamaged(session, offset, piece, sha1, source.size)
                    done += part.size
                if part.size != piece.size or (part.sha1 is not None and part.sha1.lower() != sha1):
                    raise errors.IntegrityError(OTHER_BYTES, expected=sha1, actual=part.sha1 or "another")
                there[offset] = part
                if progress is not None:
                    progress(done)

        failed: list[errors.CmsfsError] = []

        async def guarded_worker() -> None:
            try:
                await worker()
            except errors.CmsfsError as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(PARALLEL):
                nursery.start_soon(guarded_worker)
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
                # Twice does no harm: the second is refused, and the first is found below.
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
        """The file.  Waits as long as the service joins the parts.

        Raises `Conflict` if the name is taken, `PreconditionFailed` if the file is no longer of the version
        `etag`, `IntegrityError` if the whole has another SHA-1.  Cancelled: the file may be there or not.
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


async def _sha1(source: Source) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    body = PartSource(source)
    try:
        async for piece in body:
            await threads.run_sync(found.update, piece)
    finally:
        await body.aclose()
    return found.hexdigest()
