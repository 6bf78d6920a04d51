"""Results in a file that a later run continues, and the table made from them."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.table.comparison import Comparison, Found

ORDER = ("host", "passthrough", "curl", "rclone", "cmsfs")


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of a row by one contender.  `load`: the machine's load average when it ended."""

    row: str
    who: str
    number: int
    scale: float
    found: Found
    processor: float
    memory: float
    load: float
    at: str


class Results:
    """The rounds of one scale."""

    def __init__(self, path: Path, scale: float) -> None:
        self._path, self.scale = path, scale
        self._all: list[Measured] = []
        if path.exists():
            lines = [Measured(**json.loads(line)) for line in path.read_text().splitlines()]
            self._all = [one for one in lines if one.scale == scale]

    def add(self, one: Measured) -> None:
        self._all.append(one)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(one)) + "\n")

    def has(self, row: str, who: str, number: int) -> bool:
        return any((one.row, one.who, one.number) == (row, who, number) for one in self._all)

    def median(self, row: str, who: str, figure: str) -> float | None:
        """Of a row's figure; `processor` and `memory` are such, too."""
        values = [
            getattr(one, figure) if figure in ("processor", "memory") else one.found.get(figure)
            for one in self._all
            if (one.row, one.who) == (row, who)
        ]
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def rounds(self, row: str) -> int:
        return max((one.number for one in self._all if one.row == row), default=0)

    def conditions(self) -> str:
        """When, and how much else the machine had to do."""
        if not self._all:
            return "nothing measured"
        loads = [one.load for one in self._all]
        first, last = (end(one.at for one in self._all) for end in (min, max))
        return f"{first} to {last} UTC, load {min(loads):.1f} to {max(loads):.1f}"

    def table(self, rows: Sequence[Comparison]) -> str:
        """Return the Markdown table: a line per figure, and per row one for processor time and memory."""
        lines = [f"Scale {self.scale:g} of the sizes named, {self.conditions()}; medians.", ""]
        lines += [
            f"| {' | '.join(['', *ORDER, 'wanted', 'rclone / cmsfs', 'rounds'])} |",
            f"|{' --- |' * (len(ORDER) + 4)}",
        ]
        for row in rows:
            if not self.rounds(row.name):
                continue
            for figure in row.figures:
                values = [self.median(row.name, who, figure.name) for who in ORDER]
                if any(value is not None for value in values):
                    ratio = _ratio(values[3], values[4], figure.higher)
                    cells = [_shown(value, figure.unit) for value in values]
                    rest = [figure.wanted, ratio, str(self.rounds(row.name))]
                    lines.append(f"| {' | '.join([figure.label, *cells, *rest])} |")
            costs = []
            for who in ORDER:
                used, most = (self.median(row.name, who, name) for name in ("processor", "memory"))
                cost = f"{used:.2f} s" if used else ""
                costs.append(f"{cost}, {most:,.0f} MB" if cost and most else cost)
            if any(costs):
                lines.append(f"| *{row.name}: processor, memory* | {' | '.join([*costs, '', '', ''])} |")
        return "\n".join([*lines, ""])


def _ratio(theirs: float | None, ours: float | None, higher: bool) -> str:
    """Return by which factor the drive is better."""
    if not theirs or not ours:
        return ""
    return f"{ours / theirs if higher else theirs / ours:.2g} x"


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".strip()
