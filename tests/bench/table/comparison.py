"""Definitions of the comparison: a row of the table, its figures, and its contenders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench.table.contenders import Contender
from tests.bench.table.stage import Stage

EVERYBODY = ("host", "passthrough", "rclone", "cmsfs")
LOCAL_AND_DRIVE = ("host", "passthrough", "cmsfs")
REMOTE = ("rclone", "cmsfs")

# The figures measured for a contender, by name.
Found = dict[str, float]
Play = Callable[[Stage, Contender, float], Found]


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A line of the table: the name under which a row finds it, what it is, in what, and what is wanted."""

    name: str
    label: str
    unit: str
    wanted: str = ""
    higher: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row: who takes part, what it finds, what the account holds, and what is done.

    `contents` and `play` get the scale; 1 is the size that the table is about.  `rate` caps the line.
    """

    name: str
    who: Sequence[str]
    figures: Sequence[ShownFigure]
    play: Play
    contents: Callable[[float], list[tuple[str, int]]] = lambda scale: []
    rate: float = 0
    # Without a service, or with one that the row starts itself.
    alone: bool = False
    seconds: float = 600
