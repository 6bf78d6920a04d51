"""The machines of a story: the service, and those with a drive.  Each can be killed at any moment.

A kill copies the process's files as they are at that moment.  Whatever its tasks still do while they are
cancelled has no effect on others, and the next process starts from the copy.
"""

import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from cmsfs import config, errors
from cmsfs.auth import bearer, connect, grants, refusals
from cmsfs.client import session
from cmsfs.client.transport import embedded
from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.service.server import app, sweeper
from cmsfs.service.storage import renumber, store
from daemon import app as daemon_app
from daemon import local_state, manifest_writer
from daemon.core import concurrency
from daemon.core.request_scheduler import RequestScheduler
from daemon.core.supervisor import Supervisor
from tests.simulation.disk import Disks
from tests.simulation.kernel import Kernel
from tests.simulation.logins import Login
from tests.simulation.process import Process
from tests.simulation.story import Plan
from tests.simulation.wire import Wire
from tests.simulation.world import World, current_actor

OTHER = "bob@example.com"
URL = "https://cms.example.com"


class Killed(Exception):
    """The process that handled the call has been killed."""


@asynccontextmanager
async def open_client(
    transport: httpx.AsyncBaseTransport,
    user: int,
    pace: RequestScheduler | None = None,
    *,
    folder: str | None = None,
) -> AsyncIterator[session.Client]:
    """Open a client for the account as `auth.connect` does; its tokens may be limited to a folder."""
    endpoints = session.ServiceEndpoints.of_server(URL)
    async with session.open_client(endpoints, transport=transport) as anonymous:
        fetch = grants.client_credentials(
            anonymous, "tests", "secret", subject_type="user", subject_id=str(user)
        )
        if folder is not None:
            resource = f"{endpoints.base_url}/folders/{folder}"
            wider = grants.downscoped(anonymous, fetch, connect.CHANGING, resource=resource)
            fetch = connect._of_folder(wider)
        auth = bearer.BearerAuth(fetch)
        async with session.open_client(endpoints, auth=auth, transport=transport, pace=pace) as client:
            yield client


class Service(Process):
    """The embedded service, which can be killed and restarted."""

    def __init__(self, world: World, disks: Disks, root: Path, plan: Plan) -> None:
        super().__init__(world, disks, "service")
        self.root = root
        self.store: store.Store = None
        self._renumbers = not plan.reused
        self._restored = 0  # backups that have been restored
        self._transport: httpx.AsyncBaseTransport | None = None
        self._nursery: trio.Nursery = None

    @property
    def folders(self) -> list[Path]:
        return [self.root]

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        if self._renumbers and len(self.undone_spans) > self._restored:
            await renumber.renumber(self.root, database_url=None)
        self._restored = len(self.undone_spans)
        async with store.open_store(self.root) as self.store, trio.open_nursery() as nursery:
            built = app.build(self.store)

            async def answer(*asked: Any) -> None:
                # Whoever sent the request: from here the service acts, by its own clock.
                current_actor.set(self.name)
                await built(*asked)

            self._transport = embedded.EmbeddedTransport(answer, nursery)
            self._nursery = nursery
            self.is_alive = True
            task_status.started()
            await trio.sleep_forever()

    async def sweep(self) -> None:
        """Run the scheduled cleanup now; return when it has ended or died with the service."""
        done = trio.Event()

        async def sweep() -> None:
            try:
                current_actor.set(self.name)
                await sweeper.sweep(self.store, self.store.now())
            finally:
                done.set()

        self._nursery.start_soon(sweep)
        await done.wait()

    def versions(self) -> set[str]:
        """Return the contents of all versions, of deleted files, too."""
        return {row["sha1"] for row in self.store.read("SELECT sha1 FROM version")}

    def transport(self) -> httpx.AsyncBaseTransport | None:
        return self._transport if self.is_alive and not self.is_dying else None


class ServiceTransport(httpx.AsyncBaseTransport):
    """A transport to whichever process of the service runs at the moment."""

    is_direct = True

    def __init__(self, service: Service) -> None:
        self._service = service

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.sleep(0.01)
        if (transport := self._service.transport()) is None:
            raise httpx.ConnectError("the service is away")
        response = await transport.handle_async_request(request)
        if self._service.transport() is not transport:
            await response.aclose()
            raise httpx.ReadError("the service has ended")
        return response


