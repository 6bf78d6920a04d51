"""Dependencies of the pull agents, and requests for single items."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import entries, items
from cmsfs.replica import kv_store
from cmsfs.replica.nodes import ItemKey
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates, RemovedItem
from daemon.listing import deletion_check
from daemon.pull.new_folders import NewFolders

FETCHES_AT_ONCE = 8

Item = items.Item | entries.Entry


@dataclass(slots=True)
class ItemAnswers:
    """The service's answers about single items; `unread` are those without a usable answer."""

    found: list[Item] = field(default_factory=list)
    gone: list[RemovedItem] = field(default_factory=list)
    unread: set[ItemKey] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PullContext:
    """Dependencies of the feeds and of `DeferredUpdates`."""

    db: Database
    client: Client
    remote_updates: RemoteUpdates
    health: Health
    new_folders: NewFolders
    # Set when a sweep is due.
    sweep_due: Signal = field(default_factory=Signal)

    def wake_sweep(self) -> None:
        """Let a sweep that was scheduled begin at once."""
        if kv_store.get(self.db, kv_store.SWEEP_DUE) is not None:
            self.sweep_due.set()

    async def ask(self, keys: Iterable[ItemKey]) -> ItemAnswers:
        """Request the current state of these items.  Raises `RemoteError`."""
        answers, gone = ItemAnswers(), list[ItemKey]()

        async def ask(key: ItemKey) -> None:
            try:
                item = await deletion_check.fetch_item(self.client, self.health, *key, db=self.db)
            except errors.NotShown:
                answers.unread.add(key)
                return
            except errors.ProtocolError as error:
                # One bad answer must not block the others.
                self.remote_updates.misfits.note(*key, f"the service's response is malformed: {error}")
                answers.unread.add(key)
                return
            if item is None:
                gone.append(key)
            else:
                answers.found.append(item)

        with self.remote_updates.watching() as shown:
            await concurrency.for_each(list(keys), ask, tasks=FETCHES_AT_ONCE)
        # An item may be shown again while the answers about others are waited for.
        answers.unread.update(key for key in gone if key in shown)
        # Newer than anything received before.
        answers.gone += [RemovedItem(*key) for key in gone if key not in shown]
        return answers
