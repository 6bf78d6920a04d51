"""The daemon's life cycle: starts and stops what `composition` builds.

    state     lock, database, recovery of journal and cache
    mount     the kernel's requests, answered from the state
    service   embedded in this process, or remote; callers that need it wait until it is open
    agents    everything that runs beside the mount

If the tree is not known yet there is nothing to serve, so the mount starts last.  Shutdown order: first the
mount, so that no new changes arrive; then pending changes are uploaded, for as long as the settings allow;
then the agents are cancelled, and the service and the state are closed.

Rule: a change that was confirmed to a program is in the journal, so exiting early at any point loses nothing.
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

# The first start needs a listing; a later one only checks that the credentials are valid.
FIRST_CONTACT_SECONDS = 20.0
CONTACT_SECONDS = 5.0

# Time limit for notifying the kernel of changes before a handover; notifications wait for lookups.
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
    """Serve the drive until shutdown; return the handover to the next version if an upgrade was requested.

    `ready` is called when the mount answers requests, with a note for the user.  `given`: a mounted drive to
    take over.  Raises `UserError` if the drive cannot start.
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

        async def go_online(*, is_shown: bool) -> str:
            await service.open()
            try:
                note = await drive.contact(is_shown=is_shown)
            except errors.UserError as error:
                if given is None:
                    raise
                # The drive was mounted before and can still show its local state.
                log.warning("%s", error.message)
                note = error.message
            drive.start(agents)
            return note

        await drive.fs.begin()
        if given is not None:
            if given.is_recovered and given.survival is not None:
                survival.drop_unknown_handles(given.state, given.survival, state.db)
            drive.shown.take_over(given.state["tree"])
        note = None if state.is_known or given else await go_online(is_shown=False)
        agents.keep(drive.shutdown.heed_signals, drive.pull.poke, name="signals")
        agents.keep(watch_deadline, deadline, drive.health, name="deadline")
        async with server.listening(settings.paths.socket) as listener:
            drive.start_handlers(agents, listener)

            async def welcome() -> None:
                ready(await go_online(is_shown=True) if note is None else note)

            await drive.serve(settings, create=create, welcome=welcome, given=given)
        nursery.cancel_scope.cancel()
    log.info("shut down cleanly" if drive.left is None else "hands the drive over")
    return drive.left


def _source(settings: config.Settings) -> str:
    """Return the name that `df` and `findmnt` show: the account and its service."""
    profile = config.profile(settings)
    host = urlsplit(profile.base_url).netloc or settings.profile
    # A comma would end the mount option.
    return f"{settings.place}@{host}".replace(",", "_")


