"""When processes end: at a moment from now, behind the next answer from the network, or at a crash point."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cmsfs import crashpoints
from cmsfs.crashpoints import Point
from tests.simulation.world import who

# What the moments are counted from: from now, or from the next answer; all others are crash points.
NOW, ANSWER = 0, 1
# What passes the other two is between a kernel and the drive.
POINTS = [one for one in Point if one not in (Point.REQUEST_BEGUN, Point.REQUEST_DONE)]
AIMS = 2 + len(POINTS)

# Strikes a process by its name; with its power, if there is chance in what is left then.
Strike = Callable[[str, random.Random | None], None]


@dataclass
class _Doom:
    left: int  # moments
    aim: int
    power: random.Random | None
    is_counting: bool


class Dooms:
    """Who is to end, and when."""

    def __init__(self, strike: Strike, states: Counter[str]) -> None:
        self._strike = strike
        self._states = states
        self._dooms: dict[str, _Doom] = {}

    def doom(self, name: str, moments: int, aim: int, power: random.Random | None) -> None:
        """This process ends so many moments behind what is aimed at; at a crash point at once."""
        self._dooms[name] = _Doom(max(1, moments), aim % AIMS, power, aim % AIMS == NOW)

    def clear(self) -> None:
        """Nobody ends any more."""
        self._dooms.clear()

    def answered(self, name: str) -> None:
        """The process got an answer."""
        if (doom := self._dooms.get(name)) is not None and doom.aim == ANSWER:
            doom.is_counting = True

    def step(self) -> bool:
        """A moment at which a process could end; whether it does."""
        name = who.get().removesuffix("'s programs")
        doom = self._dooms.get(name)
        if doom is None or not doom.is_counting:
            return False
        doom.left -= 1
        if doom.left > 0:
            return False
        self._end(name, doom)
        return True

    def reached(self, point: crashpoints.Point) -> None:
        """A process passes a crash point."""
        name = who.get().removesuffix("'s programs")
        doom = self._dooms.get(name)
        if doom is not None and doom.aim > ANSWER and POINTS[doom.aim - 2] is point:
            self._end(name, doom)
        elif not self.step():
            return
        self._states[f"killed at {point}"] += 1

    def _end(self, name: str, doom: _Doom) -> None:
        del self._dooms[name]
        self._strike(name, doom.power)
