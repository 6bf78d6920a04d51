"""Decides which deletions are checked with the service first, and restores items whose deletion is refused.

Deletions are journaled and sent later, so that `rm -r` is fast; if the service refuses one, the item comes
back.  Where a refusal is likely, the service is asked before the program gets its answer, and the program
gets EPERM.  That applies near recent refusals, and to items under a legal hold or retention policy until the
service is known to accept such items in its trash.  Most services do: a policy prevents purging, and the
trash is safe.

Rule: a deletion without such a doubt makes no request here.
"""

import errno
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.models import wire_names
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind, remote_from_item
from cmsfs.replica.sharing import shares
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.user_messages import explain
from cmsfs.vfs import errno_map
from cmsfs.vfs.attrs import policies
from daemon.account import leave
from daemon.core.health import Health

log = logging.getLogger(__name__)

# A program waits; after this time the journal takes over.
WAIT_SECONDS = 10.0

# After a refusal, further ones are expected for the item and in its folder for this time.
DOUBT_SECONDS = 600.0
# Maximum number of remembered places of refusals.
MAX_PLACES = 1000

# How long an accepted deletion of a protected item counts: services rarely change this rule.
ACCEPTED_SECONDS = 24 * 3600

# Key of `cursor`: when the service last took something into the trash that a policy covers (seconds).
ACCEPTED_AT = "protected_taken_at"


class DeleteGuard:
    """Implements `DeleteGuardPort` of the vfs; the push reports refused deletions to it."""

    def __init__(
        self,
        db: Database,
        client: Client,
        health: Health,
        depends_on: Callable[[str], bool],
        learn_policies: Callable[[], Awaitable[None]],
    ) -> None:
        """`depends_on`: whether another local file still needs contents of an item; the journal handles
        that.  `learn_policies` waits until policies have been read once since the start."""
        self._depends_on = depends_on
        self._learn_policies = learn_policies
        self._db = db
        self._client = client
        self._health = health
        self._refused_at: OrderedDict[Ino, float] = OrderedDict()
        self._restored_count = 0
        self._last_message = ""

    def returned(self) -> tuple[int, str]:
        """Return the number of items restored since the start, and a sentence about the last one."""
        return self._restored_count, self._last_message

    def deletion_refused(self, node: Node, error: errors.RemoteError) -> None:
        """Record that the service refused a deletion already confirmed to a program; the item is restored."""
        self._remember_refusal(node)
        reason = explain(error).message
        self._restored_count += 1
        folder = self._folder(node)
        place = tree.path(self._db, folder).rstrip("/") if folder is not None else ""
        self._last_message = f"{place}/{node.name}: {reason} It has been restored."
        log.warning("the service rejected a deletion; the item is restored: %s", reason)

    async def is_left(self, node: Node) -> bool:
        """See `ports.DeleteGuardPort.is_left`."""
        if node.remote_id is None or node.base_parent not in (None, wire_names.ROOT_ID) or node.is_lost:
            return False
        if not await self._db.query(lambda conn: leave.leaves_share(conn, node)):
            return False
        if Ability.SHARES in self._client.offers.lacking:
            log.warning("%s stays: this service cannot %s", node.name, Ability.SHARES.cannot)
            raise errno_map.oserror(errno.EPERM, node.name)
        has_more = await self._db.query(lambda conn: tree.has_children(conn, node.ino))
        if self._health.can_ask and not has_more:
            me = (await self._db.query(shares.rules)).me or ""
            try:
                with trio.move_on_after(WAIT_SECONDS):
                    await leave.own_collaboration(self._client, self._health, node, me)
            except errors.Forbidden as error:
                log.warning("%s cannot be left: %s", node.name, error.message or error.code)
                raise errno_map.oserror(errno.EACCES, node.name) from error
            except errors.RemoteError:
                pass  # the journal will send it
        return True

    async def is_doubtful(self, node: Node) -> bool:
        """See `ports.DeleteGuardPort.is_doubtful`."""
        if node.kind is not NodeKind.FILE or node.remote_id is None or not self._health.can_ask:
            return False
        await self._learn_policies()
        # Runs for every deletion, and ends here for nearly all.
        if not (self._was_refused(node) or self._is_protected(node)):
            return False
        if self._db.row("SELECT 1 FROM op WHERE ino = ? LIMIT 1", node.ino) is not None:
            return False  # the journal keeps the order of operations
        return not self._depends_on(node.remote_id)

    async def ask(self, node: Node) -> int | None:
        """See `ports.DeleteGuardPort.ask`."""
        assert node.remote_id is not None
        try:
            with trio.move_on_after(WAIT_SECONDS), self._health.request("delete"):
                before = await self._delete(node.remote_id, node)
                await self._note_accepted(node)
                return before
        except errors.Forbidden as error:
            self._remember_refusal(node)
            log.warning("this cannot be deleted: %s", explain(error).message)
            raise errno_map.oserror(errno.EPERM, node.name) from error
        except errors.RemoteError:
            pass
        # The result is unknown, also if it is not found: a folder above it may be away.  The journal sends
        # the deletion again.
        return None

    async def _delete(self, file_id: str, node: Node) -> int:
        """Delete the file unless its contents changed at the service; other changes do not matter.

        Returns its sequence before the deletion.
        """
        try:
            await self._client.items.delete("file", file_id, etag=node.etag)
        except errors.PreconditionFailed:
            theirs = await self._client.items.get("file", file_id)
            if theirs.sha1 != node.base_sha1:
                raise
            await self._client.items.delete("file", file_id, etag=theirs.etag)
            return remote_from_item(theirs).sequence
        return node.sequence

    def _remember_refusal(self, node: Node) -> None:
        for place in filter(None, (node.ino, node.parent or self._folder(node))):
            self._refused_at.pop(place, None)
            self._refused_at[place] = clock.monotonic()
        while len(self._refused_at) > MAX_PLACES:
            self._refused_at.popitem(last=False)

    def _folder(self, node: Node) -> Ino | None:
        """Return the former folder of a deleted node."""
        folder = (
            None
            if node.base_parent is None
            else tree.find_remote(self._db, NodeKind.FOLDER, node.base_parent)
        )
        return None if folder is None else folder.ino

    def _was_refused(self, node: Node) -> bool:
        now = clock.monotonic()
        places = (self._refused_at.get(node.ino), self._refused_at.get(node.parent or 0))
        return any(at is not None and now - at < DOUBT_SECONDS for at in places)

    def _is_protected(self, node: Node) -> bool:
        if not policies.may_be_covered(self._db, node) or not policies.is_known(self._db):
            return False
        taken = float(kv_store.get(self._db, ACCEPTED_AT) or 0)
        if 0 <= clock.time() - taken < ACCEPTED_SECONDS:
            return False
        return policies.is_covered(self._db, node)

    async def _note_accepted(self, node: Node) -> None:
        if self._is_protected(node):
            await self._db.write(lambda conn: kv_store.put(conn, ACCEPTED_AT, str(int(clock.time()))))
