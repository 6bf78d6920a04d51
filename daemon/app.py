"""The composition root: builds every object and starts every task.

    state     lock, database, recovery of journal and cache
    backend   the service: embedded in this process, or far away
    agents    everything that runs beside the mount
    mount     the kernel's requests

They end in the opposite order: the mount first, so that no new change comes; then what is left is uploaded,
for as long as the settings allow; then the agents are cancelled, and the state is closed.

Rule: a change that a program was told of is in the journal; so ending early, anywhere, loses nothing.
"""

import functools
import logging
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from cmsfs import config, errors, mountpoint_guard, mounts
from cmsfs.auth.deadline import Deadline
from cmsfs.client.session import Client
from cmsfs.fuse import convert, mount, notifier, operations
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.journal.sealing import Sealer
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.user_messages import explain
from cmsfs.vfs.heuristics.copy_detector import CopyDetector
from cmsfs.vfs.tree.filesystem import Filesystem
from daemon import downscoped, instance_lock, maintenance, manifest_writer, metrics
from daemon.account.account import Account
from daemon.account.file_locks import FileLocks
from daemon.account.login_watch import LoginWatch
from daemon.account.pausing import Pausing
from daemon.account.permissions import RightsReader
from daemon.content.delete_guard import DeleteGuard
from daemon.content.document_locks import DocumentLocks
from daemon.content.item_details import ItemDetails
from daemon.content.trash import RemoteTrash
from daemon.control import disk_status, server
from daemon.control.commands import Answers
from daemon.control.status import StatusReport
from daemon.core import concurrency, request_scheduler
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.core.request_scheduler import Priority, RequestScheduler
from daemon.core.supervisor import Starts, Supervisor
from daemon.desktop.notifications import Notifications
from daemon.desktop.thumbnails import Thumbnails
from daemon.fetch.eviction import Eviction
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins, Wakes
from daemon.listing import choice
from daemon.listing.crawler import Crawler
from daemon.listing.deletion_check import DeletionCheck
from daemon.listing.search_lister import list_in_background
from daemon.local_state import LocalState, open_state
from daemon.mount_tree import build
from daemon.pull.activity import Activity
from daemon.pull.base_bytes import BaseBytes
from daemon.pull.deferred_updates import DeferredUpdates
from daemon.pull.event_feed import EventFeed
from daemon.pull.new_folders import NewFolders
from daemon.pull.poller import Poller
from daemon.pull.reconciler import Reconciler
from daemon.pull.search_feed import SearchFeed
from daemon.push import rejected
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher
from daemon.push.metadata_writer import MetadataWriter
from daemon.sharing.offers import Offers
from daemon.sharing.regained_access import RegainedAccess
from daemon.sharing.shared_items import SharedItems
from daemon.sharing.wipe import Wiper
from daemon.shutdown import Shutdown
from daemon.systemd import SystemdNotifier

log = logging.getLogger(__name__)

# A first start would like to show something; a later one only wants to know whether the credentials hold.
FIRST_CONTACT_SECONDS = 20.0
CONTACT_SECONDS = 5.0
# Programs that worked on the drive stand before nothing meanwhile.
CONTACT_AFTER_CRASH_SECONDS = 0.5


async def run(
    settings: config.Settings,
    *,
    mountpoint: Path,
    create: bool,
    sample: bool,
    ready: Callable[[str], None],
) -> None:
    """Serve the drive until it is asked to end; `ready` is called when the mount answers, with what the
    person should know about it.

    Raises `UserError` if it cannot start.
    """
    place = mounts.located(mountpoint)
    settings.paths.ensure()
    async with AsyncExitStack() as stack:
        stack.enter_context(instance_lock.single_instance(settings.paths.lock, account=settings.place))
        state = await stack.enter_async_context(open_state(settings))
        pace = RequestScheduler(config.profile(settings).limits)
        deadline = Deadline(settings.ttl_seconds)
        opened = downscoped.open_service(settings, state.db, sample=sample, pace=pace, deadline=deadline)
        client = await stack.enter_async_context(opened)
        nursery = await stack.enter_async_context(trio.open_nursery())
        agents = Supervisor(nursery)
        drive = Agent(settings, place, state, client, agents, pace)
        note = await drive.contact()
        await drive.fs.begin()
        agents.keep(drive.shutdown.heed_signals, drive.pull.poke, name="signals")
        agents.keep(downscoped.watch_deadline, deadline, drive.health, name="deadline")
        async with server.listening(settings.paths.socket) as listener:
            drive.start(agents, listener)
            await drive.serve(settings, create=create, ready=functools.partial(ready, note))
        nursery.cancel_scope.cancel()
    log.info("shut down cleanly")


