"""The account's permissions on items that others own.

Rights are not among the fields of listings: they would make a page half as large again and twice as expensive
to decode (measured: 120 to 181 kB, 10 to 22 ms), and the account has all rights on its own items.  So the
rights on a shared item are requested separately, once, on first use; items below a shared folder have the
rights of the folder's role, and where that is not all rights, one search finds the exceptions.

Rule: unknown rights count as granted.  A refusal is based on the service's answer about that very item, or
the shared folder above it.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable

import trio

from cmsfs import errors
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.models.content import items
from cmsfs.models.content.search import MAX_LIMIT, Query
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.sharing import lost_access, shares
from cmsfs.sqlite import Database
from cmsfs.vfs.permissions import ALL, NONE, NodeRight
from daemon.account.file_locks import FileLocks
from daemon.core import item_search
from daemon.core.health import Health
from daemon.core.supervisor import Starts

log = logging.getLogger(__name__)

# Cache time: a changed role takes effect after this, if no event reports it.
FRESH_SECONDS = 600.0

# Time limit of an open for the rights; afterwards the service checks them with the download.
WAIT_SECONDS = 5.0

# Limit of cached owners; one takes about 100 bytes.
OWNERS = 10_000

FIELDS = ["id", "type", "permissions"]


class RightsReader:
    """The rights on nodes, as far as the service has reported them."""

    def __init__(
        self,
        db: Database,
        client: Client,
        hub: Hub,
        health: Health,
        nursery: Starts,
        file_locks: FileLocks,
        *,
        for_reading: bool = False,
    ) -> None:
        """`for_reading`: the drive was mounted for reading only, so nobody may write, whatever their role."""
        self._for_reading = for_reading
        self.user_id: str | None = None  # whose drive this is
        self._db = db
        self._client = client
        self._hub = hub
        self._health = health
        self._nursery = nursery
        self._file_locks = file_locks
        # Missing rights: on the node itself, and on everything below it.
        self.said: dict[Ino, tuple[NodeRight, NodeRight]] = {}
        self._asked_at: dict[Ino, float] = {}
        # Requests under way; the event is set once the item's own rights are known.
        self._asking: dict[Ino, trio.Event] = {}
        self._doubted: set[Ino] = set()  # something changed while they were being asked about
        # Searches for exceptions under way, and folders where the last one ended early.
        self._sweeps: dict[Ino, trio.CancelScope] = {}
        self._unswept: set[Ino] = set()
        self._owners: OrderedDict[Ino, tuple[str | None, bool]] = (
            OrderedDict()
        )  # etag, and whether it is ours

    @property
    def is_read_only(self) -> bool:
        return self._health.is_read_only

    def close_root(self) -> None:
        """Forbid changes in the root, which is no folder of the service."""
        self.said[ROOT] = (NodeRight.READ | NodeRight.LEAVE, ALL)

    def on(self, node: Node) -> NodeRight:
        """Return the rights on a node, without those removed by somebody else's lock or unsupported by the
        service."""
        rights = self.of(node) if self.said else ALL
        if self._client.offers.lacking and node.remote_id is not None and not node.is_folder:
            change = Ability.CHANGES if node.kind is NodeKind.LINK else Ability.VERSIONS
            rights = rights & ~NodeRight.WRITE if change in self._client.offers.lacking else rights
        if self._for_reading:
            rights &= ~NodeRight.WRITE
        return rights & self._file_locks.rights(node) if self._file_locks.known else rights

    def reason(self, node: Node) -> str | None:
        """Return why somebody else's lock prevents a change, and until when."""
        lock = self._file_locks.of(node.ino)
        return lock.reason if lock is not None else None

    def of(self, node: Node) -> NodeRight:
        """Return the rights of the account's role on a node; all if none are known to be missing."""
        if not self.said or node.remote_id is None or node.is_lost:
            return ALL  # an item we lost access to stays here for the user to decide
        if (said := self.said.get(node.ino)) is not None:
            return said[0]
        current = node.parent
        while current is not None:
            if (said := self.said.get(current)) is not None:
                return _below(node.kind, said[1])
            above = tree.find(self._db, current)
            current = above.parent if above is not None else None
        return ALL

    def unreadable(self) -> list[Ino]:
        """Return nodes whose contents, or those below them, may not be read."""
        return [ino for ino, said in self.said.items() if NodeRight.READ not in said[0] & said[1]]

    async def learn(self, node: Node) -> NodeRight:
        """Like `on`, after requesting rights needed to use this node, if it belongs to somebody else and they
        are not known.

        Waits a few seconds at most, and never fails.
        """
        shared = self._shared(node)
        if shared is not None and not self._is_fresh(shared):
            asking = self._asking.get(shared.ino)
            if asking is None and self._health.can_ask:
                asking = self._begin(shared)
            if asking is not None:
                with trio.move_on_after(WAIT_SECONDS):
                    await asking.wait()
        return self.on(node) if self.said or self._file_locks.known else ALL

    def _is_fresh(self, shared: Node) -> bool:
        return trio.current_time() - self._asked_at.get(shared.ino, float("-inf")) < FRESH_SECONDS

    def doubt(self, found: Iterable[tuple[NodeKind, str]]) -> None:
        """Refresh the rights of these items, whose roles may have changed, if they were requested before."""
        for kind, item_id in found:
            node = tree.find_remote(self._db, kind, item_id)
            shared = self._shared(node) if node is not None else None
            if shared is None or shared.ino not in self._asked_at.keys() | self._asking.keys():
                continue
            self._asked_at.pop(shared.ino, None)
            if shared.ino in self._asking:
                self._doubted.add(shared.ino)
                if self._asking[shared.ino].is_set():
                    self._asking[shared.ino] = trio.Event()
                if (sweep := self._sweeps.get(shared.ino)) is not None:
                    sweep.cancel()
            else:
                self._begin(shared)

    def _begin(self, shared: Node) -> trio.Event:
        asking = self._asking[shared.ino] = trio.Event()
        self._nursery.start_soon(self._ask_until_certain, shared)
        return asking

    def _shared(self, node: Node) -> Node | None:
        """Return the topmost foreign folder above the node, or the node itself: what was shared with us."""
        found: Node | None = None
        current: Node | None = node
        while current is not None and current.ino != ROOT and not self._is_ours(current):
            found = current
            current = tree.find(self._db, current.parent) if current.parent is not None else None
        return found

    def _is_ours(self, node: Node) -> bool:
        if self.user_id is None or node.remote_id is None:
            return True
        known = self._owners.get(node.ino)
        if known is None or known[0] != node.etag:
            known = self._owners[node.ino] = (
                node.etag,
                shares.owner_id(self._db, node.ino) in (None, self.user_id),
            )
            if len(self._owners) > OWNERS:
                self._owners.popitem(last=False)
        return known[1]

    # ---- requests ----

    async def _permissions(self, node: Node, item_id: str) -> items.Permissions | None:
        if Ability.ITEMS in self._client.offers.lacking:
            find = item_search.find(self._db, self._client, node.kind, item_id, fields=["permissions"])
            return getattr(await find, "permissions", None)
        of = self._client.folders if node.is_folder else self._client.files
        return await of.permissions(item_id)

    async def _ask_until_certain(self, node: Node) -> None:
        try:
            await self._ask(node)
            while node.ino in self._doubted and self._health.can_ask:
                self._doubted.discard(node.ino)
                await self._ask(node)
        finally:
            self._asking.pop(node.ino).set()
            if node.ino in self._doubted:
                self._doubted.discard(node.ino)
                self._asked_at.pop(node.ino, None)

    async def _ask(self, node: Node) -> None:
        try:
            assert node.remote_id is not None
            with self._health.request("rights"):
                found = await self._permissions(node, node.remote_id)
            if node.ino in self._doubted:
                return
            self._asked_at[node.ino] = trio.current_time()
            before, told = self.said.get(node.ino), _told(node.kind, found)
            self.said[node.ino] = told
            if told[0] == told[1] == ALL:
                del self.said[node.ino]
            if before != told and NodeRight.READ not in told[0] & told[1]:
                await self._db.write(lost_access.note_wipe)
            if before != told:
                self._hub.publish([Change(ChangeKind.ATTRIBUTES, node.ino)])
            if node.is_folder and (told[1] != ALL or before is not None or node.ino in self._unswept):
                self._asking[node.ino].set()
                self._unswept.add(node.ino)
                with trio.CancelScope() as self._sweeps[node.ino]:
                    await self._sweep(node, told[1])
                    self._unswept.discard(node.ino)
        except errors.RemoteError as error:
            if isinstance(error, errors.NotShown):
                self._asked_at[node.ino] = trio.current_time()  # it would cost a search at every use
            log.info("the permissions on %s could not be read: %s", node.name, error)
        finally:
            self._sweeps.pop(node.ino, None)

    async def _sweep(self, top: Node, below: NodeRight) -> None:
        """Find items below a shared folder with other rights than it gives.

        Items beyond the first ten thousand results keep the folder's rights.
        """
        assert top.remote_id is not None
        query = Query(query=EVERYTHING, ancestor_folder_ids=[top.remote_id], fields=FIELDS, limit=MAX_LIMIT)
        with self._health.request("rights"):
            async for item in self._client.search.entries(query):
                self._compare(item, below)

    def _compare(self, item: items.Item, below: NodeRight) -> None:
        node = tree.find_remote(self._db, NodeKind(item.type), item.id)
        permissions = getattr(item, "permissions", None)
        if node is None or permissions is None:
            return
        told = _told(node.kind, permissions)
        self.said.pop(node.ino, None)
        if told[0] != _below(node.kind, below) or (node.is_folder and told[1] != below):
            self.said[node.ino] = told
        self._hub.publish([Change(ChangeKind.ATTRIBUTES, node.ino)])


