"""Scheduled kills: after a number of steps from now, after the next network response, or at a crash point."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cmsfs import crashpoints
from cmsfs.crashpoints import Point
from tests.simulation.world import current_actor

# When a kill starts to count steps: now, or at the next response; all higher values are crash points.
NOW, ANSWER = 0, 1
# The two excluded points lie between the kernel and the drive, which stories replace.
POINTS = [one for one in Point if one not in (Point.REQUEST_BEGUN, Point.REQUEST_DONE)]
AIMS = 2 + len(POINTS)

# Kills the named process; with a random generator, cuts its power instead.
KillProcess = Callable[[str, random.Random | None], None]


@dataclass
class _ScheduledKill:
    left: int  # steps
    aim: int
    power: random.Random | None
    is_counting: bool


class KillSchedule:
    """The scheduled kill of each process, if any."""

    def __init__(self, kill_process: KillProcess, states: Counter[str]) -> None:
        self._kill_process = kill_process
        self._states = states
        self._kills: dict[str, _ScheduledKill] = {}

    def schedule(self, name: str, moments: int, aim: int, power: random.Random | None) -> None:
        """Kill the process that many steps after `aim` is reached; at a crash point immediately."""
        self._kills[name] = _ScheduledKill(max(1, moments), aim % AIMS, power, aim % AIMS == NOW)

    def clear(self) -> None:
        """Cancel all scheduled kills."""
        self._kills.clear()

    def on_response(self, name: str) -> None:
        """The process received a response."""
        if (kill := self._kills.get(name)) is not None and kill.aim == ANSWER:
            kill.is_counting = True

    def step(self) -> bool:
        """Count a step of the current process; return whether it was killed here."""
        if not self._kills:
            return False
        name = current_actor.get().removesuffix("'s programs")
        kill = self._kills.get(name)
        if kill is None or not kill.is_counting:
            return False
        kill.left -= 1
        if kill.left > 0:
            return False
        self._kill(name, kill)
        return True

    def on_crash_point(self, point: crashpoints.Point) -> None:
        """The current process passes a crash point."""
        name = current_actor.get().removesuffix("'s programs")
        kill = self._kills.get(name)
        if kill is not None and kill.aim > ANSWER and POINTS[kill.aim - 2] is point:
            self._kill(name, kill)
        elif not self.step():
            return
        self._states[f"killed at {point}"] += 1

    def _kill(self, name: str, kill: _ScheduledKill) -> None:
        del self._kills[name]
        self._kill_process(name, kill.power)
