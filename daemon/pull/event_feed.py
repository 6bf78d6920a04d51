"""Remote changes from the service's event stream.

An event names the item that changed, with its state at that time.  A page is reduced to one verdict for each
item: the state in the newest event (`event_reducer`), or the service's answer to a request, or that it is
gone. The changes of a page and the new stream position are one transaction.

Events may arrive twice and in any order: applied event IDs are remembered, and an event older than the newest
known one of its item is ignored.  For an event in an unknown folder, the folder is requested and listed.  If
the service no longer recognises the position, or the position is older than the retention of events, the feed
starts anew at the present, and a sweep finds what was missed.

Rule: the stored position never passes an event that is neither applied nor deferred (`merge.local_work`).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.client.content.events import PAGE
from cmsfs.models.content import events
from cmsfs.replica import item_details, kv_store, tree
from cmsfs.replica.merge import apply_remote, local_work
from cmsfs.replica.merge.local_work import DeferredUpdate
from cmsfs.replica.nodes import ItemKey, NodeKind, remote_from_item
from cmsfs.runtime import clock
from daemon.account import access_loss
from daemon.core.remote_updates import RemovedItem
from daemon.pull import event_reducer, reconciler
from daemon.pull.context import Item, PullContext
from daemon.pull.event_reducer import ItemVerdict

log = logging.getLogger(__name__)

# Services keep events for at least two weeks; after a sleep this long the last days are not relied on.
KEPT_SECONDS = 10 * 86_400

# Limit of remembered event IDs, and of items with their newest event.  A repeated ID follows within a minute
# or so.
MAX_REMEMBERED = 10_000

# Maximum length of a chain of unknown folders that is followed upwards.
MAX_DEPTH = 100


@dataclass(slots=True)
class _PageChanges:
    """The changes of a page of events, after requests for what the events left open."""

    found: list[Item]
    gone: list[RemovedItem]
    # Items without a usable answer.
    unread: list[ItemVerdict]
    # New folders whose whole content is reported by later events.
    empty: list[str]
    # Folders that were invisible to us, or in the trash: changes below them in that time were not reported.
    uncertain: list[str]


class EventFeed:
    """Implements `poller.Feed` over /events.

    `access_changed` is called with items on which our permissions may have changed.
    """

    can_wait = True

    def __init__(
        self,
        context: PullContext,
        *,
        access_changed: Callable[[Collection[ItemKey]], None] = lambda _: None,
    ) -> None:
        self._context = context
        self._access_changed = access_changed
        self.brought = self.read = 0
        self._position: events.Position | None = None
        # Of two positions the later one would leave out what came between them.
        self._beginning = trio.Lock()
        self._me: str | None = None
        self._applied_ids: OrderedDict[str, None] = OrderedDict()
        self._newest: OrderedDict[ItemKey, int] = OrderedDict()

    async def begin(self, *, is_late: bool = False) -> None:
        """Set the position to the present if none is stored; call it before the first listing.

        `is_late`: something may have been listed, or its listing be under way.
        """
        async with self._beginning:
            if kv_store.get(self._context.db, kv_store.EVENTS_POSITION) is None:
                await self._begin_anew(missed=is_late)

    async def once(self) -> bool:
        """Read the stream to its end."""
        if self._position is None:
            # A poll may be requested before the first one, after a start without a network.
            await self.begin(is_late=True)
        read_at = kv_store.get(self._context.db, kv_store.EVENTS_READ_AT)
        anew = read_at is not None and clock.time() - float(read_at) > KEPT_SECONDS
        if anew:
            log.info("the event position is too old; comparing the whole tree instead")
            # This machine slept; the service counts on.
            await self._begin_anew(missed=True, is_same_service=True)
        while True:
            before, asked_at = self._position or self._stored(), clock.time()
            try:
                with self._context.health.request("poll"):
                    page = await self._context.client.events.since(before)
            except (errors.BadRequest, errors.Gone) as error:
                if anew:
                    # The service rejects the position that it has just given: a retry would repeat that.
                    raise errors.ProtocolError(
                        f"the service rejects the event position that it issued: {error}"
                    ) from error
                log.info("the service does not recognize the event position: %s", error)
                anew = True
                await self._begin_anew(missed=True)
                continue
            if not anew and _is_behind(page.next_stream_position, before):
                log.info("the service's event stream was reset; comparing the whole tree instead")
                anew = True
                await self._begin_anew(missed=True)
                continue
            await self._apply_page(page, asked_at)
            # A partial page is the end for now, and the long poll announces more.  A position that does not
            # advance would return the same page again and again.
            if len(page.entries) < PAGE or str(page.next_stream_position) == str(before):
                return True

    def left_out(self) -> list[str]:
        return self._context.remote_updates.misfits.lines()

    async def news(self) -> bool:
        """Wait until the service announces more events."""
        health = self._context.health
        health.requests["wait"] += 1
        try:
            return await self._context.client.events.wait(self._position or self._stored())
        except errors.RemoteError as error:
            health.failed(error)
            raise

    # ---- positions ----

    def _stored(self) -> events.Position:
        self._position = kv_store.get(self._context.db, kv_store.EVENTS_POSITION)
        assert self._position is not None, "begin() comes first"
        return self._position

    async def _begin_anew(self, *, missed: bool, is_same_service: bool = False) -> None:
        asked_at = clock.time()
        with self._context.health.request("poll"):
            position = await self._context.client.events.position()

        def txn(conn: Connection) -> None:
            _keep(conn, position, asked_at)
            reconciler.schedule_for_listings(conn)
            if missed:
                reconciler.schedule(conn, reconciler.FULL)
            if not is_same_service:
                self._context.remote_updates.forget_deleted(conn)

        await self._context.db.write(txn)
        self._context.wake_sweep()
        self._position = position
        # A service restored from a backup continues from an older number.
        self._applied_ids.clear()
        self._newest.clear()

    # ---- a page ----

    async def _apply_page(self, page: events.EventPage, asked_at: float) -> None:
        """Apply a page and remember its events.  `asked_at`: when it was requested."""
        fresh = [event for event in page.entries if event.event_id not in self._applied_ids]
        touched, verdicts = event_reducer.reduce(self._context.db, fresh, self._newest)
        news = await self._resolve(verdicts)
        await self._apply(news, touched=touched, position=page.next_stream_position, asked_at=asked_at)
        if unsure := {one.key for one in verdicts if one.is_uncertain}:
            self._access_changed(unsure)
        self.brought += bool(fresh)
        self._position = page.next_stream_position
        for event in fresh:
            self._applied_ids[event.event_id] = None
        for one in verdicts:
            self._newest[one.key] = max(one.sequence or 0, self._newest.pop(one.key, 0))
        for memory in (self._applied_ids, self._newest):
            while len(memory) > MAX_REMEMBERED:
                memory.popitem(last=False)

    async def _resolve(self, verdicts: Collection[ItemVerdict]) -> _PageChanges:
        """Resolve the verdicts; items that events leave open are requested."""
        news = _PageChanges(
            found=[one.item for one in verdicts if one.item is not None],
            gone=[RemovedItem(*one.key, one.sequence) for one in verdicts if one.is_gone],
            unread=[],
            empty=[one.key[1] for one in verdicts if one.is_made and one.key[0] is NodeKind.FOLDER],
            uncertain=[],
        )
        if asked := [one for one in verdicts if one.item is None and not one.is_gone]:
            answers = await self._context.ask([one.key for one in asked])
            news.found += answers.found
            news.gone += answers.gone
            news.unread += [one for one in asked if one.key in answers.unread]
        if news.gone:
            news.found += await access_loss.still_visible(
                self._context.db, self._context.client, self._context.health, news.gone
            )
        unsure = {one.key[1] for one in verdicts if one.is_uncertain and one.key[0] is NodeKind.FOLDER}
        restored = {one.key[1] for one in verdicts if one.is_restored and one.key[0] is NodeKind.FOLDER}
        for item in news.found:
            if item.type != "folder":
                continue
            if item.id in restored or (item.id in unsure and not await self._is_mine(item)):
                news.uncertain.append(item.id)
        return news

    async def _apply(
        self, news: _PageChanges, *, touched: Iterable[ItemKey], position: events.Position, asked_at: float
    ) -> None:
        """Apply the changes in one transaction; folders in `empty` become listed, folders below `uncertain`
        ones unlisted."""
        new_folders = self._context.new_folders
        folders = [item for item in news.found if item.type == "folder" and item.id not in news.empty]
        new = new_folders.new_folders(folders) if folders else []
        new += [one for one in news.uncertain if one not in new]

        def note(conn: Connection) -> None:
            for one in news.unread:
                # A change of access has no number, so that no known state tells that it is settled.
                sequence = None if one.is_uncertain else one.sequence
                number = local_work.ANYHOW if sequence is None else sequence
                local_work.defer(conn, DeferredUpdate(*one.key, number))
            for kind, item_id in touched:
                item_details.mark_stale(conn, kind, item_id)
            for folder_id in news.empty:
                node = tree.remote_at(conn, NodeKind.FOLDER, folder_id)
                if node is not None:
                    tree.mark_listed(conn, node.ino, at=int(clock.time()))
            for folder_id in news.uncertain:
                node = tree.remote_at(conn, NodeKind.FOLDER, folder_id)
                if node is not None:
                    tree.mark_unlisted_below(conn, node.ino)
            _keep(conn, position, asked_at)

        await self._context.remote_updates.apply(news.found, news.gone, note=note)
        above = {one.parent.id for one in news.found if one.parent is not None}
        if above - {apply_remote.ROOT_ID}:
            new += await self._find_parents(above)
        if new:
            new_folders.list_soon(new)

    async def _is_mine(self, item: Item) -> bool:
        """Whether it belongs to this account, so that none of it was ever invisible."""
        if self._me is None:
            with self._context.health.request("poll"):
                self._me = (await self._context.client.users.me()).id
        return remote_from_item(item).user_id("owned_by") == self._me

    async def _find_parents(self, wanted: set[str]) -> list[str]:
        """Request unknown parent folders of items, up to one that is known."""
        fetched: list[str] = []
        for _ in range(MAX_DEPTH):
            unknown: list[ItemKey] = []
            for folder_id in wanted - {apply_remote.ROOT_ID}:
                node = tree.find_remote(self._context.db, NodeKind.FOLDER, folder_id)
                if node is None or node.etag is None:
                    unknown.append((NodeKind.FOLDER, folder_id))
            if not unknown:
                break
            answers = await self._context.ask(unknown)
            await self._context.remote_updates.apply(answers.found, answers.gone)
            fetched += [item.id for item in answers.found]
            wanted = {item.parent.id for item in answers.found if item.parent is not None}
        # Topmost first: folders below it are listed with it.
        return fetched[::-1]


def _keep(conn: Connection, position: events.Position, asked_at: float) -> None:
    kv_store.put(conn, kv_store.EVENTS_POSITION, str(position))
    # When it was requested: the machine may have slept until the response, and events have expired.
    kv_store.put(conn, kv_store.EVENTS_READ_AT, str(int(asked_at)))


def _is_behind(new: events.Position, old: events.Position) -> bool:
    """Whether the stream ends before our position: then it is another stream."""
    before, now = (str(one).lstrip("0") for one in (old, new))
    numbers = all(one.isascii() and one.isdigit() for one in (str(old), str(new)))
    return numbers and (len(now), now) < (len(before), before)
