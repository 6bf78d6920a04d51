"""One story from its beginning to the judgement: machines, people, disasters, peace, what is left then."""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from cmsfs import config, crashpoints
from cmsfs.config import local_patterns
from cmsfs.journal import recovery
from tests.simulation import dooms, gauges, judge, logbook, peace, reached, story, surroundings
from tests.simulation.disk import Disks
from tests.simulation.dooms import Dooms
from tests.simulation.ledger import Ledger
from tests.simulation.logins import Login
from tests.simulation.machines import OTHER, URL, Ever, Machine, Process, Service, open_client
from tests.simulation.person import Person
from tests.simulation.programs import Programs
from tests.simulation.story import Plan, Step
from tests.simulation.troubles import Troubles
from tests.simulation.wire import Weather
from tests.simulation.world import World, who

# How long a process stays away after its death.
AWAY_SECONDS = 3.0

# Contents that somebody has deleted, and that go with time.
_DELETED = """
  SELECT version.sha1 FROM version JOIN item ON item.id = version.file
  WHERE item.status != 0 OR version.trashed_at IS NOT NULL
"""

# A cache of this size has room for the largest file and a few others.
TIGHT_BYTES = 400_000

# Items that are there before the drives, where there are any.
FILLED = 14

DISASTERS = {"kill", "power_cut", "cut_off", "connect", "silence", *story.TROUBLES}


@dataclass
class Outcome:
    """What became of a story."""

    plan: Plan
    steps: Sequence[Step]
    digest: str = ""
    failures: list[str] = field(default_factory=list)
    calls: int = 0
    refused: int = 0
    requests: int = 0
    seconds: float = 0.0  # virtual ones
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)  # that are rare

    @property
    def kind(self) -> str:
        """The first thing that went wrong, without its particulars."""
        return self.failures[0].partition(":")[0] if self.failures else ""


def run(
    plan: Plan, steps: Sequence[Step] | None = None, *, echo: Callable[[str], None] | None = None
) -> Outcome:
    """Live through a story; what went wrong is in the outcome."""
    chosen = story.steps(plan) if steps is None else list(steps)
    outcome = Outcome(plan, chosen)
    world = World(plan.seed, echo=echo)
    with (
        surroundings.folders() as home,
        surroundings.without_collector(),
        surroundings.parts() if plan.parts else contextlib.nullcontext(),
        reached.counting(outcome.states),
        logbook.watching(outcome.failures, plan, world),
    ):
        one = _Simulation(world, plan, chosen, home, outcome)
        try:
            world.run(one.live)
        except Exception as error:
            outcome.failures.append(f"the story broke off: {judge.told(error)}")
        if not outcome.failures:
            dead = {fd for process in one.processes.values() for fd in process.dead}
            opened = gauges.descriptors(home, dead=dead)
            outcome.failures += [f"descriptor: {name} is open still" for name in opened]
    outcome.digest = world.digest
    outcome.seconds = world.clock.current_time() + world.slept
    return outcome


