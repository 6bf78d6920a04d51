"""Runs one story: machines, people and faults, then a quiet period and the check of the invariants."""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import trio

from cmsfs import config, crashpoints
from cmsfs.config import local_patterns
from cmsfs.journal import recovery
from tests.simulation import dooms, gauges, joins, judge, logbook, narrow, peace, reached, story, surroundings
from tests.simulation.disk import Disks
from tests.simulation.dooms import KillSchedule
from tests.simulation.ledger import Ledger
from tests.simulation.logins import Login
from tests.simulation.machines import OTHER, URL, Machine, Service, ServiceTransport, open_client
from tests.simulation.person import Person
from tests.simulation.process import Process
from tests.simulation.programs import Programs
from tests.simulation.story import Plan, Step
from tests.simulation.troubles import Troubles
from tests.simulation.wire import NetworkConditions
from tests.simulation.world import World, current_actor

# How long a killed process stays down.
RESTART_SECONDS = 3.0

# Deleted contents, which expire with time.
_DELETED = """
  SELECT version.sha1 FROM version JOIN item ON item.id = version.file
  WHERE item.status != 0 OR version.trashed_at IS NOT NULL
"""

# Items whose folder is unknown.
_LEFT_OVER = "SELECT 1 FROM node WHERE parent IS NULL AND remote_id IS NOT NULL AND ino > 2 LIMIT 1"

# Cache size with room for the largest file and a few others.
SMALL_CACHE_BYTES = 400_000

INITIAL_ITEMS = 14  # that exist before the drives, in plans that are `filled`

DISASTERS = {"kill", "power_cut", "cut_off", "connect", "close", "open", "silence", *story.TROUBLES}


@dataclass
class Outcome:
    """The result of a story."""

    plan: Plan
    steps: Sequence[Step]
    digest: str = ""
    failures: list[str] = field(default_factory=list)
    calls: int = 0
    refused: int = 0
    requests: int = 0
    seconds: float = 0.0  # virtual ones
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)  # rare states that were reached

    @property
    def kind(self) -> str:
        """The category of the first failure."""
        return self.failures[0].partition(":")[0] if self.failures else ""

    @property
    def shape(self) -> str:
        """The first failure without what differs from one shortened story to the next."""
        words = self.failures[0].split()[:4] if self.failures else []
        return " ".join(word for word in words if word.isalpha() or word.endswith(":"))


def run(
    plan: Plan, steps: Sequence[Step] | None = None, *, echo: Callable[[str], None] | None = None
) -> Outcome:
    """Run a story and return its outcome, with all failures."""
    chosen = story.steps(plan) if steps is None else list(steps)
    outcome = Outcome(plan, chosen)
    world = World(plan.seed, echo=echo)
    with (
        surroundings.temporary_home() as home,
        surroundings.private_databases(),
        surroundings.paused_gc(),
        surroundings.page_cache(is_warm=plan.seed % 4 == 0),
        surroundings.small_parts() if plan.parts else contextlib.nullcontext(),
        surroundings.small_pages() if plan.rough else contextlib.nullcontext(),
        contextlib.nullcontext() if plan.probes else surroundings.known_abilities(),
        reached.counting_decisions(outcome.states),
        logbook.checking_log(outcome.failures, plan, outcome.faults, world),
    ):
        simulation = _Simulation(world, plan, chosen, home, outcome)
        try:
            world.run(simulation.live)
        except Exception as error:
            outcome.failures.append(f"the story broke off: {judge.describe_error(error)}")
        if not outcome.failures:
            dead = {fd for process in simulation.processes.values() for fd in process.leaked_fds}
            opened = gauges.leaked_descriptors(home, dead=dead)
            outcome.failures += [f"descriptor: {name} is still open" for name in opened]
    outcome.digest = world.digest
    outcome.seconds = world.clock.current_time() + world.skipped_seconds
    return outcome


