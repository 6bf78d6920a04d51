"""Finding out what became of a new file that was sent, and of which nobody has heard since.

An upload that goes to the same place again meets the earlier one by itself: the name is in use.  But where
the file has been renamed, moved, deleted or has taken over another's identity meanwhile, nothing would meet
it, and it would come back as somebody else's.  So before such a change goes, the place that was sent to is
asked.
"""

import logging
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.journal import ops, queue, unheard
from cmsfs.journal.unheard import Sent
from cmsfs.models import items
from cmsfs.replica import naming, tree, weblinks
from cmsfs.replica.nodes import Ino, remote_from_item, said_by
from daemon.push import answers, conflicts
from daemon.push.kit import Kit

log = logging.getLogger(__name__)


async def for_upload(kit: Kit, task: queue.Task) -> None:
    """Before an upload: what was sent under another name, to another folder, or as a file of its own."""
    found = unheard.new_files(kit.db, task.op.ino)
    if not found:
        return
    node = task.node
    here = (task.parent.remote_id if task.parent else None, naming.remote_name(node))
    for sent in found:
        if node.remote_id is not None or (sent.folder, sent.name) != here:
            await _find_out(kit, sent)


async def for_removal(kit: Kit, ino: Ino) -> None:
    """Before a deletion: the file may have come into being."""
    for sent in unheard.new_files(kit.db, ino):
        await _find_out(kit, sent)


async def _find_out(kit: Kit, sent: Sent) -> None:
    theirs = await _holder(kit, sent)
    is_ours = (
        theirs is not None and _mark(theirs) == sent.sha1 and conflicts.may_be_ours(kit.db, sent.ino, theirs)
    )

    def txn(conn: Connection) -> None:
        unheard.heard(conn, sent.ino)
        if is_ours and theirs is not None:
            answers.take_in(conn, sent.ino, remote_from_item(theirs))
            if tree.get(conn, sent.ino).parent is not None:
                ops.record_move(conn, sent.ino, due_ns=ops.now_ns())

    await kit.db.write(txn)
    if is_ours:
        log.info("an upload had arrived unheard; it is taken over")
    elif theirs is not None:
        # Pages that showed it were not believed while it might have been ours.
        await kit.incoming.apply([theirs])


def _mark(theirs: items.Item) -> str | None:
    """What tells ours from others in `unheard`: a content by its SHA-1, a web link by what it says."""
    match theirs:
        case items.File():
            return theirs.sha1
        case items.WebLink():
            return unheard.mark_of(weblinks.text(*said_by(remote_from_item(theirs))))
        case _:
            return None


async def _holder(kit: Kit, sent: Sent) -> items.Item | None:
    """Who has the place that was sent to."""
    try:
        with kit.health.request("lookup"):
            await kit.client.uploads.preflight(sent.name or "", sent.folder or "")
    except errors.Conflict as error:
        return await conflicts.holder(kit, error)
    except (errors.RateLimited, errors.ServerError, errors.Unauthorized):
        raise
    except errors.ApiError as error:
        log.debug("nothing can be there: %s", error)
    return None