class Agent(Answers):
    """Holds every object of one drive; the composition root."""

    def __init__(
        self,
        settings: config.Settings,
        mountpoint: Path,
        state: LocalState,
        client: Client,
        nursery: Starts,
        pace: RequestScheduler | None = None,
    ) -> None:
        db, blocks, drafts = state.db, state.blocks, state.drafts
        self.state = state
        self.settings = settings
        self.client = client
        self.mountpoint = mountpoint
        self.shutdown = Shutdown(settings.drain_seconds)
        self._local_days = settings.local_days
        self._recovered = settings.paths.recovered
        self.health = Health()
        self.watchdog = SystemdNotifier()
        self.pace = pace or RequestScheduler(config.profile(settings).limits)
        self.pausing = Pausing(db, self.health, self.pace)
        self.hub = Hub()
        rights = RightsReader(db, client, self.hub, self.health, nursery)
        self.locks = FileLocks(db, self.hub, lambda: rights.user_id)
        owner_of = None if config.profile(settings).embedded else db
        self.incoming = RemoteUpdates(db, self.hub)
        self.sharing = SharedItems(db, self.incoming, self.hub, settings)
        self.account = Account(
            *(client, self.health, rights, self.locks),
            read_only=settings.read_only,
            owner_of=owner_of,
            belongs_to=self.sharing.belongs_to,
        )
        self.login_watch = LoginWatch(settings, self.health)
        self.deletion_check = DeletionCheck(db, client, self.incoming, self.health)
        self.document_locks = (
            DocumentLocks(db, client, self.incoming, self.health) if settings.lock_open_documents else None
        )
        lister, whole, deepen = choice.choose_listers(
            config.profile(settings),
            db=db,
            client=client,
            incoming=self.incoming,
            health=self.health,
            deletion_check=self.deletion_check,
            opened=lambda folder: self.crawl.opened(folder),
        )
        self.hydrate = Hydrator(
            *(db, client, blocks, lister, self.health, nursery),
            hub=self.hub,
            network_seconds=settings.network_seconds,
        )
        self.offers = Offers(db, client, self.incoming, self.hydrate, self.health)
        self.commit = GroupCommit(db, drafts.root)
        sealer = Sealer(db, drafts, blocks, self.hydrate, self.commit)
        self.base_bytes = BaseBytes(db, blocks, self.hydrate, self.health)
        self.delete_guard = DeleteGuard(db, client, self.health, self.base_bytes.depends_on)
        self.copy_detector = CopyDetector()
        templates = MetadataWriter(client, self.health)
        self.kit = kit = PushContext(
            *(db, client, blocks, drafts, sealer, self.incoming, self.hydrate, self.health, self.commit),
            settle_seconds=settings.settle_seconds,
            profile=config.profile(settings),
            web_links=settings.web_links,
            full=self.account.doubt_space,
            came_back=self.delete_guard.came_back,
            before_deletion=self.base_bytes.before_deletion,
            ended=lambda ino: self.fs.consider(ino),
            copied_from=self.copy_detector.sources,
            templates=templates,
        )
        self.push = Dispatcher(kit, workers=settings.upload_workers)
        self.pins = Pins(db, blocks, self.hydrate, self.health, self.hub)
        self.wiper = Wiper(db, blocks, self.hydrate, self.pins, self.hub, rights, mountpoint)
        self._eviction = Eviction(db, blocks, self.hydrate, self.pins, self.hub)
        self.facts = ItemDetails(db, client, self.health, nursery, templates)
        self.fs = Filesystem(
            *(
                db,
                blocks,
                drafts,
                self.commit,
                self.hydrate,
                Wakes(self.push, self.pins, self.base_bytes),
                self.account,
            ),
            settle_seconds=settings.settle_seconds,
            local_names=settings.local_names,
            confirm=self._confirm if settings.fsync == "remote" else None,
            keep=self.pins.set,
            watcher=self.document_locks,
            facts=self.facts,
            delete_guard=self.delete_guard,
            publish=self.hub.publish,
            reserve=state.reserve,
        )
        self.hub.subscribe(self.fs.heard)
        self._fsync_seconds = settings.fsync_seconds
        bin_ = RemoteTrash(kit, self.push, self.account)
        self.thumbnails = (
            Thumbnails(db, client, self.health, mountpoint, config.thumbnails_folder())
            if settings.thumbnails
            else None
        )
        self.shown = build(
            *(self.fs, kit, self.hub),
            bin_=bin_,
            account=self.account,
            settings=settings,
            thumbnails=self.thumbnails,
        )
        self.notifier = notifier.Notifier(self.hub, self.shown)
        arrived = NewFolders(db, self.hydrate)
        # A token that was cut down to a folder does not hear of what happens, only what there is.
        by_events = config.profile(settings).feed == "events" and not settings.is_narrowed
        parts = (db, client, self.incoming, self.health, arrived)
        feed = EventFeed(*parts, access_changed=self._access_changed) if by_events else SearchFeed(*parts)
        self.regained_access = RegainedAccess(kit, self.push, arrived)
        self.deferred_updates = DeferredUpdates(*parts)
        self.pull = Poller(
            *(feed, self.hydrate, self.health),
            seconds=settings.poll_seconds,
            idle_seconds=settings.idle_poll_seconds,
            is_used=Activity(self.fs.inodes, self.health, self.incoming),
            settle=self.deferred_updates.settle,
        )
        self.sweep = Reconciler(
            *(db, client, self.incoming, self.health, arrived, self.deletion_check),
            poll=self.pull.poll,
            fill=None if whole is not None else functools.partial(list_in_background, lister),
            full_seconds=settings.full_compare_hours * 3600,
        )
        self.notifications = Notifications(
            *(settings, db, self.health, self.hub, lambda: self.pins.problem),
            returned=self.delete_guard.returned,
            shared=self.sharing.told,
        )
        self.crawl = Crawler(db, self.health, whole, self.hydrate.listing, deepen)
        self._status = StatusReport(
            *(settings, mountpoint, db, blocks, self.health, self.hydrate, self.push, self.pull),
            *(self.crawl, whole, self.pins, self.pace, self.pausing, self.fs.inodes),
            disk=lambda: disk_status.problems(state.reserve, state.blocks),
        )
        self.server = server.ControlServer(db, self.health, self)

    def _access_changed(self, items: Collection[tuple[NodeKind, str]]) -> None:
        """Others may have given or taken rights on these items (kind, id)."""
        self.account.rights_changed(items)
        self.regained_access.told()

    async def contact(self) -> str:
        """The first words with the service; what a person should know if there were none.

        Raises `UserError` if it refuses us.
        """
        known, reason = self.state.is_known, ""
        try:
            with trio.fail_after(self._patience(known)):
                await self.account.refresh()
                await self.pull.begin()
        except (errors.OAuthError, errors.Unauthorized, errors.Forbidden) as error:
            raise explain(error) from error
        except errors.RemoteError as error:
            reason = explain(error).message
        except trio.TooSlowError:
            reason = "The service did not answer in time."
            self.health.suspect()
        if not reason:
            return ""
        log.info("starting offline: %s", reason)
        shows = "The cached tree is shown" if known else "The tree is not known yet and appears"
        return f"{reason} {shows} {'until' if known else 'when'} it answers."

    def _patience(self, known: bool) -> float:
        if not known:
            return FIRST_CONTACT_SECONDS
        crashed = mountpoint_guard.was_left(self.settings.paths.mountpoint)
        return CONTACT_AFTER_CRASH_SECONDS if crashed else CONTACT_SECONDS

    def start(self, agents: Supervisor, listener: trio.SocketListener) -> None:
        """Start everything that runs beside the mount."""
        state, with_priority = self.state, request_scheduler.run_with_priority
        send = functools.partial(self.account.once_known, self.push.run)
        agents.keep(self.health.run, self.account.who, name="health")
        agents.keep(self.login_watch.run, name="login watch")
        agents.keep(self.commit.run, name="commit")
        agents.keep(manifest_writer.run, state.db, state.drafts.root, self.commit, name="manifest")
        agents.keep(self.fs.run, name="filesystem")
        agents.keep(self.notifier.run, name="notifier")
        agents.keep(with_priority, Priority.UPLOAD, send, name="push")
        agents.keep(with_priority, Priority.CHANGES, self.pull.run, name="pull")
        agents.keep(with_priority, Priority.CHANGES, self.deferred_updates.run, name="deferred updates")
        agents.keep(self.sweep.run, name="reconciler")
        agents.keep(self.crawl.follow, name="opened folders")
        if self.settings.crawl:
            agents.keep(self.crawl.run, name="crawl")
        agents.keep(with_priority, Priority.PIN, self.pins.run, name="pins")
        agents.keep(with_priority, Priority.PIN, self.base_bytes.run, name="base bytes")
        if self.thumbnails is not None:
            agents.keep(with_priority, Priority.PIN, self.thumbnails.run, name="thumbnails")
        agents.keep(self.account.run, name="account")
        agents.keep(with_priority, Priority.LISTING, self.facts.run, name="policies")
        agents.keep(self.pausing.run, name="pausing")
        agents.keep(self.locks.run, name="locks")
        agents.keep(self.wiper.run, name="wiper")
        agents.keep(with_priority, Priority.CHANGES, self.regained_access.run, name="regained access")
        if self.document_locks is not None:
            agents.keep(self.document_locks.run, name="document locks")
        agents.keep(self.notifications.run, name="notifications")
        agents.keep(self._follow_room, name="room")
        agents.keep(self.watchdog.run, self.health, state.db, name="watchdog")
        agents.keep(self.server.serve, listener, name="control")
        agents.keep(
            maintenance.run, state.db, state.blocks, state.reserve, state.check_cache, name="maintenance"
        )
        agents.keep(maintenance.forget, state.db, self.settings.attribute_retention_days, name="kept")
        agents.keep(
            maintenance.remove_leftovers, self.fs, self.hub, self._local_days, self._put_aside, name="tidy"
        )
        if self.settings.metrics:
            agents.keep(metrics.serve, self.settings.metrics, self.status, name="metrics")

    async def _follow_room(self) -> None:
        """What was refused for want of room goes when there is some, and so with what was locked."""
        while True:
            await concurrency.first_of(self.account.more_room, self.locks.freed)
            await self.push.retry_all()

    async def serve(self, settings: config.Settings, *, create: bool, ready: Callable[[], None]) -> None:
        """Mount, serve until asked to end, and leave nothing behind that could still be sent."""
        memo = settings.paths.mountpoint
        owner = convert.owner(settings.uid, settings.gid, umask=settings.taken_bits)
        handlers = operations.Operations(self.shown, owner=owner, copying=self.copy_detector)
        async with mount.mounted(
            handlers,
            self.mountpoint,
            allow_other=settings.allow_other,
            read_only=settings.read_only,
            noexec=settings.noexec,
            create=create,
            over=create or mountpoint_guard.is_known(memo, self.mountpoint),
            memo=memo,
        ) as mounted:
            self.ground, self._status.hidden = mounted.ground, mounted.ground.hidden
            ready()
            self.watchdog.ready()
            log.info("the drive is mounted, connection %d", mounted.connection)
            await concurrency.first_of(self.shutdown.wanted.wait, mounted.unmounted.wait)
            self.ground, self._status.hidden = None, list
            self.watchdog.stopping(self.shutdown.drain_seconds + mount.LINGER + mount.DEADLINE)
        await self.fs.finish()
        await self.commit.commit()
        with trio.move_on_after(self.shutdown.drain_seconds), self.push.hurrying():
            await concurrency.first_of(self.push.drained, self.shutdown.impatient, self._out_of_reach)
        self.shutdown.done.set()
        await self.server.finished(seconds=2)

    async def _put_aside(self, node: Node) -> bool:
        return await rejected.keep_recovered(self.kit, node, self._recovered)

    async def _confirm(self, ino: Ino) -> None:
        await self.push.confirm(ino, seconds=self._fsync_seconds)

    async def _out_of_reach(self) -> None:
        while self.health.may_work:
            await self.health.changed()
