"""Checks that the folder at the root of a restricted drive still exists at the service.

A folder that is in the trash or not shared any more takes everything below it along for that time.  So the
drive keeps its tree and its pending changes, and allows no changes until the folder is back, with the same
ID.

Rule: on a drive with such a root, nothing counts as gone before this check.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.sqlite import Database
from daemon.core import item_search
from daemon.core.health import Health

Answer = TypeVar("Answer")


def can_vanish(db: Database) -> bool:
    """Whether the drive's root is a folder that can go; that of an account cannot."""
    return tree.root_id(db) != wire_names.ROOT_ID


async def check(db: Database, client: Client, health: Health) -> None:
    """Request the root folder of a restricted drive; any other root cannot disappear.

    Raises `RootGone`, which `health` reports from then on until this finds the folder again; and what a
    request raises.
    """
    if not can_vanish(db):
        return
    with health.request("lookup"):
        try:
            await item_search.check_folder(client, tree.root_id(db))
        except (errors.NotFound, errors.Forbidden, errors.Gone) as error:
            raise errors.RootGone(health.root_gone) from error
    health.begins(None)


async def ask(
    db: Database,
    client: Client,
    health: Health,
    question: Callable[[], Awaitable[Answer]],
    *,
    gone: tuple[type[Exception], ...] = (errors.NotFound,),
) -> Answer:
    """Return the answer to a question.  That something is gone, as None or as one of the exceptions `gone`
    says, counts only if it is also the answer once the drive's folder is known to be there: the first one may
    be from while it was away.

    Raises `RootGone`, and what the question raises.
    """
    try:
        answer = await question()
    except gone:
        if not can_vanish(db):
            raise
    else:
        if answer is not None or not can_vanish(db):
            return answer
    await check(db, client, health)
    return await question()
