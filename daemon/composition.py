"""The composition root: builds every object of the running program, each after those that it needs.

`daemon.app` starts what is built here, and ends it.
"""

import functools
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from cmsfs import config
from cmsfs.auth import link_file, refusals
from cmsfs.client.session import Client
from cmsfs.fuse import convert, notifier
from cmsfs.fuse.echo_plan import TreePlaces
from cmsfs.fuse.echoes import Echoes
from cmsfs.fuse.open_windows import OpenWindows
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.journal.sealing import Sealer
from cmsfs.replica.changes import ChangeKind, Hub
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.vfs.heuristics.copy_detector import CopyDetector
from cmsfs.vfs.heuristics.programs import BackgroundReaders
from cmsfs.vfs.tree.filesystem import Filesystem
from cmsfs.wakeup import SignalGroup
from daemon.account.account import Account
from daemon.account.file_locks import FileLocks
from daemon.account.login_watch import LoginWatch
from daemon.account.pausing import Pausing
from daemon.account.permissions import RightsReader
from daemon.content.copies import RemoteCopies
from daemon.content.delete_guard import DeleteGuard
from daemon.content.document_locks import DocumentLocks
from daemon.content.favorites import Favorites
from daemon.content.folder_locks import FolderLockGuard
from daemon.content.item_details import ItemDetails
from daemon.content.local_search import LocalSearch
from daemon.content.program_locks import ProgramLocks
from daemon.content.search import RemoteSearch
from daemon.content.trash import RemoteTrash
from daemon.control import disk_status, server
from daemon.control.commands import Answers
from daemon.control.status import StatusReport
from daemon.core.abilities import ServiceAbilities
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.core.request_scheduler import RequestScheduler
from daemon.core.supervisor import Starts
from daemon.desktop.notifications import Notifications
from daemon.fetch.eviction import Eviction
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins
from daemon.listing import choice
from daemon.listing.crawler import Crawler
from daemon.listing.deletion_check import DeletionCheck
from daemon.listing.search_lister import list_in_background
from daemon.local_state import LocalState
from daemon.mount_tree import build
from daemon.pull.activity import Activity
from daemon.pull.base_bytes import BaseBytes
from daemon.pull.context import PullContext
from daemon.pull.deferred_updates import DeferredUpdates
from daemon.pull.event_feed import EventFeed
from daemon.pull.new_folders import NewFolders
from daemon.pull.poller import Poller
from daemon.pull.reconciler import Reconciler
from daemon.pull.search_feed import SearchFeed
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher
from daemon.push.guard import Guard
from daemon.push.metadata_writer import MetadataWriter
from daemon.push.operations import server_copy
from daemon.sharing.offers import Offers
from daemon.sharing.regained_access import RegainedAccess
from daemon.sharing.shared_items import SharedItems
from daemon.sharing.wipe import Wiper
from daemon.shutdown import Shutdown, Upgrading
from daemon.systemd import SystemdNotifier
from daemon.ui.history import History
from daemon.ui.server import PageServer

if TYPE_CHECKING:
    from daemon.desktop.thumbnails import Thumbnails


