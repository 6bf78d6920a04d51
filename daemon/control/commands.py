"""Handlers of the control socket's requests: one method each, registered by `answers`.

Rule: no decisions are made here; each handler asks an agent.
"""

import sys
from pathlib import Path
from typing import Protocol

import trio

from cmsfs import config, errors, logs
from cmsfs.client.session import Client
from cmsfs.fuse.notifier import Notifier
from cmsfs.ipc import control, diagnostics, summary
from cmsfs.journal import queue
from cmsfs.mountpoint_guard import MountpointGuard
from cmsfs.replica.changes import Hub
from cmsfs.vfs.tree.filesystem import Filesystem
from cmsfs.vfs.virtual.search_results import FinderPort
from daemon.account.pausing import Pausing
from daemon.content.copies import RemoteCopies
from daemon.content.favorites import Favorites
from daemon.content.trash import RemoteTrash
from daemon.control import conflict_copies, searching
from daemon.control.attention_count import AttentionCount
from daemon.control.server import answers
from daemon.control.status import StatusReport
from daemon.core.health import Health
from daemon.fetch import path_lookup
from daemon.fetch.eviction import Eviction
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins
from daemon.listing.deletion_check import DeletionCheck
from daemon.local_state import LocalState
from daemon.pull.poller import Poller
from daemon.pull.reconciler import Reconciler
from daemon.push import recovered_files
from daemon.push.dispatcher import Dispatcher
from daemon.push.guard import Guard
from daemon.sharing.offers import Offers
from daemon.shutdown import Shutdown, Upgrading

# The kernel reports the closing of a file shortly after `close` has returned to the program.
CLOSING_SECONDS = 2.0
CLOSING_LOOKS = 100


class PagePort(Protocol):
    """The drive's web page, served by `daemon.ui`."""

    async def open(self, section: str, path: str) -> str:
        """Return a one-time address of the page.  Raises `UserError` for an unknown section."""


