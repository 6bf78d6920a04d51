"""Totals over stories: counted in each process that runs some, added up, and printed as a table."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.simulation import dooms, reached
from tests.simulation.simulation import Outcome


@dataclass
class Tally:
    """Counters over a number of stories."""

    stories: int = 0
    calls: int = 0
    refused: int = 0
    requests: int = 0
    virtual_seconds: float = 0.0
    processor_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    red: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)  # of red stories

    def note(self, outcome: Outcome) -> None:
        """Count a story."""
        self.stories += 1
        self.calls += outcome.calls
        self.refused += outcome.refused
        self.requests += outcome.requests
        self.virtual_seconds += outcome.seconds
        self.faults += outcome.faults
        self.states += outcome.states
        if outcome.failures:
            self.red[outcome.kind] += 1
            self.seeds.append(outcome.plan.seed)

    def add(self, other: "Tally") -> None:
        """Add the counters of another process."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @classmethod
    def read(cls, fields: dict[str, Any]) -> "Tally":
        """Return a tally from its fields as stored in JSON."""
        made = cls()
        for name, value in fields.items():
            setattr(made, name, Counter(value) if isinstance(getattr(made, name), Counter) else value)
        return made

    @property
    def pace(self) -> float:
        """Stories per minute of processor time."""
        return 60 * self.stories / max(self.processor_seconds, 0.01)

    def line(self) -> str:
        """Return a one-line summary."""
        return (
            f"{self.stories} stories, {self.calls} calls, {self.requests} requests,"
            f" {self.virtual_seconds / 3600:.1f} virtual hours, {self.processor_seconds:.1f} s of processor:"
            f" {self.pace:.0f} stories a minute; {sum(self.red.values())} red: {dict(self.red)};"
            f" {dict(self.faults)}"
        )

    def table(self) -> str:
        """Return all counters as a table, with the decision table rows that were not reached."""
        lines = [
            "| what | how many |",
            "| --- | ---: |",
            f"| stories | {self.stories:,} |",
            f"| calls of programs and people | {self.calls:,} |",
            f"| of these refused | {self.refused:,} |",
            f"| requests | {self.requests:,} |",
            f"| virtual days | {self.virtual_seconds / 86_400:.1f} |",
            f"| stories a minute of processor | {self.pace:.0f} |",
            f"| red stories | {sum(self.red.values())} |",
        ]
        lines += [f"| fault: {name} | {count:,} |" for name, count in sorted(self.faults.items())]
        lines += [f"| {name} | {count:,} |" for name, count in sorted(self.states.items())]
        points = [f"killed at {point}" for point in dooms.POINTS]
        for what, rows in (
            ("rows of the merge's table", reached.MERGE),
            ("rows of the journal's table", reached.JOURNAL),
            ("crash points", points),
        ):
            missed = [row for row in rows if not self.states[row]]
            missing = f"; not {', '.join(missed)}" if missed else ""
            lines.append(f"| {what} | {len(rows) - len(missed)} of {len(rows)}{missing} |")
        return "\n".join(lines)