class Composition(Answers):
    """Holds every object of one drive."""

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
        self.upgrading = Upgrading()
        self._local_days = settings.local_days
        profile, paths = config.profile(settings), settings.paths
        self._recovered = paths.recovered
        self.health = Health(root_gone=refusals.LINK_AWAY if settings.is_link else refusals.ROOT_GONE)
        self.watchdog = SystemdNotifier()
        self.pace = pace or RequestScheduler(profile.limits)
        self.pausing = Pausing(db, self.health, self.pace)
        self.hub = Hub()
        self.file_locks = FileLocks(db, self.hub, lambda: rights.user_id)
        rights = RightsReader(
            *(db, client, self.hub, self.health, nursery, self.file_locks), for_reading=settings.read_only
        )
        if settings.is_link and link_file.read(settings.link_file).type == "file":
            rights.close_root()
        owner_of = None if profile.embedded else db
        self.remote_updates = RemoteUpdates(db, self.hub)
        self.sharing = SharedItems(db, self.remote_updates, self.hub, settings)
        abilities = ServiceAbilities(db, client, varies=profile.varies)
        self.account = Account(
            client=client,
            health=self.health,
            rights=rights,
            read_only=settings.read_only,
            by_link=settings.is_link,
            owner_of=owner_of,
            belongs_to=self.sharing.belongs_to,
            found_out=abilities.find_out if profile.varies else None,
        )
        self.login_watch = LoginWatch(settings, self.health)
        self.deletion_check = DeletionCheck(db, client, self.remote_updates, self.health)
        self.document_locks = (
            DocumentLocks(
                *(db, client, self.remote_updates, self.health),
                is_written=lambda ino: self.fs.is_open_for_writing(ino),
            )
            if settings.lock_open_documents
            else None
        )
        documents = self.document_locks
        self.program_locks = ProgramLocks(
            *(db, client, self.remote_updates, self.health, mountpoint),
            is_held=lambda item_id: documents is not None and documents.holds(item_id),
        )
        lister, whole, deepen = choice.choose_listers(
            profile,
            db=db,
            client=client,
            remote_updates=self.remote_updates,
            health=self.health,
            deletion_check=self.deletion_check,
            opened=lambda folder: self.crawler.opened(folder),
        )
        self.hydrator = Hydrator(
            db=db,
            client=client,
            blocks=blocks,
            lister=lister,
            health=self.health,
            nursery=nursery,
            hub=self.hub,
            network_seconds=settings.network_seconds,
        )
        self.hydrator.fetched = self.remote_updates.happenings.fetched_bytes
        self.offers = Offers(db, client, self.remote_updates, self.hydrator, self.health)
        self.commit = GroupCommit(db, drafts.root)
        self.guard = Guard(settings, db, blocks, nursery)
        sealer = Sealer(drafts, blocks, self.hydrator, self.commit, self.guard.check_contents)
        self.base_bytes = BaseBytes(db, blocks, self.hydrator, self.health)
        self.delete_guard = DeleteGuard(
            db,
            client,
            self.health,
            self.base_bytes.depends_on,
            lambda: self.item_details.learn_before_deletion(),
        )
        self.copy_detector = CopyDetector()
        self.background_readers = BackgroundReaders(db, blocks, may_download=settings.background_downloads)
        metadata_writer = MetadataWriter(client, self.health)
        self.push_context = push_context = PushContext(
            db=db,
            client=client,
            blocks=blocks,
            drafts=drafts,
            sealer=sealer,
            remote_updates=self.remote_updates,
            hydrator=self.hydrator,
            health=self.health,
            commit=self.commit,
            settle_seconds=settings.settle_seconds,
            profile=profile,
            web_links=settings.web_links,
            full=self.account.doubt_space,
            deletion_refused=self.delete_guard.deletion_refused,
            before_deletion=self.base_bytes.before_deletion,
            ended=lambda ino: self.fs.reap_soon(ino),
            guard=self.guard,
            copied_from=self.copy_detector.sources,
            metadata_writer=metadata_writer,
        )
        self.copy_detector.copied = functools.partial(nursery.start_soon, server_copy.record, push_context)
        self.push = Dispatcher(push_context, workers=settings.upload_workers)
        self.remote_updates.wake_push = self.push.wake
        self.pins = Pins(db, blocks, self.hydrator, self.health, self.hub)
        self.wiper = Wiper(db, blocks, self.hydrator, self.pins, self.hub, rights, mountpoint)
        self._eviction = Eviction(db, blocks, self.hydrator, self.pins, self.hub)
        self.folder_locks = FolderLockGuard(db, client, self.health)
        self.favorites = Favorites(db, client, self.health, self.hub, nursery)
        has_events = profile.feed == "events" and not settings.is_narrowed
        self.item_details = ItemDetails(
            db, client, self.health, nursery, metadata_writer, has_events=has_events
        )
        self.fs = Filesystem(
            db=db,
            blocks=blocks,
            drafts=drafts,
            group_commit=self.commit,
            hydrator=self.hydrator,
            push=SignalGroup(self.push.wake, self.pins.wake, self.base_bytes.wake),
            account=self.account,
            settle_seconds=settings.settle_seconds,
            local_names=settings.local_names,
            exclude=settings.exclude,
            confirm=self._confirm if settings.fsync == "remote" else None,
            pins=self.pins.set,
            watcher=self.document_locks,
            item_details=self.item_details,
            delete_guard=self.delete_guard,
            folder_locks=self.folder_locks,
            favorites=self.favorites,
            mass_changes=self.guard.changes if self.guard.changes.is_on else None,
            offers=client.offers,
            publish=self.remote_updates.publish,
            reserve=state.reserve,
        )
        self.hub.subscribe(self.fs.on_changes, {ChangeKind.GONE})
        self._fsync_seconds = settings.fsync_seconds
        self.trash = RemoteTrash(push_context, self.push, self.account)
        self.copies = RemoteCopies(push_context, self.push, self.account)
        self.thumbnails = self._thumbnails()
        self.finder = RemoteSearch(db, client, self.hydrator, self.health, LocalSearch(db, blocks, drafts))
        self.shown = build(
            fs=self.fs,
            context=push_context,
            hub=self.hub,
            finder=self.finder,
            remote_trash=self.trash,
            lock_holder=self.file_locks.holder,
            account=self.account,
            settings=settings,
            nursery=nursery,
            user=lambda: rights.user_id,
        )
        self.notifier = notifier.Notifier(self.hub, self.fs.inodes)
        places = TreePlaces(db, self.fs.excluded.hides)
        self.owner = convert.owner(settings.uid, settings.gid, umask=settings.taken_bits)
        self.echoes = Echoes(self.owner, places.child_number)
        self.open_windows = OpenWindows(
            self.hub,
            self.fs.inodes,
            places,
            self.echoes,
            mountpoint=mountpoint,
            kernel_notified=self.notifier.settled_soon,
        )
        new_folders = NewFolders(db, self.hydrator)
        pull_context = PullContext(db, client, self.remote_updates, self.health, new_folders)
        # A token that was cut down to a folder does not hear of what happens, only what there is.
        by_events = profile.feed == "events" and not settings.is_narrowed
        feed = (
            EventFeed(pull_context, access_changed=self._access_changed)
            if by_events
            else SearchFeed(pull_context)
        )
        self.regained_access = RegainedAccess(push_context, self.push, new_folders)
        self.deferred_updates = DeferredUpdates(pull_context)
        self.pull = Poller(
            db=db,
            feed=feed,
            hydrator=self.hydrator,
            health=self.health,
            seconds=settings.poll_seconds,
            idle_seconds=settings.idle_poll_seconds,
            is_used=Activity(self.fs.inodes, self.health, self.remote_updates),
            settle=self.deferred_updates.settle,
        )
        self.reconciler = Reconciler(
            pull_context,
            self.deletion_check,
            poll=self.pull.poll,
            fill=None if whole is not None else functools.partial(list_in_background, lister),
            full_seconds=settings.full_compare_hours * 3600,
        )
        self.notifications = Notifications(
            settings=settings,
            db=db,
            health=self.health,
            problem=lambda: self.pins.problem,
            conflicts=self.remote_updates.happenings.conflicts_told,
            returned=self.delete_guard.returned,
            shared=self.sharing.news,
            guard=lambda: self.guard.notice,
        )
        self.crawler = Crawler(db, self.health, whole, self.hydrator.listing, deepen)
        self._status = StatusReport(
            settings=settings,
            mountpoint=mountpoint,
            db=db,
            blocks=blocks,
            health=self.health,
            hydrator=self.hydrator,
            push=self.push,
            pull=self.pull,
            crawler=self.crawler,
            whole=whole,
            pins=self.pins,
            favorites=self.favorites,
            pace=self.pace,
            pausing=self.pausing,
            inodes=self.fs.inodes,
            guard=self.guard,
            disk=lambda: disk_status.problems(state.reserve, state.blocks),
        )
        self.server = server.ControlServer(db, self.health, self)
        self.history = History(paths.history, self.remote_updates.happenings, self.health, db)
        self.page = self._page = PageServer(self, nursery, self.history)

    def _thumbnails(self) -> "Thumbnails | None":
        if not self.settings.thumbnails:
            return None
        from daemon.desktop.thumbnails import Thumbnails  # a start does without, as most drives do

        return Thumbnails(
            self.state.db, self.client, self.health, self.mountpoint, config.thumbnails_folder()
        )

    def _access_changed(self, items: Collection[tuple[NodeKind, str]]) -> None:
        """Others may have given or taken rights on these items (kind, id)."""
        self.account.rights.doubt(items)
        self.regained_access.rights_changed()

    async def _confirm(self, ino: Ino) -> None:
        await self.push.confirm(ino, seconds=self._fsync_seconds)