class Answers:
    """The handlers of the control socket's requests; `app.Agent` derives from it."""

    state: LocalState
    mountpoint: Path
    shutdown: Shutdown
    upgrading: Upgrading
    health: Health
    hydrator: Hydrator
    push: Dispatcher
    pull: Poller
    reconciler: Reconciler
    deletion_check: DeletionCheck
    offers: Offers
    pins: Pins
    favorites: Favorites
    trash: RemoteTrash
    copies: RemoteCopies
    pausing: Pausing
    notifier: Notifier
    fs: Filesystem
    hub: Hub
    client: Client
    finder: FinderPort
    guard: Guard
    _page: PagePort
    settings: config.Settings
    ground: MountpointGuard | None = None  # below the mount
    _eviction: Eviction
    _status: StatusReport
    _recovered: Path
    _attention: AttentionCount | None = None

    @answers(control.Ping)
    def pong(self) -> control.Pong:
        return self._status.pong()

    @answers(control.GetStatus)
    async def status_now(self) -> control.DriveStatus:
        self.health.asked_for()
        return await self.status()

    @answers(control.Watch, repeats=True)
    async def status(self) -> control.DriveStatus:
        return await self._status.whole()

    @answers(control.Follow, repeats=True, only_changes=True)
    async def summarised(self) -> control.DriveSummary:
        self._attention = self._attention or AttentionCount(self.conflicts)
        moment, downloads = self.moment(), self.downloads()
        moving = [op.path for op in moment.ops if op.state != "held"] + [path for path, _, _ in downloads]
        return control.DriveSummary(
            account=self.pong().account,
            mountpoint=str(self.mountpoint),
            state=self.health.state.value,
            reason=self.health.reason,
            paused_until=self.pausing.until,
            pending=moment.pending + len(downloads),
            attention=await self._attention.value(moment.held),
            moving=moving[: summary.MAX_MOVING],
        )

    @answers(control.Sync, tells_progress=True, ends_with_caller=True)
    async def sync(self) -> control.Done:
        if self.health.is_paused:
            raise errors.UserError("Sync is paused; `cmsfs resume` resumes it.")
        if self.guard.is_holding:
            raise errors.UserError(f"Nothing is uploaded. {self.guard.question}")
        self.health.asked_for()
        with self.push.hurrying():
            await self.push.retry_all()
            await self.push.drained()
        await self.notifier.settled_soon()
        done = self._uploaded()
        waits = "Files open for writing are uploaded after they are closed." if done.pending else ""
        return done.model_copy(update={"message": waits or self.recovered()})

    @answers(control.Poll, tells_progress=True)
    async def poll(self, *, full: bool) -> str:
        self.health.asked_for()
        self.trash.outdated()
        self.favorites.doubt()
        said = ""
        if full:
            said = await self.reconciler.compare()
        else:
            await self.pull.poll()
        await self.notifier.settled_soon()
        return said

    @answers(control.Retry)
    async def retry(self, path: str | None) -> None:
        self.health.asked_for()
        await (self.push.retry_all() if path is None else self.push.retry(path))

    @answers(control.Discard)
    async def discard(self, path: str) -> str:
        kept = await self.push.discard(path, self._recovered)
        return f"Its bytes are kept in {kept}." if kept else ""

    @answers(control.GetConflicts)
    async def conflicts(self) -> control.Conflicts:
        copies = await conflict_copies.copies(self.state.db)
        found = recovered_files.waiting(self._recovered)
        return control.Conflicts(
            copies=copies,
            held=self._status.held(),
            stuck=self._status.tired(),
            recovered=found,
            missing=self.deletion_check.pending(),
            guard=self._status.guard(),
            offers=self.offers.undecided(),
        )

    @answers(control.DecideOffers, tells_progress=True)
    async def decide_offers(self, words: list[str], accept: bool) -> control.Done:
        said = await self.offers.decide(words, accept=accept)
        await self.notifier.settled_soon()
        return control.Done(message=said)

    @answers(control.DecideMissing, tells_progress=True)
    async def decide_missing(self, remove: bool) -> control.Done:
        if not remove:
            return control.Done(
                message="" if await self.deletion_check.reject() else "There is nothing to decide."
            )
        count = await self.deletion_check.confirm()
        await self.notifier.settled_soon()
        return control.Done(message=f"{count:,} items were removed." if count else "Nothing was removed.")

    @answers(control.AllowChanges)
    async def allow_changes(self) -> control.Done:
        was_held = await self.guard.allow()
        self.push.wake()
        return control.Done(message="" if was_held else "The guard holds nothing.")

    @answers(control.UndoChanges, tells_progress=True)
    async def undo_changes(self, dry_run: bool) -> control.GuardUndone:
        undone = await self.push.undo_mass_change(self._recovered, dry_run=dry_run)
        await self.notifier.settled_soon()
        return undone

    @answers(control.DismissRecovered)
    def dismiss_recovered(self) -> str:
        count = recovered_files.dismiss(self._recovered)
        return f"{count} recovered files are kept in {self._recovered}." if count else ""

    def recovered(self) -> str:
        count = len(recovered_files.waiting(self._recovered))
        return (
            f"{count} recovered files are in {self._recovered}; `cmsfs conflicts` lists them."
            if count
            else ""
        )

    @answers(control.Pin)
    async def pin(self, path: str) -> str:
        node = await path_lookup.find(self.state.db, self.hydrator, path)
        return await self.pins.pin(node.ino)

    @answers(control.Unpin)
    async def unpin(self, path: str) -> None:
        node = await path_lookup.find(self.state.db, self.hydrator, path)
        await self.pins.unpin(node.ino)

    @answers(control.Free, tells_progress=True)
    async def free(self, path: str, *, unpin: bool) -> control.Freed:
        node = await path_lookup.find(self.state.db, self.hydrator, path)
        return await self._eviction.free(node.ino, unpin=unpin)

    @answers(control.Copy, tells_progress=True)
    async def copy(self, path: str, to: str) -> control.Done:
        made = await self.copies.copy(path, to)
        await self.notifier.settled_soon()
        return control.Done(message=made)

    @answers(control.Adopt, tells_progress=True)
    async def adopt(self) -> control.Adopted:
        if self.ground is None:
            raise errors.UserError("The drive is not mounted yet.")
        # In a separate process: one that writes to the mount from here would wait for this very process.
        done = await trio.run_process(
            [
                sys.executable,
                "-I" if sys.flags.isolated else "-P",
                "-m",
                "daemon.adopt_hidden",
                str(self.ground.fd),
                str(self.mountpoint),
            ],
            pass_fds=[self.ground.fd],
            capture_stdout=True,
            check=False,
        )
        if done.returncode:
            raise errors.UserError("Some items could not be moved into the drive; see the log.")
        return control.Adopted.model_validate_json(done.stdout)

    @answers(control.Pause)
    async def pause(self, seconds: float | None) -> None:
        await self.pausing.pause(seconds)

    @answers(control.Resume)
    async def resume(self) -> None:
        await self.pausing.resume()

    @answers(control.GetPathStatus)
    async def told_of(self, path: str) -> control.PathStatus:
        return self._status.of(await path_lookup.find(self.state.db, self.hydrator, path))

    async def pinned(self) -> diagnostics.Pinning:
        return await self.pins.progress()

    @answers(control.SearchDrive, tells_progress=True)
    async def search(self, query: str, limit: int) -> control.FoundItems:
        self.health.asked_for()
        return await searching.search(self.finder, query, limit)

    @answers(control.GetPins)
    async def told_pins(self) -> control.PinList:
        return control.PinList(pins=await self.pinned())

    @answers(control.OpenPage)
    async def open_page(self, section: str, path: str) -> control.PageAddress:
        if path:
            path = (await self.told_of(path)).path
        return control.PageAddress(url=await self._page.open(section, path))

    def moment(self) -> control.QueueStatus:
        """Return the status that changes from second to second."""
        return self._status.queue()

    def downloads(self) -> list[tuple[str, int, int]]:
        """Return the files being downloaded: path, bytes cached, size."""
        return self._status.downloads()

    @answers(control.SetLogLevel)
    def set_log_level(self, level: str) -> None:
        logs.set_level(level)

    @answers(control.Upgrade, tells_progress=True)
    async def upgrade(self) -> None:
        await self.upgrading.ask()

    @answers(control.Stop, tells_progress=True)
    async def stop(self, drain_seconds: float | None, force: bool) -> control.Done:
        _, opened = self.fs.inodes.totals()
        for _ in range(0 if force else CLOSING_LOOKS):
            if not opened:
                break
            await trio.sleep(CLOSING_SECONDS / CLOSING_LOOKS)
            _, opened = self.fs.inodes.totals()
        if opened and not force:
            what = "A file or folder is" if opened == 1 else f"{opened} files or folders are"
            raise errors.UserError(
                f"{what} open on the drive at {self.mountpoint}; --force unmounts it anyway."
            )
        self.shutdown.ask(drain_seconds)
        await self.shutdown.done.wait()
        return self._uploaded()

    def _uploaded(self) -> control.Done:
        counts = queue.counts(self.state.db)
        pending = counts.get("ready", 0) + counts.get("running", 0)
        return control.Done(pending=pending, held=counts.get("held", 0))
