"""Deletions that the service may refuse: which are checked beforehand, and what happens to refused ones.

A deletion is journaled and sent later, so that `rm -r` is quick; a refusal then brings the item back.  Where
a refusal is to be expected the service is asked before the program is answered, and the program gets EPERM:
what lies where something was refused a while ago, and what a hold or a retention policy covers, until it is
known that the service takes such items into its trash.  Most do: what a policy protects cannot be purged, and
the trash is a safe place for it.

Rule: what is not known to be in doubt costs nothing here.
"""

import errno
import logging
from collections import OrderedDict
from collections.abc import Callable

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.models import wire_names
from cmsfs.replica import item_details, kv_store, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.sharing import shares
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.user_messages import explain
from cmsfs.vfs import errno_map
from cmsfs.vfs.attrs import policies
from daemon.account import leave
from daemon.core.health import Health

log = logging.getLogger(__name__)

# Somebody waits in `rm`; after this the journal takes it.
WAIT_SECONDS = 10.0

# What was refused is expected to be refused again, there and beside it, for so long.
DOUBT_SECONDS = 600.0
# Places of refusals that are remembered.
PLACES = 1000

# Services change their minds about what may go into the trash seldom.
SURE_SECONDS = 24 * 3600

# Key of `cursor`: when the service last took something into the trash that a policy covers (seconds).
TAKEN_AT = "protected_taken_at"


class DeleteGuard:
    """Implements `DeleteGuardPort` of the vfs; the push reports what the service refused to delete."""

    def __init__(
        self, db: Database, client: Client, health: Health, depends_on: Callable[[str], bool]
    ) -> None:
        """`depends_on`: whether another file here still needs bytes of an item, which the journal knows."""
        self._depends_on = depends_on
        self._db = db
        self._client = client
        self._health = health
        self._places: OrderedDict[Ino, float] = OrderedDict()
        self._returned = 0
        self._told = ""

    def returned(self) -> tuple[int, str]:
        """How many items came back since the start, and a sentence about the last."""
        return self._returned, self._told

    def came_back(self, node: Node, error: errors.RemoteError) -> None:
        """The service has refused a deletion that a program believes in; the item comes back."""
        self._note(node)
        reason = explain(error).message
        self._returned += 1
        folder = self._folder(node)
        place = tree.path(self._db, folder).rstrip("/") if folder is not None else ""
        self._told = f"{place}/{node.name}: {reason} It has been restored."
        log.warning("the service rejected a deletion; the item is restored: %s", reason)

    async def is_left(self, node: Node) -> bool:
        """As `ports.DeleteGuardPort.is_left`."""
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
                pass  # the journal finds out
        return True

    def is_doubtful(self, node: Node) -> bool:
        """As `ports.DeleteGuardPort.is_doubtful`."""
        if node.kind is not NodeKind.FILE or node.remote_id is None or not self._health.can_ask:
            return False
        if self._db.row("SELECT 1 FROM op WHERE ino = ? LIMIT 1", node.ino) is not None:
            return False  # one thing after the other: the journal knows the order
        if self._depends_on(node.remote_id):
            return False
        return self._was_refused(node) or self._is_protected(node)

    async def ask(self, node: Node) -> bool:
        """As `ports.DeleteGuardPort.ask`."""
        assert node.remote_id is not None
        try:
            with trio.move_on_after(WAIT_SECONDS), self._health.request("delete"):
                await self._delete(node.remote_id, node)
                await self._note_taken(node)
                return True
        except errors.NotFound:
            return True
        except errors.Forbidden as error:
            self._note(node)
            log.warning("this cannot be deleted: %s", explain(error).message)
            raise errno_map.oserror(errno.EPERM, node.name) from error
        except errors.RemoteError:
            pass
        # Whatever came of it, the journal finds out.
        return False

    async def _delete(self, file_id: str, node: Node) -> None:
        """Delete the file as it was when it was deleted here, whatever else was changed about it."""
        try:
            await self._client.items.delete("file", file_id, etag=node.etag)
        except errors.PreconditionFailed:
            theirs = await self._client.items.get("file", file_id)
            if theirs.sha1 != node.base_sha1:
                raise
            await self._client.items.delete("file", file_id, etag=theirs.etag)

    def _note(self, node: Node) -> None:
        for place in filter(None, (node.ino, node.parent or self._folder(node))):
            self._places.pop(place, None)
            self._places[place] = clock.monotonic()
        while len(self._places) > PLACES:
            self._places.popitem(last=False)

    def _folder(self, node: Node) -> Ino | None:
        """Where a deleted node was."""
        folder = (
            None
            if node.base_parent is None
            else tree.find_remote(self._db, NodeKind.FOLDER, node.base_parent)
        )
        return None if folder is None else folder.ino

    def _was_refused(self, node: Node) -> bool:
        now = clock.monotonic()
        places = (self._places.get(node.ino), self._places.get(node.parent or 0))
        return any(at is not None and now - at < DOUBT_SECONDS for at in places)

    def _is_protected(self, node: Node) -> bool:
        # At every deletion: most accounts have no policies, and no more is looked at then.
        if not item_details.has_assignments(self._db) or not policies.is_known(self._db):
            return False
        taken = float(kv_store.get(self._db, TAKEN_AT) or 0)
        if 0 <= clock.time() - taken < SURE_SECONDS:
            return False
        return policies.is_covered(self._db, node)

    async def _note_taken(self, node: Node) -> None:
        if self._is_protected(node):
            await self._db.write(lambda conn: kv_store.put(conn, TAKEN_AT, str(int(clock.time()))))
