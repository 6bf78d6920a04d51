"""Copies a file at the service when a program copied it on the drive, in place of an upload.

`cp` on the drive reads and writes every byte locally, but the upload can be avoided.  Equal contents are not
enough: a source is only a file that the program had open while it wrote this one
(`vfs/heuristics/copy_detector`), or the version that the user asked to copy while the service was unreachable
(`replica/rows/copy_sources`).

A service copies more than contents: description, tags and metadata, which `cp` does not copy, and which may
be confidential at the target.  So for a program only files without these are copied by the service; for
others, and for files that cannot be checked, the contents are uploaded.

Rule: a copy is accepted only with the expected SHA-1 and with nothing but its contents; any other copy is
deleted permanently.
"""

import logging
from collections.abc import Collection
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import copy_sources
from cmsfs.replica.rows.copy_sources import CopySource
from daemon.push.context import PushContext
from daemon.push.operations.upload_targets import NewFile

log = logging.getLogger(__name__)

# A server-side copy costs four small requests; a smaller file is uploaded as fast.
MIN_BYTES = 1024 * 1024

# Possible refusals for a file that we do not own or that is gone: the contents are here and can be uploaded.
_REFUSALS = (errors.Forbidden, errors.NotFound, errors.BadRequest, errors.NotSupported)


async def copy(context: PushContext, node: Node, target: NewFile) -> items.File | None:
    """Let the service copy an existing file and return the new one; None if that is not possible.

    Raises what creating a new file raises.
    """
    if not context.profile.copies or node.sha1 is None:
        return None
    recorded = copy_sources.find(context.db, node.ino)
    if recorded is not None and recorded.sha1 != node.sha1:
        recorded = None  # the file was changed since
    if recorded is not None and recorded.is_asked:
        return await _as_asked(context, recorded, target)
    if node.size < MIN_BYTES or (source := recorded or _source(context, node)) is None:
        return None
    try:
        if not await _is_bare(context, source.item):
            return None
        made = await _made(context, source, target)
    except _REFUSALS as error:
        log.debug("server-side copy failed: %s", error)
        return None
    try:
        if made.sha1 == node.sha1 and await _is_bare(context, made.id):
            return made
    except _REFUSALS as error:
        log.debug("a server-side copy cannot be checked: %s", error)
    log.info("a server-side copy has other contents; uploading instead")
    await _remove(context, made.id)
    return None


async def record(context: PushContext, ino: Ino, sources: Collection[Ino]) -> None:
    """Record of which file a closed file is a copy, if the service can copy it."""
    made = tree.find(context.db, ino)
    if made is None or made.size < MIN_BYTES or not context.profile.copies:
        return

    def txn(conn: Connection) -> None:
        node = tree.find_at(conn, ino)
        if node is None or node.remote_id is not None or node.local:
            return
        nodes = [tree.find_at(conn, one) for one in sorted(sources)]
        alike = (_version(one) for one in nodes if one is not None and one.size == node.size)
        if (found := next(filter(None, alike), None)) is not None:
            copy_sources.note(conn, ino, found)

    await context.db.write(txn)


async def _made(context: PushContext, source: CopySource, target: NewFile) -> items.File:
    with context.health.request("copy"):
        return await context.client.files.copy(
            source.item, parent_id=target.folder_id, name=target.name, version=source.version
        )


async def _as_asked(context: PushContext, source: CopySource, target: NewFile) -> items.File | None:
    """Make the copy that the user requested, with everything that the service copies."""
    try:
        made = await _made(context, source, target)
    except _REFUSALS as error:
        log.info("a copy is not made by the service, its bytes are sent: %s", error)
        return None
    if made.sha1 == source.sha1:
        return made
    await _remove(context, made.id)
    return None


def _source(context: PushContext, node: Node) -> CopySource | None:
    """Return the source at the service of which this file is a copy, if there is evidence."""
    nodes = (tree.find(context.db, ino) for ino in sorted(context.copied_from(node.ino)))
    found = (_version(one) for one in nodes if one is not None)
    return next((one for one in found if one is not None and one.sha1 == node.sha1), None)


def _version(node: Node) -> CopySource | None:
    """Return the version of a file at the service."""
    if node.kind is not NodeKind.FILE or node.remote_id is None or node.base_sha1 is None:
        return None
    return CopySource(node.remote_id, node.version, node.base_sha1, is_asked=False)


async def _is_bare(context: PushContext, file_id: str) -> bool:
    """Whether the file has no description, tags or metadata."""
    with context.health.request("lookup"):
        found = await context.client.items.details("file", file_id)
    said = ("description", "tags", "classification", "shared_link")
    if any(getattr(found, name, None) for name in said):
        return False
    with context.health.request("lookup"):
        return not await context.client.metadata.instances("file", file_id)


async def _remove(context: PushContext, file_id: str) -> None:
    await context.client.items.delete("file", file_id)
    try:
        await context.client.items.purge("file", file_id)
    except _REFUSALS as error:
        log.warning("a wrong server-side copy remains in the trash: %s", error)
