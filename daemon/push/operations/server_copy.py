"""Copies a file at the service when a program copied it on the drive, in place of an upload.

`cp` on the drive reads and writes every byte here, but the service need not hear them again.  That bytes are
equal is no reason: only a file that the program had open while it wrote this one
(`vfs/heuristics/copy_detector`) is a source.

A service copies more than bytes: description, tags and metadata, which `cp` does not, and which may be
nobody's business where the copy goes.  So only a file that has none of them is copied there; from another,
as from one that cannot be looked at, the bytes are sent.

Rule: a copy counts only with the SHA-1 that it should have, and with nothing besides its bytes; another one
is taken away again, for good.
"""

import logging

from cmsfs import errors
from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Node, NodeKind
from daemon.push.context import PushContext
from daemon.push.operations.upload_targets import NewFile

log = logging.getLogger(__name__)

# Four small requests look, copy and look again; so little is sent as soon.
MIN_BYTES = 1024 * 1024

# What may be refused of a file that we do not own, or that is gone: its bytes are here, and may yet be sent.
_REFUSALS = (errors.Forbidden, errors.NotFound, errors.BadRequest, errors.NotSupported)


async def copy(context: PushContext, node: Node, target: NewFile) -> items.File | None:
    """The new file, made by the service of another that it has; None if that cannot be.

    Raises what making a new file raises.
    """
    if not context.profile.copies or node.size < MIN_BYTES or node.sha1 is None:
        return None
    source = _source(context, node)
    if source is None or source.remote_id is None:
        return None
    try:
        if not await _is_bare(context, source.remote_id):
            return None
        with context.health.request("copy"):
            made = await context.client.files.copy(
                source.remote_id, parent_id=target.folder_id, name=target.name, version=source.version
            )
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


def _source(context: PushContext, node: Node) -> Node | None:
    """The file at the service that this one was copied from, if there is evidence of that."""
    for ino in sorted(context.copied_from(node.ino)):
        found = tree.find(context.db, ino)
        if found is not None and found.kind is NodeKind.FILE and found.base_sha1 == node.sha1:
            return found
    return None


async def _is_bare(context: PushContext, file_id: str) -> bool:
    """Whether the file is its bytes and nothing that people said about it."""
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
