"""Makes small files ready for their uploads, many at once.

Sealing costs a transaction, a few thread hops and an fsync of the drafts' folder whether it is one file or
sixteen; so does noting what is about to be sent.  What is ready then is sent as ever, one upload a file.

Rule: whatever cannot be sealed here is left as it is, and sealed by its own upload, which deals with that.
"""

import logging
from collections.abc import Sequence
from sqlite3 import Connection

from cmsfs.journal import in_flight, ops, queue
from cmsfs.journal.draft import Draft
from cmsfs.journal.sealing import SMALL, Sealed
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import Ino
from daemon.push.context import PushContext
from daemon.push.operations.upload_targets import NewFile, NewVersion, Target, base_of, sent_request

log = logging.getLogger(__name__)


async def seal_ahead(context: PushContext, tasks: Sequence[queue.Task]) -> None:
    """Seal the small files among these uploads together, and note that they are about to be sent."""
    drafts: dict[Ino, Draft] = {}
    for task in tasks:
        if task.op.kind is not ops.OpKind.UPLOAD or task.node.draft is None or task.node.size > SMALL:
            continue
        if (draft := context.drafts.find(task.node.draft)) is not None:
            drafts[task.node.ino] = draft
    if not drafts:
        return
    targets = {task.node.ino: _expected(task) for task in tasks if task.node.ino in drafts}
    noted: dict[Ino, in_flight.SentRequest] = {}

    def note(conn: Connection, sealed: Sequence[Sealed]) -> None:
        for small in sealed:
            target = targets[small.ino]
            if target is not None and small.sha1 != tree.get(conn, small.ino).base_sha1:
                noted[small.ino] = sent_request(small.ino, small.sha1, target)
                in_flight.note(conn, noted[small.ino])

    try:
        sealed = await context.sealer.seal_small(drafts.values(), note)
    except OSError as error:
        log.debug("small files could not be sealed together: %s", error)
        return
    context.noted.update(noted)
    context.sealed.update({small.ino: small for small in sealed})


def _expected(task: queue.Task) -> Target | None:
    """Where an upload will go, by all appearance."""
    if task.node.remote_id is not None:
        base = base_of(task.node)
        return NewVersion(base) if base is not None else None
    if task.parent is None or task.parent.remote_id is None or naming.link_name(task.node.name) is not None:
        return None
    return NewFile(task.parent.remote_id, naming.remote_name(task.node))