class Agent(Composition):
    """The agents of one drive, from the first contact with the service to the last upload."""

    _is_started = False
    # Set when another process is to serve the drive next.
    left: upgrade.Handover | None = None
    # Descriptor of the lock of the account.
    lock = -1
    _survival: Survival | None = None
    _handlers: operations.Operations

    async def contact(self, *, is_shown: bool) -> str:
        """Contact the service; return a note for the user if it cannot be reached, else "".

        `is_shown`: programs use the drive already.  Raises `UserError` if it rejects our credentials.
        """
        known, reason = self.state.is_known, ""
        try:
            with trio.fail_after(CONTACT_SECONDS if known else FIRST_CONTACT_SECONDS):
                await self.account.refresh()
                await self.pull.begin(is_late=is_shown)
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
        """Start the agents that file system requests need and that need no service."""
        state = self.state
        agents.keep(self.commit.run, name="commit")
        agents.keep(manifest_writer.run, state.db, state.drafts, self.commit, name="manifest")
        agents.keep(self.fs.run, name="filesystem")
        agents.keep(self.notifier.run, name="notifier")
        agents.keep(self.open_windows.run, name="open windows")
        agents.keep(self.watchdog.run, self.health, state.db, name="watchdog")
        agents.keep(self.server.serve, listener, name="control")

    def start(self, agents: Supervisor) -> None:
        """Start all other agents."""
        self._is_started = True
        state, with_priority = self.state, request_scheduler.run_with_priority
        agents.start_soon(threads.run_sync, replaced_files.load_the_rest, name="late modules")
        agents.keep(self.health.run, self.account.who, name="health")
        agents.keep(self.login_watch.run, name="login watch")
        agents.keep(self._watch_network, name="network")
        agents.keep(self._delay_shutdowns, name="shutdowns")
        agents.keep(with_priority, Priority.UPLOAD, self.account.once_known, self.push.run, name="push")
        agents.keep(state.drafts.hashes.run, name="early hashes")
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
        agents.keep(self._retry_when_possible, name="room")
        agents.keep(
            maintenance.run, state.db, state.blocks, state.reserve, state.check_cache, name="maintenance"
        )
        agents.keep(maintenance.bound_log, self.settings.paths.log, name="log file")
        agents.keep(maintenance.forget, state.db, self.settings.attribute_retention_days, name="kept")
        agents.keep(
            maintenance.remove_leftovers, self.fs, self.hub, self._local_days, self._recover_file, name="tidy"
        )
        if self.settings.metrics:
            from daemon import metrics  # imported late: most drives do not serve metrics

            agents.keep(metrics.serve, self.settings.metrics, self.status, name="metrics")

    async def _watch_network(self) -> None:
        """Check the connection and poll for changes after a network change or resume from sleep."""
        from daemon.core.network_watch import NetworkWatch  # imported late: not needed to mount

        def look() -> None:
            self.health.suspect()
            self.pull.poke()

        await NetworkWatch(look).run()

    async def _delay_shutdowns(self) -> None:
        """Delay a shutdown of the machine until pending changes are uploaded."""
        from daemon.desktop.shutdown_inhibitor import ShutdownInhibitor  # imported late

        await ShutdownInhibitor(lambda: queue.unfinished(self.state.db), self._finish_uploads).run()

    async def _finish_uploads(self) -> None:
        with self.push.hurrying():
            await concurrency.first_of(self.push.drained, self._unreachable)

    async def _retry_when_possible(self) -> None:
        """Retry rejected operations when quota becomes available or a lock is released."""
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
        """Mount, serve until shutdown, and upload pending changes within the drain time.

        `welcome` runs once the mount answers requests, before the start is complete; an exception from it
        stops the drive."""
        memo = settings.paths.mountpoint
        self._handlers = handlers = operations.Operations(
            self._port_to_mount(settings, given),
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
                self.hub.publish(given.unsent_changes)
            self.ground, self._status.hidden = mounted.ground, mounted.ground.hidden
            if self._survival is not None and given is None:
                self._survival.keep_mounted(mounted.ground, self.lock, self.shown.fixed)
            if not settings.read_only:
                self.open_windows.on_mounted(mounted.connection)
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
                survival.drop_descriptors()
            self.ground, self._status.hidden = None, list
            self.open_windows.on_unmounting()
            if self.left is None:
                # After a handover the drive keeps running: the service manager only learns the new PID.
                self.watchdog.stopping(self.shutdown.drain_seconds + mount.LINGER + mount.DEADLINE)
        if self.left is not None:
            await self.server.finished(seconds=1)
            return
        await self.fs.finish()
        await self.commit.commit()
        if self._is_started:
            with trio.move_on_after(self.shutdown.drain_seconds), self.push.hurrying():
                await concurrency.first_of(self.push.drained, self.shutdown.impatient, self._unreachable)
        self.shutdown.done.set()
        await self.server.finished(seconds=2)

    def _port_to_mount(self, settings: config.Settings, given: upgrade.Handover | None) -> FilesystemPort:
        """Return the file system to mount, recorded if it must survive a crash of this process."""
        if given is not None:
            self._survival = given.survival
        elif settings.keep_mounted:
            self._survival = Survival.create()
        if self._survival is None:
            return self.shown
        self.echoes.on_helper = self._survival.record_echo_process
        return self._survival.wrap(self.shown, self.state.db, reads_from=self.shown.reads_from)

    async def _hand_over(self, mounted: mount.Mounted) -> None:
        """Stop serving but leave the drive mounted.  On `UserError` and `OSError` it is served as before."""
        if self._status.stage != "mounted":
            raise errors.UserError("The drive is starting; try again in a moment.")
        successor = await upgrade.start_successor(sys.argv[1:])
        ground, connection = -1, -1
        try:
            # The echo process uses the mount, and its requests must still be recognised as its own.
            self.open_windows.on_unmounting()
            await self.open_windows.wait_for_helper_exit()
            if not await self.notifier.hold(HEAR_SECONDS):
                raise errors.UserError("A program waits for the service on the drive; try again in a moment.")
            ground = os.dup(mounted.ground.fd)
            connection = await mounted.suspend()
            # A trial run: the same step later must not fail.
            os.close(upgrade.write_memory_file(await self._handover_state()))
        except BaseException:
            if ground >= 0:
                os.close(ground)
            if connection >= 0:
                with trio.CancelScope(shield=True):
                    await mounted.resume(connection)
            self.notifier.release()
            self.open_windows.on_resumed(mounted.connection)
            with trio.CancelScope(shield=True):
                await successor.dismiss()
            raise
        self._status.stage = "stopping"
        mounted.hand_over()
        self.left = upgrade.Handover(connection, ground, mounted.ground.mode, -1, {}, survival=self._survival)
        if upgrade.may_be_another_process(sys.argv[1:]):
            self.left.successor = successor
        else:
            await successor.dismiss()

    async def finish_leaving(self, lock: int) -> None:
        """Complete a handover; called when everything but the state is closed."""
        if self.left is not None:
            self.left.state = await self._handover_state()
            await self.commit.commit()
            self.left.lock = os.dup(lock)

    async def _handover_state(self) -> dict[str, Any]:
        return {
            "tree": await self.shown.handed_over(),
            "folders": self._handlers.handed_over(),
            "untold": [upgrade.change_to_json(change) for change in self.notifier.held_changes()],
        }

    async def _recover_file(self, node: Node) -> bool:
        return await rejected.keep_recovered(self.push_context, node, self._recovered)

    async def _unreachable(self) -> None:
        while self.health.may_work:
            await self.health.changed()