class Machine(Process):
    """A computer with a drive: the daemon without FUSE, and a simulated kernel with programs."""

    def __init__(
        self, world: World, disks: Disks, name: str, service: Service, user: int, settings: config.Settings
    ) -> None:
        settings.paths.ensure()
        super().__init__(world, disks, name)
        self.settings = settings
        self.user = user
        # The id of the only folder that the drive shows.
        self.root_id: str | None = None
        # Path prefix of the shared folders, on a drive of the second account.
        self.shared_prefix = ""
        self.chance = random.Random(f"{world.seed} {name}")
        self.wire = Wire(world, name, lambda: None if self.is_dying else service.transport(), self.chance)
        self.agents: daemon_app.Agent = None
        self.is_shown = False
        self.has_contact = False  # a start whose login is refused ends
        self.kernel: Kernel = None
        self.is_slow = False
        # None: it gets tokens by client credentials, without a login.
        self.login: Login | None = None
        self.task: trio.lowlevel.Task = None  # parent of all its tasks
        # Scopes of programs that wait for the drive.
        self._calls: set[trio.CancelScope] = set()

    @property
    def folders(self) -> list[Path]:
        return [self.settings.paths.state, self.settings.paths.cache]

    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        self.task = trio.lowlevel.current_task()
        self.settings.paths.ensure()
        self.disks.record_all_synced(self.folders)
        pace = RequestScheduler(config.profile(self.settings).limits)
        async with (
            self._client(pace) as client,
            local_state.open_state(self.settings) as state,
            trio.open_nursery() as nursery,
        ):
            if (root_id := self.root_id) is not None and tree.root_id(state.db) != root_id:
                await state.db.write(lambda conn: tree.set_root(conn, root_id), durable=True)
            supervisor = Supervisor(nursery)
            place = self.settings.paths.state / "mnt"
            agents = daemon_app.Agent(self.settings, place, state, client, supervisor, pace)
            self.agents = agents
            chance = random.Random(f"{self.chance.random()}")
            self.kernel = Kernel(agents.shown, agents.fs.inodes, trio.current_time, chance)
            self.kernel.is_slow = self.is_slow
            self.has_contact = False
            await agents.fs.begin()
            self._redirect_invalidations(agents, self.kernel)
            if self.login is not None:
                nursery.start_soon(self.login.log_in_when_refused, agents.health)
            for work, args, name in (
                (agents.commit.run, (), "commit"),
                (
                    manifest_writer.run,
                    (agents.state.db, agents.state.drafts, agents.commit),
                    "manifest",
                ),
                (agents.fs.run, (), "filesystem"),
                (agents.notifier.run, (), "notifier"),
            ):
                supervisor.keep(work, *args, name=name)
            self.is_alive = True
            # A tree that is not known is shown after the first contact.
            self.is_shown = state.is_known
            if self.is_shown:
                task_status.started()
            try:
                await agents.contact(is_shown=self.is_shown)
            except errors.UserError as refused:
                # As with `cmsfs mount`: it exits, and the user starts it again.
                self.world.note(f"{self.name} ends: {refused}")
                if self.login is not None and refusals.ENDED in str(refused):
                    await self.login.log_in()
                await agents.fs.finish()
                await agents.commit.commit()
                self.is_alive = False  # nothing is opened on it while it ends
                self.deaths += 1
                self._end_calls()
                nursery.cancel_scope.cancel()
                return
            agents.start(supervisor)
            if not self.is_shown:
                self.is_shown = True
                task_status.started()
            self.has_contact = True
            await agents.shutdown.wanted.wait()
            await agents.fs.finish()
            await agents.commit.commit()
            with trio.move_on_after(agents.shutdown.drain_seconds), agents.push.hurrying():
                await concurrency.first_of(agents.push.drained, agents._unreachable)
            nursery.cancel_scope.cancel()

    @property
    def is_up(self) -> bool:
        return super().is_up and self.has_contact

    def _client(self, pace: RequestScheduler) -> AbstractAsyncContextManager[session.Client]:
        if self.login is None:
            return open_client(self.wire, self.user, pace, folder=self.root_id)
        return self.login.client(session.ServiceEndpoints.of_server(URL), self.wire, pace)

    def _redirect_invalidations(self, agents: daemon_app.Agent, kernel: Kernel) -> None:
        async def tell(changes: list[Change], *, is_last_attempt: bool = False) -> list[Change]:
            return await kernel.invalidate(changes)

        agents.notifier._notify_all = tell  # type: ignore[method-assign]

    def note_jump(self) -> None:
        """Record that the time jumps: tokens expire on their way."""
        if self.login is not None and self.wire.under_way:
            self.login.jumps += 1

    def kill(self, *, power: random.Random | None = None) -> None:
        super().kill(power=power)
        if self.is_dying:
            self._end_calls()

    async def wait_cleaned_up(self) -> None:
        await self._ended.wait()
        # A program's call may be in a section shielded from cancellation: a token refresh.
        while self._calls:  # noqa: ASYNC110 - the calls end by themselves
            await trio.sleep(0.1)
        await super().wait_cleaned_up()

    def _end_calls(self) -> None:
        for scope in list(self._calls):
            scope.cancel()

    async def stop(self) -> None:
        """Unmount, after uploading what can be uploaded."""
        self.agents.shutdown.ask(None)
        await self._ended.wait()

    @asynccontextmanager
    async def program_call(self) -> AsyncIterator[Kernel]:
        """The kernel for a program's calls; raises `Killed` if the daemon is dead or dies meanwhile."""
        if not self.is_shown or not self.is_alive or self.is_dying:
            raise Killed
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                yield self.kernel
            finally:
                self._calls.discard(scope)
        if scope.cancelled_caught:
            raise Killed
