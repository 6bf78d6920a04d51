"""The program from its start to its end: what `composition` builds is started and ended here.

    state     lock, database, recovery of journal and cache
    mount     the kernel's requests, answered from the state
    service   embedded in this process, or far away; what needs it waits until it is open
    agents    everything that runs beside the mount

A drive whose tree is not known yet has nothing to answer from: there the mount comes last.  They end in this
order: the mount first, so that no new change comes; then what is left is uploaded, for as long as the
settings allow; then the agents are cancelled, the service and the state are closed.

Rule: a change that a program was told of is in the journal; so ending early, anywhere, loses nothing.
"""

import functools
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio

from cmsfs import config, errors, mountpoint_guard, mounts
from cmsfs.auth.deadline import Deadline
from cmsfs.fuse import mount, operations
from cmsfs.fuse.drive import FilesystemPort
from cmsfs.journal import queue
from cmsfs.replica.nodes import Node
from cmsfs.runtime import threads
from cmsfs.user_messages import explain
from daemon import instance_lock, maintenance, manifest_writer, upgrade
from daemon.composition import Composition
from daemon.control import server
from daemon.core import concurrency, replaced_files, request_scheduler
from daemon.core.request_scheduler import Priority, RequestScheduler
from daemon.core.supervisor import Supervisor
from daemon.desktop import kde_places
from daemon.late_service import LateService, watch_deadline
from daemon.local_state import open_state
from daemon.push import rejected
from daemon.survival import survival
from daemon.survival.survival import Survival

log = logging.getLogger(__name__)

# A first start would like to show something; a later one only wants to know whether the credentials hold.
FIRST_CONTACT_SECONDS = 20.0
CONTACT_SECONDS = 5.0

# How long the kernel may take to hear of changes before the drive is handed over; it waits for lookups.
HEAR_SECONDS = 3.0


async def run(
    settings: config.Settings,
    *,
    mountpoint: Path,
    create: bool,
    sample: bool,
    ready: Callable[[str], None],
    given: upgrade.Handover | None = None,
) -> upgrade.Handover | None:
    """Serve the drive until it is asked to end; `ready` is called when the mount answers, with what the
    person should know about it.  What is to be handed to the next version, if it was asked for that.

    `given`: it is mounted, and goes on from there.  Raises `UserError` if it cannot start.
    """
    place = mounts.located(mountpoint)
    settings.paths.ensure()
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(
            instance_lock.single_instance(
                settings.paths.lock, account=settings.place, inherited=given.lock if given else None
            )
        )
        state = await stack.enter_async_context(open_state(settings, given.held if given else ()))
        drives: list[Agent] = []

        async def finish_leaving() -> None:
            for one in drives:
                await one.finish_leaving(lock)

        stack.push_async_callback(finish_leaving)
        pace = RequestScheduler(config.profile(settings).limits)
        deadline = Deadline(settings.ttl_seconds)
        service = LateService(settings, state.db, sample=sample, pace=pace, deadline=deadline)
        await stack.enter_async_context(service.lasting())
        nursery = await stack.enter_async_context(trio.open_nursery())
        agents = Supervisor(nursery)
        drive = Agent(settings, place, state, service.client, agents, pace)
        drives.append(drive)
        drive.lock = lock

        async def go_online() -> str:
            await service.open()
            try:
                note = await drive.contact()
            except errors.UserError as error:
                if given is None:
                    raise
                # The drive was there before us, and what it has is still worth showing.
                log.warning("%s", error.message)
                note = error.message
            drive.start(agents)
            return note

        await drive.fs.begin()
        if given is not None:
            if given.is_revived and given.survival is not None:
                survival.complete(given.state, given.survival, state.db)
            drive.shown.take_over(given.state["tree"])
        note = None if state.is_known or given else await go_online()
        agents.keep(drive.shutdown.heed_signals, drive.pull.poke, name="signals")
        agents.keep(watch_deadline, deadline, drive.health, name="deadline")
        async with server.listening(settings.paths.socket) as listener:
            drive.start_handlers(agents, listener)

            async def welcome() -> None:
                ready(await go_online() if note is None else note)

            await drive.serve(settings, create=create, welcome=welcome, given=given)
        nursery.cancel_scope.cancel()
    log.info("shut down cleanly" if drive.left is None else "hands the drive over")
    return drive.left


def _source(settings: config.Settings) -> str:
    """What `df` and `findmnt` call the drive: the account and its service."""
    profile = config.profile(settings)
    host = urlsplit(profile.base_url).netloc or settings.profile
    # A comma would end the mount option.
    return f"{settings.place}@{host}".replace(",", "_")


