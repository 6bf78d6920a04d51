"""Remote changes from the service's event stream.

An event says which item changed, and how that looked then.  A page is brought down to one verdict for each
item: what the newest event shows of it (`event_reducer`), or what the service says when it is asked, or that
it is gone; all of a page, and the position behind it, are one transaction.

Events may come twice and in any order: what was applied is remembered by its id, and of an item nothing older
than the newest is taken.  An event in a folder that is not known has the folder fetched and listed.  A
position that the service does not know any more, or that is older than it keeps events, begins anew at the
present, and a sweep finds what was missed.

Rule: the stored position never passes an event that is neither applied nor kept (`merge.local_work`).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from sqlite3 import Connection

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

# Services keep events for two weeks at least; a machine that slept so long does not rely on the last days.
KEPT_SECONDS = 10 * 86_400

# Ids of events, and items with the newest that was heard of each.  An id comes again within a minute or so.
REMEMBERED = 10_000

# A chain of folders, none of which is known, is followed so far up.
DEEPEST = 100


@dataclass(slots=True)
class _News:
    """What a page of events comes to, once the service has been asked about what it leaves open."""

    found: list[Item]
    gone: list[RemovedItem]
    # Of these the service says nothing that can be read.
    unread: list[ItemVerdict]
    # Folders of which all content is told by later events.
    empty: list[str]
    # Folders that were out of our sight: what was changed below them then was told to nobody.
    doubted: list[str]


class EventFeed:
    """Implements `poller.Feed` over /events.

    `access_changed` is told of items on which our rights may be others from now on.
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
        self._me: str | None = None
        self._heard: OrderedDict[str, None] = OrderedDict()
        self._newest: OrderedDict[ItemKey, int] = OrderedDict()

    async def begin(self) -> None:
        """Begin at the present, if no position is known: before anything is listed."""
        db = self._context.db
        if kv_store.get(db, kv_store.EVENTS_POSITION) is None:
            # A tree that is known was kept up by something else until now.
            await self._begin_anew(missed=kv_store.get(db, kv_store.CHANGES_SINCE) is not None)

    async def once(self) -> bool:
        """Read the stream to its end."""
        if self._position is None:
            # Whoever asks for a look may come before the first one, after a start without a network.
            await self.begin()
        read_at = kv_store.get(self._context.db, kv_store.EVENTS_READ_AT)
        anew = read_at is not None and clock.time() - float(read_at) > KEPT_SECONDS
        if anew:
            log.info("the event position is too old; comparing the whole tree instead")
            await self._begin_anew(missed=True)
        while True:
            before = self._position or self._stored()
            try:
                with self._context.health.request("poll"):
                    page = await self._context.client.events.since(before)
            except (errors.BadRequest, errors.Gone) as error:
                if anew:
                    # It refuses the very position that it has just given: asking on would only repeat that.
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
            await self._take(page)
            # A page that is not full is the end, for now: of what comes behind it the long poll tells.  And a
            # position that does not advance tells the same again and again.
            if len(page.entries) < PAGE or str(page.next_stream_position) == str(before):
                return True

    def left_out(self) -> list[str]:
        return self._context.remote_updates.misfits.lines()

    async def news(self) -> bool:
        """Wait for the service to say that there is more."""
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

    async def _begin_anew(self, *, missed: bool) -> None:
        with self._context.health.request("poll"):
            position = await self._context.client.events.position()

        def txn(conn: Connection) -> None:
            _keep(conn, position)
            if missed:
                reconciler.schedule(conn, reconciler.FULL)

        await self._context.db.write(txn)
        self._position = position
        # A service that came back from a backup counts on from an older number.
        self._heard.clear()
        self._newest.clear()
        self._context.remote_updates.forget_deleted()

    # ---- a page ----

    async def _take(self, page: events.EventPage) -> None:
        """Apply what a page comes to, and remember it as heard."""
        fresh = [event for event in page.entries if event.event_id not in self._heard]
        touched, verdicts = event_reducer.reduce(self._context.db, fresh, self._newest)
        news = await self._settled(verdicts)
        await self._apply(news, touched=touched, position=page.next_stream_position)
        if unsure := {one.key for one in verdicts if one.is_uncertain}:
            self._access_changed(unsure)
        self.brought += bool(fresh)
        self._position = page.next_stream_position
        for event in fresh:
            self._heard[event.event_id] = None
        for one in verdicts:
            self._newest[one.key] = max(one.sequence or 0, self._newest.pop(one.key, 0))
        for memory in (self._heard, self._newest):
            while len(memory) > REMEMBERED:
                memory.popitem(last=False)

    async def _settled(self, verdicts: Collection[ItemVerdict]) -> _News:
        """What the items are now; those that only the service can say are asked for."""
        news = _News(
            found=[one.item for one in verdicts if one.item is not None],
            gone=[RemovedItem(*one.key, one.sequence) for one in verdicts if one.is_gone],
            unread=[],
            empty=[one.key[1] for one in verdicts if one.is_made and one.key[0] is NodeKind.FOLDER],
            doubted=[],
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
        for item in news.found:
            if item.type == "folder" and item.id in unsure and not await self._is_mine(item):
                news.doubted.append(item.id)
        return news

    async def _apply(self, news: _News, *, touched: Iterable[ItemKey], position: events.Position) -> None:
        """In one transaction; the folders that are `empty` are known by that, what is below the `doubted`
        ones is not known any more."""
        new_folders = self._context.new_folders
        folders = [item for item in news.found if item.type == "folder" and item.id not in news.empty]
        new = new_folders.new_folders(folders) if folders else []
        new += [one for one in news.doubted if one not in new]

        def note(conn: Connection) -> None:
            for one in news.unread:
                local_work.defer(conn, DeferredUpdate(*one.key, one.sequence or 0))
            for kind, item_id in touched:
                item_details.mark_stale(conn, kind, item_id)
            for folder_id in news.empty:
                node = tree.remote_at(conn, NodeKind.FOLDER, folder_id)
                if node is not None:
                    tree.mark_listed(conn, node.ino, at=int(clock.time()))
            for folder_id in news.doubted:
                node = tree.remote_at(conn, NodeKind.FOLDER, folder_id)
                if node is not None:
                    tree.mark_unlisted_below(conn, node.ino)
            _keep(conn, position)

        await self._context.remote_updates.apply(news.found, news.gone, note=note)
        above = {one.parent.id for one in news.found if one.parent is not None}
        if above - {apply_remote.ROOT_ID}:
            new += await self._find_parents(above)
        if new:
            new_folders.list_soon(new)

    async def _is_mine(self, item: Item) -> bool:
        """Whether it belongs to this account: then nothing of it was ever out of sight."""
        if self._me is None:
            with self._context.health.request("poll"):
                self._me = (await self._context.client.users.me()).id
        return remote_from_item(item).user_id("owned_by") == self._me

    async def _find_parents(self, wanted: set[str]) -> list[str]:
        """Fetch folders that items are in and nobody has told us of, up to one that is known."""
        fetched: list[str] = []
        for _ in range(DEEPEST):
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
        # The highest first: what is below it is listed with it.
        return fetched[::-1]


def _keep(conn: Connection, position: events.Position) -> None:
    kv_store.put(conn, kv_store.EVENTS_POSITION, str(position))
    kv_store.put(conn, kv_store.EVENTS_READ_AT, str(int(clock.time())))


def _is_behind(new: events.Position, old: events.Position) -> bool:
    """Whether the stream has ended before where we were: it is another one."""
    before, now = (str(one).lstrip("0") for one in (old, new))
    numbers = all(one.isascii() and one.isdigit() for one in (str(old), str(new)))
    return numbers and (len(now), now) < (len(before), before)
