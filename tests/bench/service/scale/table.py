"""Results in a file that a later run continues, and the table made from them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_COLUMNS = (("sqlite", 1), ("postgres", 1), ("postgres", 2), ("postgres", 4))
_POLLED = (("sqlite", 1), ("postgres", 3))


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, on an engine with so many processes.  `load`: the load average at the end."""

    name: str
    engine: str
    processes: int
    found: dict[str, float]
    load: float
    at: str


class Results:
    """The results for stores of one size."""

    def __init__(self, path: Path, items: int) -> None:
        self._path, self.items = path, items
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._others = [line for line in lines if line["items"] != items]
        mine = [line for line in lines if line["items"] == items]
        self._rows = {
            (row.name, row.engine, row.processes): row for row in (Row(**line["row"]) for line in mine)
        }

    def forget(self) -> None:
        self._rows.clear()
        self._path.write_text("".join(json.dumps(line) + "\n" for line in self._others))

    def has(self, name: str, engine: str, processes: int) -> bool:
        return (name, engine, processes) in self._rows

    def add(self, row: Row) -> None:
        self._rows[row.name, row.engine, row.processes] = row
        with self._path.open("a") as file:
            file.write(json.dumps({"items": self.items, "row": asdict(row)}) + "\n")

    def table(self) -> str:
        """Return the Markdown table: times and sizes, then rates, then long polls."""
        loads = [row.load for row in self._rows.values()]
        ends = sorted(row.at for row in self._rows.values())
        lines = []
        if loads:
            said = f"{ends[0]} to {ends[-1]} UTC, load {min(loads):.1f} to {max(loads):.1f}"
            lines += [f"{self.items:,} items; {said}.", ""]
        lines += self._section(
            "one process",
            (("sqlite", 1), ("postgres", 1)),
            ["PostgreSQL / SQLite"],
            [
                *(("items/s", "{:,.0f} items/s"), ("bytes an item", "{:,.0f} bytes an item")),
                ("ms", "{:,.1f} ms"),
            ],
        )
        lines += self._section(
            "requests/s",
            _COLUMNS,
            ["PostgreSQL / SQLite", "4 / 1 processes"],
            [("requests/s", "{:,.1f}")],
        )
        return "\n".join([*lines, *self._polls()]) + "\n"

    def _section(
        self,
        title: str,
        columns: tuple[tuple[str, int], ...],
        ratios: list[str],
        figures: list[tuple[str, str]],
    ) -> list[str]:
        heads = [title, *(_head(*column) for column in columns), *ratios]
        lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
        for name in dict.fromkeys(row.name for row in self._rows.values()):
            rows = [self._rows.get((name, *column)) for column in columns]
            for figure, shown in figures:
                found = [None if row is None else row.found.get(figure) for row in rows]
                if all(one is None for one in found):
                    continue
                cells = [
                    "" if one is None else shown.format(one) + _cost(row)
                    for one, row in zip(found, rows, strict=True)
                ]
                pairs = [(found[1], found[0]), (found[-1], found[1])][: len(ratios)]
                cells += [f"{above / below:.2f}" if above and below else "" for above, below in pairs]
                lines.append(f"| {name} | {' | '.join(cells)} |")
        return [*lines, ""]

    def _polls(self) -> list[str]:
        lines = [
            f"| drives in long poll | {' | '.join(_head(*column) for column in _POLLED)} |",
            "| --- | --- | --- |",
        ]
        shown = {
            "memory of the largest process": "{memory:,.0f} MB",
            "memory of each that waits": "{memory each:,.0f} KiB",
            "from a write's request to the drive, p50": "{p50:,.1f} ms",
            "p99": "{p99:,.1f} ms",
            "the write's own answer, median": "{write:,.1f} ms",
            "processor of a write: service + database": "{service:,.1f} + {database:,.1f} ms",
        }
        for what, text in shown.items():
            rows = [self._rows.get(("drives in long poll", *column)) for column in _POLLED]
            cells = ["" if row is None else text.format(**row.found) for row in rows]
            lines.append(f"| {what} | {' | '.join(cells)} |")
        return lines


def _head(engine: str, processes: int) -> str:
    name = {"sqlite": "SQLite", "postgres": "PostgreSQL"}[engine]
    return f"{name} x{processes}"


def _cost(row: Row | None) -> str:
    """Return the processor time of a request, of the service and of the database server."""
    if row is None or "service" not in row.found:
        return ""
    service, database = row.found["service"], row.found["database"]
    return f" ({service:,.1f})" if row.engine == "sqlite" else f" ({service:,.1f} + {database:,.1f})"