class Agent(Composition):
    """The agents of one drive, from the first contact with the service to the last upload."""

    _is_started = False
    # The drive that somebody else serves next.
    left: upgrade.Handover | None = None
    # By its descriptor.
    lock = -1
    _survival: Survival | None = None
    _handlers: operations.Operations

    async def contact(self) -> str:
        """The first words with the service; what a person should know if there were none.

        Raises `UserError` if it refuses us.
        """
        known, reason = self.state.is_known, ""
        try:
            with trio.fail_after(CONTACT_SECONDS if known else FIRST_CONTACT_SECONDS):
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

    def start_handlers(self, agents: Supervisor, listener: trio.SocketListener) -> None:
        """Start what those who answer programs need, and what needs no service."""
        state = self.state
        agents.keep(self.commit.run, name="commit")
        agents.keep(manifest_writer.run, state.db, state.drafts.root, self.commit, name="manifest")
        agents.keep(self.fs.run, name="filesystem")
        agents.keep(self.notifier.run, name="notifier")
        agents.keep(self.open_windows.run, name="open windows")
        agents.keep(self.watchdog.run, self.health, state.db, name="watchdog")
        agents.keep(self.server.serve, listener, name="control")

    def start(self, agents: Supervisor) -> None:
        """Start everything else that runs beside the mount."""
        self._is_started = True
        state, with_priority = self.state, request_scheduler.run_with_priority
        send = functools.partial(self.account.once_known, self.push.run)
        agents.start_soon(threads.run_sync, replaced_files.load_the_rest, name="late modules")
        agents.keep(self.health.run, self.account.who, name="health")
        agents.keep(self.login_watch.run, name="login watch")
        agents.keep(self._watch_network, name="network")
        agents.keep(self._delay_shutdowns, name="shutdowns")
        agents.keep(with_priority, Priority.UPLOAD, send, name="push")
        agents.keep(with_priority, Priority.CHANGES, self.pull.run, name="pull")
        agents.keep(with_priority, Priority.CHANGES, self.deferred_updates.run, name="deferred updates")
        agents.keep(self.reconciler.run, name="reconciler")
        agents.keep(self.crawler.follow, name="opened folders")
        if self.settings.crawl:
            agents.keep(self.crawler.run, name="crawl")
        agents.keep(with_priority, Priority.PIN, self.pins.run, name="pins")
        agents.keep(with_priority, Priority.PIN, self.base_bytes.run, name="base bytes")
        if self.thumbnails is not None:
            agents.keep(with_priority, Priority.PIN, self.thumbnails.run, name="thumbnails")
        agents.keep(self.account.run, name="account")
        agents.keep(with_priority, Priority.LISTING, self.item_details.run, name="policies")
        agents.keep(self.pausing.run, name="pausing")
        agents.keep(self.file_locks.run, name="locks")
        agents.keep(self.wiper.run, name="wiper")
        agents.keep(with_priority, Priority.CHANGES, self.regained_access.run, name="regained access")
        if self.document_locks is not None:
            agents.keep(self.document_locks.run, name="document locks")
        if self.settings.mirror_program_locks:
            agents.keep(self.program_locks.run, name="program locks")
        agents.keep(self.notifications.run, name="notifications")
        agents.keep(self.history.run, name="history")
        agents.keep(self._follow_room, name="room")
        agents.keep(
            maintenance.run, state.db, state.blocks, state.reserve, state.check_cache, name="maintenance"
        )
        agents.keep(maintenance.bound_log, self.settings.paths.log, name="log file")
        agents.keep(maintenance.forget, state.db, self.settings.attribute_retention_days, name="kept")
        agents.keep(
            maintenance.remove_leftovers, self.fs, self.hub, self._local_days, self._put_aside, name="tidy"
        )
        if self.settings.metrics:
            from daemon import metrics  # a start does without, as most drives do

            agents.keep(metrics.serve, self.settings.metrics, self.status, name="metrics")

    async def _watch_network(self) -> None:
        """Another network, or the end of a sleep: is the service there, and what is new?"""
        from daemon.core.network_watch import NetworkWatch  # not before the drive is there

        def look() -> None:
            self.health.suspect()
            self.pull.poke()

        await NetworkWatch(look).run()

    async def _delay_shutdowns(self) -> None:
        """Have the machine turned off only when what was saved is at the service, if it waits for that."""
        from daemon.desktop.shutdown_inhibitor import ShutdownInhibitor  # not before the drive is there

        await ShutdownInhibitor(lambda: queue.unfinished(self.state.db), self._last_uploads).run()

    async def _last_uploads(self) -> None:
        with self.push.hurrying():
            await concurrency.first_of(self.push.drained, self._out_of_reach)

    async def _follow_room(self) -> None:
        """What was refused for want of room goes when there is some, and so with what was locked."""
        while True:
            await concurrency.first_of(self.account.more_room, self.file_locks.freed)
            await self.push.retry_all()

    async def serve(
        self,
        settings: config.Settings,
        *,
        create: bool,
        welcome: Callable[[], Awaitable[None]],
        given: upgrade.Handover | None = None,
    ) -> None:
        """Mount, serve until asked to end, and leave nothing behind that could still be sent.

        `welcome` is what there is to do when the kernel's requests are answered, before the start is
        complete; what it raises ends the drive."""
        memo = settings.paths.mountpoint
        self._handlers = handlers = operations.Operations(
            self._recorded(settings, given),
            owner=self.owner,
            copying=self.copy_detector,
            background=self.background_readers,
            pictures=self.thumbnails.opened if self.thumbnails is not None else None,
            echoes=self.echoes,
        )
        if given is not None:
            handlers.take_over(given.state["folders"])
        async with mount.mounted(
            handlers,
            self.mountpoint,
            fsname=_source(settings),
            allow_other=settings.allow_other,
            read_only=settings.read_only,
            noexec=settings.noexec,
            create=create,
            over=create or mountpoint_guard.is_known(memo, self.mountpoint),
            memo=memo,
            inherited=given.inheritance if given is not None else None,
        ) as mounted:
            if given is not None:
                given.is_served = True
                self.hub.publish(given.untold)
            self.ground, self._status.hidden = mounted.ground, mounted.ground.hidden
            if self._survival is not None and given is None:
                self._survival.keep_mounted(mounted.ground, self.lock, self.shown.fixed)
            if not settings.read_only:
                self.open_windows.mounted(mounted.connection)
            log.info("the drive is mounted, connection %d", mounted.connection)

            await kde_places.show(self.state.db, settings, self.mountpoint)

            async def complete() -> None:
                await welcome()
                self._status.stage = "mounted"
                self.watchdog.ready()
                await trio.sleep_forever()

            await concurrency.first_of(
                complete,
                self.shutdown.wanted.wait,
                mounted.unmounted.wait,
                functools.partial(self.upgrading.run, functools.partial(self._hand_over, mounted)),
            )
            self._status.stage = "stopping"
            if self._survival is not None and self.left is None:
                survival.let_go()
            self.ground, self._status.hidden = None, list
            self.open_windows.unmounting()
            if self.left is None:
                # A drive that is handed over goes on: its manager is told of the new process alone.
                self.watchdog.stopping(self.shutdown.drain_seconds + mount.LINGER + mount.DEADLINE)
        if self.left is not None:
            await self.server.finished(seconds=1)
            return
        await self.fs.finish()
        await self.commit.commit()
        if self._is_started:
            with trio.move_on_after(self.shutdown.drain_seconds), self.push.hurrying():
                await concurrency.first_of(self.push.drained, self.shutdown.impatient, self._out_of_reach)
        self.shutdown.done.set()
        await self.server.finished(seconds=2)

    def _recorded(self, settings: config.Settings, given: upgrade.Handover | None) -> FilesystemPort:
        """What is mounted; written down, where it is to outlive this process."""
        if given is not None:
            self._survival = given.survival
        elif settings.keep_mounted:
            self._survival = Survival.begun()
        if self._survival is None:
            return self.shown
        self.echoes.on_helper = self._survival.note_helper
        return self._survival.over(self.shown, self.state.db, reads_from=self.shown.reads_from)

    async def _hand_over(self, mounted: mount.Mounted) -> None:
        """Leave the drive mounted and unserved.  Raises `UserError` and `OSError`, and all is as it was."""
        if self._status.stage != "mounted":
            raise errors.UserError("The drive is starting; try again in a moment.")
        successor = await upgrade.load(sys.argv[1:])
        ground, connection = -1, -1
        try:
            # It goes through the mount, and what it asks must be known as its own.
            self.open_windows.unmounting()
            await self.open_windows.alone()
            if not await self.notifier.hold(HEAR_SECONDS):
                raise errors.UserError("A program waits for the service on the drive; try again in a moment.")
            ground = os.dup(mounted.ground.fd)
            connection = await mounted.hold()
            # What comes later is the same, and must not fail then.
            os.close(upgrade.spooled(await self._given()))
        except BaseException:
            if ground >= 0:
                os.close(ground)
            if connection >= 0:
                with trio.CancelScope(shield=True):
                    await mounted.resume(connection)
            self.notifier.go_on()
            self.open_windows.resumed(mounted.connection)
            with trio.CancelScope(shield=True):
                await successor.dismiss()
            raise
        self._status.stage = "stopping"
        mounted.leave()
        self.left = upgrade.Handover(connection, ground, mounted.ground.mode, -1, {}, survival=self._survival)
        if upgrade.may_be_another_process(sys.argv[1:]):
            self.left.successor = successor
        else:
            await successor.dismiss()

    async def finish_leaving(self, lock: int) -> None:
        """When everything but the state has ended: what there is to hand over, if anything is."""
        if self.left is not None:
            self.left.state = await self._given()
            await self.commit.commit()
            self.left.lock = os.dup(lock)

    async def _given(self) -> dict[str, Any]:
        return {
            "tree": await self.shown.handed_over(),
            "folders": self._handlers.handed_over(),
            "untold": [upgrade.packed(change) for change in self.notifier.untold()],
        }

    async def _put_aside(self, node: Node) -> bool:
        return await rejected.keep_recovered(self.push_context, node, self._recovered)

    async def _out_of_reach(self) -> None:
        while self.health.may_work:
            await self.health.changed()
