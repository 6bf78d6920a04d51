"""Uploads large files in parts, resuming with what has already arrived.

The service's upload session is stored in the journal's database, so the next run, also after a restart, asks
which parts have arrived and sends the others.  A session belongs to contents (their SHA-1) and a target; for
others it is aborted and a new one is started.

Rule: before a session starts, check whether the service already has these contents: the response to an
earlier commit may have been lost.
"""

import logging
from contextlib import AsyncExitStack
from datetime import datetime

from cmsfs import crashpoints, errors
from cmsfs.client.content import upload_sessions
from cmsfs.client.content.uploads import FileSource, Progress
from cmsfs.client.transport import retry
from cmsfs.crashpoints import Point
from cmsfs.models.content import items
from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.replica.nodes import Base, NodeKind
from cmsfs.replica.rows.in_flight import SentRequest
from cmsfs.sqlite import Connection
from daemon.push import inflight_recovery
from daemon.push.context import PushContext
from daemon.push.operations.upload_targets import NewFile, Purpose, Target, purpose_of

log = logging.getLogger(__name__)

# Error code of a commit whose part list does not match the service's.
MISMATCH = "parts_mismatch"


async def send(
    context: PushContext,
    ino: int,
    target: Target,
    source: FileSource,
    *,
    sha1: str,
    content_modified_at: datetime,
    progress: Progress,
) -> items.File:
    """Return the file as the service has it after all parts have arrived and are committed.

    Raises what `client.content.upload_sessions` raises.  Cancelled, or after any error that leaves the
    session usable: parts that have arrived are not sent again.
    """
    calls = context.client.upload_sessions
    try:
        resumed = await _resume_session(context, ino, target, sha1)
        if resumed is None and (found := await _find_uploaded(context, target, sha1)) is not None:
            return found
        session, begun_for = resumed or (
            await _start_session(context, ino, target, sha1, source.size),
            purpose_of(target),
        )
        with context.health.request("upload"):
            parts = await calls.send(session, source, progress=progress, is_new=resumed is None)
        crashpoints.reached(Point.PARTS_SENT)
        async with AsyncExitStack() as stack:
            if isinstance(target, NewFile) and begun_for != purpose_of(target):
                # The caller has recorded where the file is now; but it appears where the session began.
                sent = SentRequest(ino, sha1, folder=begun_for.folder_id, name=begun_for.name)
                await stack.enter_async_context(inflight_recovery.recorded(context, sent))
            stack.enter_context(context.remote_updates.making(begun_for.folder_id, begun_for.name))
            stack.enter_context(context.health.request("upload"))
            etag = target.etag if isinstance(target, Base) else None
            return await calls.commit(
                session, parts, sha1=sha1, etag=etag, content_modified_at=content_modified_at
            )
    except upload_sessions.PartDamaged:
        raise
    except (errors.IntegrityError, errors.NotFound, errors.Gone, errors.Conflict) as error:
        if isinstance(error, errors.Conflict) and error.code in retry.BUSY:
            raise
        # Damaged parts cannot be replaced, and a session that has ended or whose name is in use cannot be
        # continued.
        await give_up(context, ino)
        if isinstance(error, errors.NotFound) and not await _is_about_target(context, target):
            raise errors.Gone(410, "session_expired", "The upload session is over.") from error
        raise
    except errors.BadRequest as error:
        if error.code == MISMATCH:
            await give_up(context, ino)
        raise


async def _resume_session(
    context: PushContext, ino: int, target: Target, sha1: str
) -> tuple[models_upload_sessions.UploadSession, Purpose] | None:
    """Return the session that an earlier run started for these contents, with its purpose; None if there is
    no usable one.

    A new file that was renamed or moved here meanwhile keeps its session: the caller then sends a move.
    """
    row = context.db.row("SELECT sha1, target, session FROM upload WHERE ino = ?", ino)
    if row is None:
        return None
    begun_for = Purpose.from_json(row["target"])
    if (row["sha1"], begun_for.file_id) != (sha1, purpose_of(target).file_id):
        await give_up(context, ino)
        return None
    session = models_upload_sessions.UploadSession.model_validate_json(row["session"])
    try:
        with context.health.request("upload"):
            await context.client.upload_sessions.get(session.id)
    except (errors.NotFound, errors.Gone):
        await _forget(context, ino)
        return None
    log.info("resuming an upload")
    return session, begun_for


async def _find_uploaded(context: PushContext, target: Target, sha1: str) -> items.File | None:
    """Return the file if it already has the contents: its commit succeeded, but the response was lost."""
    if isinstance(target, NewFile):
        return None  # starting a session reports name conflicts
    found = await context.get(NodeKind.FILE, target.item)
    if isinstance(found, items.File) and found.sha1 == sha1:
        return found
    if found.etag != target.etag:
        raise errors.PreconditionFailed(412, "precondition_failed", "It has another version by now.")
    return None


async def _start_session(
    context: PushContext, ino: int, target: Target, sha1: str, size: int
) -> models_upload_sessions.UploadSession:
    calls = context.client.upload_sessions
    with context.health.request("upload"):
        if isinstance(target, Base):
            session = await calls.begin_version(target.item, size)
        else:
            session = await calls.begin(target.folder_id, target.name, size)

    def txn(conn: Connection) -> None:
        conn.execute(
            "INSERT OR REPLACE INTO upload(ino, sha1, target, session) VALUES (?, ?, ?, ?)",
            (ino, sha1, purpose_of(target).to_json(), session.model_dump_json(exclude_none=True)),
        )

    # Durably: losing the session in a power failure would send all parts twice.
    await context.db.write(txn, durable=True)
    crashpoints.reached(Point.SESSION_BEGUN)
    return session


async def _is_about_target(context: PushContext, target: Target) -> bool:
    """Whether "not found" refers to the file or folder, and not to the session."""
    try:
        if isinstance(target, Base):
            await context.get(NodeKind.FILE, target.item)
        else:
            await context.get(NodeKind.FOLDER, target.folder_id)
    except errors.NotFound:
        return True
    return False


async def give_up(context: PushContext, ino: int) -> None:
    """Forget the session of a node and abort it at the service."""
    row = context.db.row("SELECT session FROM upload WHERE ino = ?", ino)
    if row is None:
        return
    await _forget(context, ino)
    try:
        await context.client.upload_sessions.abort(
            models_upload_sessions.UploadSession.model_validate_json(row["session"]).id
        )
    except errors.RemoteError as error:
        log.debug("an upload session could not be aborted; it expires by itself: %s", error)


async def _forget(context: PushContext, ino: int) -> None:
    await context.db.write(lambda conn: forget(conn, ino))


def forget(conn: Connection, ino: int) -> None:
    """Forget the session, within the caller's transaction."""
    conn.execute("DELETE FROM upload WHERE ino = ?", (ino,))