class _Simulation:
    def __init__(self, world: World, plan: Plan, steps: Sequence[Step], home: Path, outcome: Outcome) -> None:
        self.world, self.plan, self.steps, self.home, self.outcome = world, plan, steps, home, outcome
        self.ledger = Ledger()
        self.chance = random.Random(f"{plan.seed} simulation")
        self.dooms = Dooms(self._strike, outcome.states)
        self.before_quiet: list[int] = []  # changes that each drive had asked for when it was to be quiet
        self.under_way = 0  # steps that somebody has begun or has before them
        # Whose disk has failed: what only that one had may be lost.
        self.rotten: set[str] = set()
        # The service has lost what it had: nothing it says of versions needs to be so any more.
        self.is_of_the_past = False

    async def live(self) -> None:
        world = self.world
        with trio.fail_after(86_400 * 10):
            async with AsyncExitStack() as stack:
                nursery = await stack.enter_async_context(trio.open_nursery())
                disks = Disks()
                stack.enter_context(disks.listening())
                self.troubles = Troubles(random.Random(f"{self.plan.seed} troubles"))
                if self.plan.troubles:
                    stack.enter_context(self.troubles.happening())
                self.service = Service(world, disks, self.home / "service")
                user = surroundings.template(self.service.root)
                await self.service.start(nursery)
                row = self.service.store.read("SELECT id FROM account WHERE login = ?", OTHER)[0]
                names = ("one", "two", "three")[: self.plan.drives]
                # Whose drive it is.
                self.users = dict.fromkeys(names, user)
                if self.plan.second and len(names) > 1:
                    self.users[names[-1]] = row["id"]
                self.machines = [self.machine(disks, name, name) for name in names]
                self.disks = disks
                self.processes: dict[str, Process] = {one.name: one for one in [self.service, *self.machines]}
                crashpoints_before = crashpoints.reached
                stack.callback(setattr, crashpoints, "reached", crashpoints_before)
                crashpoints.reached = self._reached
                world.step = self.dooms.step
                before = recovery._boot_id
                stack.callback(setattr, recovery, "_boot_id", before)
                recovery._boot_id = self._boot_id
                client = await stack.enter_async_context(open_client(Ever(self.service), user))
                self.person = Person(world, client, self.service, self.ledger)
                client = await stack.enter_async_context(open_client(Ever(self.service), row["id"]))
                self.other = Person(world, client, self.service, self.ledger, has_root=False)
                if self.plan.filled:
                    await self._fill()
                for machine in self.machines:
                    machine.is_slow = self.plan.slow
                    if self.plan.login:
                        self._log_in(machine)
                    machine.wire.answered = partial(self.dooms.answered, machine.name)
                    if self.plan.power:
                        disks.add(machine.settings.paths.state)
                        disks.add(machine.settings.paths.cache)
                    await machine.start(nursery)
                self.programs = {one.name: Programs(one, self.ledger) for one in self.machines}
                for process in self.processes.values():
                    nursery.start_soon(self._revive, process, nursery)
                self.trouble()
                await self._tell()
                await peace.come(self)
                await judge.judge(self)
                for machine in self.machines:
                    self.outcome.requests += machine.wire.requests
                    self.outcome.faults += machine.wire.faults
                    # As every day: what was left of items whose folder is unknown goes.
                    await machine.agents.poll(full=True)
                    await machine.stop()
                judge.check_states(self)
                nursery.cancel_scope.cancel()
        self.outcome.calls = sum(one.done + one.refused for one in self.programs.values()) + self.person.done
        self.outcome.refused = sum(one.refused for one in self.programs.values())

    async def _fill(self) -> None:
        """There are folders and files before anybody has a drive."""
        for number in range(FILLED):
            await self.person.act("folder" if number < 3 else "create", (number % 4, number))

    def trouble(self) -> None:
        """The network is as the plan has it."""
        for machine in self.machines:
            machine.wire.weather = Weather.of(self.plan.faults, self.plan.latency)
            machine.wire.liar.rate = self.plan.lies

    def is_second(self, machine: Machine) -> bool:
        """Whether it is a drive of the account that folders are shared with."""
        return self.users[machine.name] != self.users["one"]

    def machine(self, disks: Disks, name: str, like: str) -> Machine:
        """A machine that has nothing yet, with a drive of the same account and settings as that one."""
        made = Machine(self.world, disks, name, self.service, self.users[like], self._settings(name))
        if self.users[like] != self.users["one"]:
            shared = random.Random(f"{self.plan.seed} shared").choice(["folder", "ask", "root"])
            made.settings = made.settings.model_copy(update={"shared": shared})
            made.shelf = "" if shared == "root" else f"{local_patterns.SHARED}/"
        return made

    def _settings(self, name: str) -> config.Settings:
        chance = random.Random(f"{self.plan.seed} settings")
        return config.Settings(
            account=name,
            profile=chance.choice(["embedded", "embedded", "box", "specification"]),
            base_url=f"{URL}/2.0",
            upload_url=f"{URL}/api/2.0",
            auth_url=URL,
            settle_seconds=chance.choice([0.0, 0.2, 2.0]),
            feed=chance.choice(["", "", "search"]) if self.plan.feed is None else self.plan.feed,
            network_seconds=30.0,
            poll_seconds=chance.choice([5.0, 15.0, 30.0]),
            notifications=False,
            cache_bytes=TIGHT_BYTES if self.plan.tight else 2**30,
            drain_seconds=30.0,
        )

    # ---- the steps ----

    async def _tell(self) -> None:
        """Everybody does what is his, one thing after the other; nobody waits for anybody else."""
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
                    await peace.rest(self)
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
        who.set(f"{name}'s programs" if isinstance(actor, Programs) else name)
        async for step in receive:
            if step.act == "remount" and isinstance(actor, Programs):
                await self._remount(actor)
            else:
                await actor.act(step.act, step.args)
            self.under_way -= 1

    async def _remount(self, programs: Programs) -> None:
        """Programs end, and the drive is unmounted; it is mounted again soon."""
        await programs.let_go()
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
            case "silence" if isinstance(process, Machine):
                process.wire.next.append("silent")
            case "remember":
                process.remember()
            case "put_back":
                self._put_back(process)
            case _ if isinstance(process, Machine) and step.act in story.TROUBLES:
                self._trouble(process, step)
            case "kill" | "power_cut":
                power = random.Random(f"{self.plan.seed} {step}") if step.act == "power_cut" else None
                moments, aim = (*step.args, dooms.NOW)[:2]
                if moments or aim:
                    self.dooms.doom(process.name, moments, aim, power)
                else:
                    process.strike(power=power)

    def _trouble(self, machine: Machine, step: Step) -> None:
        match step.act:
            case "full":
                self.troubles.full.update(machine.folders)
            case "rot":
                self.troubles.rotten.update(machine.folders)
                self.rotten.add(machine.name)
            case "well":
                self.troubles.well(*machine.folders)
            case "clock":
                before = self.world.skew.get(machine.name, 0.0)
                self.world.skew[machine.name] = before + story.JUMPS[step.args[0] % len(story.JUMPS)]
            case "lose_cache":
                if machine.is_alive and not machine.is_dying:
                    machine.lose(machine.settings.paths.cache)

    async def _pass(self, step: Step) -> None:
        """Everybody sleeps for so long: what is good for a time ends meanwhile."""
        self.world.note(str(step))
        self.outcome.faults["pass"] += 1
        self.world.slept += story.AGES[step.args[0] % len(story.AGES)]
        service = self.service
        if not service.is_alive or service.is_dying:
            return
        before = {row["sha1"] for row in service.store.read("SELECT sha1 FROM version")}
        deleted = {row["sha1"] for row in service.store.read(_DELETED)}
        await service.sweep()
        while not service.is_alive or service.is_dying:  # noqa: ASYNC110 - it comes back
            await trio.sleep(1)
        gone = before - {row["sha1"] for row in service.store.read("SELECT sha1 FROM version")}
        if gone - deleted and not self.person.disposes:
            self.outcome.failures.append(f"vanished by time: {sorted(gone - deleted)}")
        self.ledger.replaced |= gone

    def _put_back(self, process: Process) -> None:
        since = process.remembered_at
        if not process.put_back() or since is None:
            return
        self.ledger.torn = True
        if process is self.service:
            # What it had, nobody keeps for it.
            found = self.service.store.read("SELECT sha1 FROM version")
            self.ledger.replaced |= {row["sha1"] for row in found}
            self.is_of_the_past = True

    def _strike(self, name: str, power: random.Random | None) -> None:
        self.processes[name].strike(power=power)

    def _reached(self, point: crashpoints.Point) -> None:
        machine = self.processes.get(who.get().removesuffix("'s programs"))
        if isinstance(machine, Machine) and machine.login and not machine.is_dying:
            machine.login.kept += point is crashpoints.Point.TOKENS_KEPT
        self.dooms.reached(point)

    def _log_in(self, machine: Machine) -> None:
        """It has a person's tokens from now on."""
        login = machine.login = Login(machine.settings.paths, self.service, machine.user)

        def asked(count: int) -> None:
            login.asked += count

        machine.wire.tokens_asked = asked

    def _boot_id(self) -> str:
        name = who.get()
        cuts = [len(one.cuts) for one in self.machines if one.name == name]
        return f"{name} {cuts}"

    async def _revive(self, process: Process, nursery: trio.Nursery) -> None:
        while True:
            await process.ended()
            await process.buried()
            await trio.sleep(AWAY_SECONDS)
            # What is set aside for that is there for a start.
            self.troubles.full.difference_update(process.folders)
            try:
                await process.start(nursery)
            except RuntimeError:  # killed before it answered
                self.world.note(f"{process.name} died at its start")
