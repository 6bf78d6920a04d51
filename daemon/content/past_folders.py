"""Determines past contents of folders on demand, from events, the trash and versions.

Events and the trash are requested once, and again for a later moment; the answers are kept while they are in
use and serve requests without the service.
"""

import errno
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.cache.blocks import BlockCache
from cmsfs.client.history.as_of import HistoricalItem, ItemState, Key
from cmsfs.client.history.facts import EventStates, trashed
from cmsfs.client.history.past_tree import HistoricalFolder, PastTree
from cmsfs.client.session import Client
from cmsfs.models import url_files
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import KINDS, ROOT, Ino, Node, NodeKind, nanoseconds
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.past_folders import PastEntries, PastItem
from daemon.core.health import Health
from daemon.core.supervisor import Starts

# Number of moments that are cached, and how long after their last use.
REMEMBERED = 8
FORGET_SECONDS = 900.0


class PastFolders:
    """Implements `PastPort` of the vfs; `user` returns the owner of the drive, `check` raises `OSError` for a
    file that may not be read."""

    def __init__(
        self,
        db: Database,
        client: Client,
        health: Health,
        blocks: BlockCache,
        nursery: Starts,
        *,
        user: Callable[[], str | None],
        check: Callable[[Node], Awaitable[None]],
    ) -> None:
        self._db = db
        self._client = client
        self._health = health
        self._blocks = blocks
        self._nursery = nursery
        self._user = user
        self._check = check
        self._trees: OrderedDict[datetime, PastTree] = OrderedDict()
        self._event_states = EventStates()
        self._trash: dict[Key, ItemState] = {}
        self._heard_at: datetime | None = None
        self._used = 0.0
        self._will_forget = False
        self._turn = trio.Lock()

    async def folder(self, parent: Ino, name: str, moment: datetime) -> PastItem | None:
        """See `PastPort`."""
        above = tree.find(self._db, parent)
        node = above if not name else tree.find_child(self._db, parent, name)
        if (
            node is not None
            and node.is_folder
            and (then := await self._folder_then(node, moment)) is not None
        ):
            return self._item(then)
        # It is newer, or does not exist now: find the folder that had the name then.
        if above is None or not name or (number := self._number(above)) is None:
            return None
        found = await self.entries(number, moment)
        return next((one for one in found.items if one.kind is NodeKind.FOLDER and one.name == name), None)

    async def _folder_then(self, node: Node, moment: datetime) -> HistoricalItem | None:
        if not node.is_folder or (number := self._number(node)) is None:
            return None
        key = ("folder", number)
        past = await self._past(moment)
        if past.is_cached(key):
            return await past.item(key)
        self._health.check()
        with self._health.request("past"):
            return await past.item(key)

    async def entries(self, folder_id: str, moment: datetime) -> PastEntries:
        """See `PastPort`."""
        past = await self._past(moment)
        if (found := past.cached_folder(folder_id)) is None:
            self._health.check()
            with self._health.request("past"):
                found = await past.folder(folder_id)
        return self._entries(folder_id, found)

    def known(self, folder_id: str, moment: datetime) -> PastEntries | None:
        """See `PastPort`."""
        past = self._trees.get(moment)
        found = past.cached_folder(folder_id) if past is not None else None
        return self._entries(folder_id, found) if found is not None else None

    async def check_read(self, item: PastItem) -> None:
        """See `PastPort`."""
        node = tree.find_remote(self._db, item.kind, item.id)
        if node is not None and node.parent is not None:
            if node.is_lost:
                raise errno_map.oserror(errno.EACCES, "it is not shared with you any more")
            await self._check(node)
            return
        if item.sha1 is not None and self._blocks.is_complete(item.sha1):
            return
        self._health.check()
        try:
            with self._health.request("past"):
                await self._client.items.get("file", item.id)
        except errors.NotFound as error:
            # The service does not deliver contents of items in its trash.
            reason = "it is in the trash, or gone; `cmsfs restore` brings back what is in the trash"
            raise errno_map.oserror(errno.EACCES, reason) from error

    def _number(self, node: Node) -> str | None:
        return tree.root_id(self._db) if node.ino == ROOT else node.remote_id

    # ---- what is kept --------------------------------------------------------------------------

    async def _past(self, moment: datetime) -> PastTree:
        self._used = trio.current_time()
        if (past := self._trees.get(moment)) is None:
            async with self._turn:
                if (past := self._trees.get(moment)) is None:
                    past = await self._begin(moment)
        self._trees.move_to_end(moment)
        return past

    async def _begin(self, moment: datetime) -> PastTree:
        if self._heard_at is None or moment > self._heard_at:
            self._health.check()
            now = clock.datetime_now()
            with self._health.request("past"):
                await self._event_states.read(self._client)
                self._trash = await trashed(self._client)
            self._heard_at = now.astimezone()
        past = self._trees[moment] = PastTree(self._client, moment, self._event_states, self._trash)
        if len(self._trees) > REMEMBERED:
            self._trees.popitem(last=False)
        if not self._will_forget:
            self._will_forget = True
            self._nursery.start_soon(self._forget_later)
        return past

    async def _forget_later(self) -> None:
        while True:
            left = self._used + FORGET_SECONDS - trio.current_time()
            if left <= 0:
                break
            await trio.sleep(left)
        self._trees.clear()
        self._event_states, self._trash, self._heard_at = EventStates(), {}, None
        self._will_forget = False

    # ---- as the vfs has it ---------------------------------------------------------------------

    def _entries(self, folder_id: str, found: HistoricalFolder) -> PastEntries:
        is_root = folder_id == tree.root_id(self._db)
        return PastEntries([self._item(one, at_root=is_root) for one in found.items], found.is_complete)

    def _item(self, then: HistoricalItem, *, at_root: bool = False) -> PastItem:
        state, kind = then.state, KINDS[then.key[0]]
        user = self._user()
        # What others share has names that others chose.
        is_foreign = at_root and None not in (user, state.owner) and state.owner != user
        size = len(url_files.text(*state.link)) if state.link is not None else state.size
        return PastItem(
            kind,
            then.key[1],
            naming.file_name(kind, state.name, foreign=is_foreign),
            nanoseconds(state.mtime),
            size,
            state.sha1,
            state.version,
            state.link,
            tuple(sorted(then.unsure)),
        )