class _Simulation:
    def __init__(self, world: World, plan: Plan, steps: Sequence[Step], home: Path, outcome: Outcome) -> None:
        self.world, self.plan, self.steps, self.home, self.outcome = world, plan, steps, home, outcome
        self.ledger = Ledger()
        self.chance = random.Random(f"{plan.seed} simulation")
        self.kill_schedule = KillSchedule(self._kill_process, outcome.states)
        self.before_quiet: list[int] = []  # changes sent by each drive before the quiet period
        self.under_way = 0  # steps that are queued or running
        # Machines whose disk has failed, so that contents only they had may be lost.
        self.rotten: set[str] = set()
        # Machines whose cache was deleted.
        self.cacheless: set[str] = set()
        # A backup of the service was restored, so that its versions may be lost.
        self.is_service_restored = False

    async def live(self) -> None:
        world = self.world
        with trio.fail_after(86_400 * 10):
            async with AsyncExitStack() as stack:
                nursery = await stack.enter_async_context(trio.open_nursery())
                disks = Disks()
                stack.enter_context(disks.intercepting_fsync())
                self.troubles = Troubles(random.Random(f"{self.plan.seed} troubles"))
                if self.plan.troubles:
                    stack.enter_context(self.troubles.intercepting_disk_calls())
                self.service = Service(world, disks, self.home / "service", self.plan)
                user = surroundings.copy_template(self.service.root)
                await self.service.start(nursery)
                row = self.service.store.read("SELECT id FROM account WHERE login = ?", OTHER)[0]
                names = ("one", "two", "three")[: self.plan.drives]
                # The account of each drive.
                self.users = dict.fromkeys(names, user)
                if self.plan.second and len(names) > 1:
                    self.users[names[-1]] = row["id"]
                self.machines = [self.machine(disks, name, name) for name in names]
                self.disks = disks
                self.processes: dict[str, Process] = {one.name: one for one in [self.service, *self.machines]}
                crashpoints_before = crashpoints.reached
                stack.callback(setattr, crashpoints, "reached", crashpoints_before)
                crashpoints.reached = self._on_crash_point
                world.step = self.kill_schedule.step
                before = recovery._boot_id
                stack.callback(setattr, recovery, "_boot_id", before)
                recovery._boot_id = self._boot_id
                stack.enter_context(joins.noting_joins(self.ledger))
                client = await stack.enter_async_context(open_client(ServiceTransport(self.service), user))
                self.person = Person(world, client, self.service, self.ledger)
                client = await stack.enter_async_context(
                    open_client(ServiceTransport(self.service), row["id"])
                )
                self.other = Person(world, client, self.service, self.ledger, has_root=False)
                self.person.colleague = self.other
                if self.plan.narrow:
                    await narrow.begin(self, self.machines[-1])
                if self.plan.filled:
                    await self._fill()
                for machine in self.machines:
                    machine.is_slow = self.plan.slow
                    if self.plan.login:
                        self._give_login(machine)
                    machine.wire.on_response = partial(self.kill_schedule.on_response, machine.name)
                    if self.plan.power:
                        disks.add(machine.settings.paths.state)
                        disks.add(machine.settings.paths.cache)
                    await machine.start(nursery)
                self.programs = {one.name: Programs(one, self.ledger) for one in self.machines}
                for programs in self.programs.values():
                    programs.is_large = self.plan.large
                for process in self.processes.values():
                    nursery.start_soon(self._keep_restarting, process, nursery)
                self.set_network_conditions()
                await self._run_steps()
                await peace.wait_for_quiet(self)
                await judge.judge(self)
                for machine in self.machines:
                    self.outcome.requests += machine.wire.requests
                    self.outcome.faults += machine.wire.faults
                    # As happens daily: removes leftovers of items whose folder is unknown.
                    if machine.agents.state.db.rows(_LEFT_OVER) or self.chance.random() < 0.2:
                        await machine.agents.poll(full=True)
                    await machine.stop()
                judge.check_states(self)
                nursery.cancel_scope.cancel()
        self.outcome.calls = sum(one.done + one.refused for one in self.programs.values()) + self.person.done
        self.outcome.refused = sum(one.refused for one in self.programs.values())

    async def _fill(self) -> None:
        """Create folders and files before the drives start."""
        for number in range(INITIAL_ITEMS):
            await self.person.act("folder" if number < 3 else "create", (number % 4, number))

    def set_network_conditions(self) -> None:
        """Set the network conditions of the plan."""
        for machine in self.machines:
            conditions = NetworkConditions.of(self.plan.faults, self.plan.latency, self.plan.late)
            if self.plan.large and self.plan.faults:
                # Downloads of some blocks, which go on from there.
                conditions = replace(conditions, cut_answer=0.2)
            machine.wire.conditions = conditions
            machine.wire.liar.rate = self.plan.lies

    def is_second(self, machine: Machine) -> bool:
        """Return whether it is a drive of the account that folders are shared with."""
        return self.users[machine.name] != self.users["one"]

    def machine(self, disks: Disks, name: str, like: str) -> Machine:
        """Create a machine without local state, with the account and settings of the drive `like`."""
        made = Machine(self.world, disks, name, self.service, self.users[like], self._settings(name))
        if self.users[like] != self.users["one"]:
            shared = random.Random(f"{self.plan.seed} shared").choice(["folder", "ask", "root"])
            made.settings = made.settings.model_copy(update={"shared": shared})
            made.shared_prefix = "" if shared == "root" else f"{local_patterns.SHARED}/"
        return made

    def _settings(self, name: str) -> config.Settings:
        chance = random.Random(f"{self.plan.seed} settings")
        return config.Settings(
            account=name,
            profile=chance.choice(["embedded", "embedded", "box", "specification"])
            if self.plan.profile is None
            else self.plan.profile,
            base_url=f"{URL}/2.0",
            upload_url=f"{URL}/api/2.0",
            auth_url=URL,
            settle_seconds=chance.choice([0.0, 0.2, 2.0]),
            feed=chance.choice(["", "", "search"]) if self.plan.feed is None else self.plan.feed,
            network_seconds=30.0,
            poll_seconds=chance.choice([10.0, 20.0, 30.0]),
            notifications=False,
            cache_bytes=SMALL_CACHE_BYTES if self.plan.tight else 2**30,
            drain_seconds=30.0,
        )

    # ---- the steps ----

    async def _run_steps(self) -> None:
        """Run the steps: in order for each actor, concurrently between actors."""
        send: dict[str, trio.MemorySendChannel[Step]] = {}
        async with trio.open_nursery() as nursery:
            actors: dict[str, Programs | Person] = {
                **self.programs,
                "person": self.person,
                "other": self.other,
            }
            for name, actor in actors.items():
                send[name], receive = trio.open_memory_channel[Step](10_000)
                nursery.start_soon(self._actor, name, actor, receive)
            for step in self.steps:
                await trio.sleep(step.pause)
                if step.act == "pass":
                    await self._pass(step)
                    continue
                if step.act == "rest":
                    await peace.check_midway(self)
                elif step.act in DISASTERS:
                    await self._disaster(step)
                elif step.actor in send:
                    self.under_way += 1
                    send[step.actor].send_nowait(step)
            for channel in send.values():
                channel.close()

    async def _actor(
        self, name: str, actor: Programs | Person, receive: trio.MemoryReceiveChannel[Step]
    ) -> None:
        current_actor.set(f"{name}'s programs" if isinstance(actor, Programs) else name)
        async for step in receive:
            if step.act == "remount" and isinstance(actor, Programs):
                await self._remount(actor)
            else:
                await actor.act(step.act, step.args)
            self.under_way -= 1

    async def _remount(self, programs: Programs) -> None:
        """End all programs and unmount the drive; it is mounted again soon."""
        await programs.close_all()
        machine = programs.machine
        if machine.is_alive and not machine.is_dying:
            self.outcome.faults["remount"] += 1
            machine.deaths += 1
            await machine.stop()

    async def _disaster(self, step: Step) -> None:
        process = self.processes.get(step.actor)
        if process is None:
            return
        self.world.note(str(step))
        self.outcome.faults[step.act] += 1
        match step.act:
            case "cut_off" if isinstance(process, Machine):
                process.wire.is_down = True
            case "connect" if isinstance(process, Machine):
                process.wire.is_down = False
            case "close" | "open" if isinstance(process, Machine):
                process.wire.is_closed = step.act == "close"
            case "silence" if isinstance(process, Machine):
                process.wire.forced.append("silent")
            case "remember":
                process.take_snapshot()
            case "put_back":
                self._put_back(process)
            case _ if isinstance(process, Machine) and step.act in story.TROUBLES:
                self._trouble(process, step)
            case "kill" | "power_cut":
                power = random.Random(f"{self.plan.seed} {step}") if step.act == "power_cut" else None
                moments, aim = (*step.args, dooms.NOW)[:2]
                if moments or aim:
                    self.kill_schedule.schedule(process.name, moments, aim, power)
                else:
                    process.kill(power=power)

    def _trouble(self, machine: Machine, step: Step) -> None:
        match step.act:
            case "full":
                self.troubles.full.update(machine.folders)
            case "rot":
                self.troubles.rotten.update(machine.folders)
                self.rotten.add(machine.name)
                self.programs[machine.name].is_rotten = True
            case "well":
                self.troubles.repair(*machine.folders)
            case "clock":
                before = self.world.skew.get(machine.name, 0.0)
                self.world.skew[machine.name] = before + story.JUMPS[step.args[0] % len(story.JUMPS)]
            case "lose_cache":
                if machine.is_alive and not machine.is_dying:
                    self.cacheless.add(machine.name)
                    machine.lose_folder(machine.settings.paths.cache)

    async def _pass(self, step: Step) -> None:
        """Advance the time for everybody, so that tokens, locks and retention expire."""
        self.world.note(str(step))
        self.outcome.faults["pass"] += 1
        self.world.skipped_seconds += story.AGES[step.args[0] % len(story.AGES)]
        for machine in self.machines:
            machine.note_jump()
        service = self.service
        if not service.is_alive or service.is_dying:
            return
        before, purged = service.versions(), len(self.ledger.purged)
        deleted = {row["sha1"] for row in service.store.read(_DELETED)}
        await service.sweep()
        while not service.is_alive or service.is_dying:  # noqa: ASYNC110 - it is restarted
            await trio.sleep(1)
        gone = before - service.versions()
        deleted.update(self.ledger.purged[purged:])
        if gone - deleted and not self.person.disposes:
            self.outcome.failures.append(f"vanished by time: {sorted(gone - deleted)}")
        self.ledger.replaced |= gone

    def _put_back(self, process: Process) -> None:
        since = process.snapshot_at
        if not process.restore_snapshot() or since is None:
            return
        self.ledger.has_torn_writes = True
        if process is self.service:
            # Its contents may be lost: the drives need not keep them.
            self.ledger.replaced |= self.service.versions()
            self.is_service_restored = True

    def _kill_process(self, name: str, power: random.Random | None) -> None:
        self.processes[name].kill(power=power)

    def _on_crash_point(self, point: crashpoints.Point) -> None:
        machine = self.processes.get(current_actor.get().removesuffix("'s programs"))
        is_stored = point is crashpoints.Point.TOKENS_KEPT
        if is_stored and isinstance(machine, Machine) and machine.login and not machine.is_dying:
            machine.login.note_stored()
        self.kill_schedule.on_crash_point(point)

    def _give_login(self, machine: Machine) -> None:
        """Give the machine a user's login."""
        login = machine.login = Login(machine.settings.paths, self.service, machine.user)
        machine.wire.on_token_request = login.note_issued

    def _boot_id(self) -> str:
        name = current_actor.get()
        cuts = [len(one.power_cuts) for one in self.machines if one.name == name]
        return f"{name} {cuts}"

    async def _keep_restarting(self, process: Process, nursery: trio.Nursery) -> None:
        while True:
            await process.wait_ended()
            await process.wait_cleaned_up()
            await trio.sleep(RESTART_SECONDS)
            # A start can use the reserved disk space.
            self.troubles.full.difference_update(process.folders)
            try:
                await process.start(nursery)
            except RuntimeError:  # killed before it was ready
                self.world.note(f"{process.name} died at its start")
