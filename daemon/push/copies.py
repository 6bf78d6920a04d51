"""A new file whose bytes the service has already, in another file: copied there, nothing is sent.

`cp` on the drive reads and writes every byte here, but the service need not hear them again.

Rule: a copy counts only with the SHA-1 that it should have: the other file may have changed meanwhile.
"""

import logging

from cmsfs import errors
from cmsfs.models import items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Node
from daemon.push.kit import Kit
from daemon.push.parts import Target

log = logging.getLogger(__name__)

# One request copies; sending so little is one request too, and nothing to go wrong.
MIN_BYTES = 64 * 1024


async def copy(kit: Kit, node: Node, target: Target) -> items.File | None:
    """The new file, made by the service of another that it has; None if that cannot be.

    Raises what making a new file raises.
    """
    if not kit.profile.copies or target.file_id is not None or node.size < MIN_BYTES or node.sha1 is None:
        return None
    source = tree.find_bytes(kit.db, node.sha1)
    if source is None:
        return None
    try:
        with kit.health.request("copy"):
            made = await kit.client.files.copy(source[0], parent_id=target.folder_id, name=target.name)
    except (errors.Forbidden, errors.NotFound, errors.BadRequest, errors.NotSupported) as error:
        # Gone, not ours to copy, or held back by a policy: the bytes are here, and may yet be sent.
        log.debug("the service does not copy: %s", error)
        return None
    if made.sha1 != node.sha1:
        log.info("the service copied other bytes; they are sent instead")
        await kit.client.files.delete(made.id)
        return None
    return made