def _told(kind: NodeKind, found: items.Permissions | None) -> tuple[NodeRight, NodeRight]:
    """Return the rights on an item and on everything below it; those not reported count as granted."""
    if found is None:
        return ALL, ALL
    read, write = found.can_download is not False, found.can_upload is not False
    rename, delete = found.can_rename is not False, found.can_delete is not False
    itself = _rights(read, rename if kind is NodeKind.LINK else write, rename, delete)
    # Permission to rename a folder includes moving and deleting its contents; the folder itself is its
    # owner's.
    return itself, _rights(read, write, rename, rename)


def _rights(read: bool, write: bool, rename: bool, delete: bool) -> NodeRight:
    granted = (
        (NodeRight.READ, read),
        (NodeRight.WRITE, write),
        (NodeRight.RENAME, rename),
        (NodeRight.DELETE, delete),
    )
    found = NodeRight.LEAVE
    for right, is_given in granted:
        found |= right if is_given else NONE
    return found


def _below(kind: NodeKind, folder: NodeRight) -> NodeRight:
    """Return the rights that a folder gives on an item in it.

    Permission to upload into a folder does not include changing existing files; the address of a web link
    counts as one of its properties, like its name.
    """
    if kind is NodeKind.FOLDER:
        return folder
    may_change = NodeRight.RENAME in folder if kind is NodeKind.LINK else NodeRight.READ in folder
    return folder if may_change else folder & ~NodeRight.WRITE
