"""Benchmark of the service at scale: SQLite and PostgreSQL side by side, in one table.

    python -m tests.bench.service.scale [--items 1000000] [--rows latency,polls] [--seconds 4] [--into FOLDER]

Makes a store on each engine by its bulk load (kept in the folder for the next run), and asks: by one caller,
how long a request takes; by eight at once, how many a second one, two and four processes answer; and what a
thousand drives in long poll cost.  What was measured stands in `results.jsonl` of the folder, and a run goes
on where the last one ended; `--again` forgets it.  Beside each figure stand the milliseconds that a request
took of the processor, of the service and of the database's server, since the caller has a part of the same
processors.  Nothing here asserts anything.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cmsfs.client.content.search import EVERYTHING, FIELDS
from tests.bench.service import hello
from tests.bench.service.scale import load, polling
from tests.bench.service.scale.serving import Running, Services
from tests.bench.service.scale.table import Results, Row
from tests.bench.service.scale.tree import COMMON, RARE

ENGINES = ("sqlite", "postgres")
PROCESSES = {"sqlite": (1,), "postgres": (1, 2, 4)}
POLLED = {"sqlite": 1, "postgres": 3}
GROUPS = ("store", "latency", "rates", "polls")

# How often each request is measured, and before that, warmed up: repeated statements are prepared.
_TIMES, _MOST = 5, 30
_WARM, _WARM_SECONDS = 8, 2
_WRITES = 300
_FIELDS = ",".join(FIELDS)


class Bench:
    def __init__(self, services: Services, results: Results, seconds: float, drives: int) -> None:
        self.services, self.results = services, results
        self.seconds, self.drives = seconds, drives

    def row(self, name: str, engine: str, processes: int, measure: Callable[[], dict[str, float]]) -> None:
        """Measure what has no result yet."""
        if self.results.has(name, engine, processes):
            return
        began = time.monotonic()
        found = measure()
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        self.results.add(Row(name, engine, processes, found, os.getloadavg()[0], now))
        said = ", ".join(f"{what} {value:,.2f}" for what, value in found.items())
        took = time.monotonic() - began
        print(f"  {engine} x{processes}, {name}: {said} ({took:.0f} s)", file=sys.stderr, flush=True)

    def store(self, engine: str) -> None:
        self.row("bulk load", engine, 1, partial(self._store, engine))

    def _store(self, engine: str) -> dict[str, float]:
        facts = self.services.kept(engine).facts
        return {
            "items/s": facts["items"] / facts["seconds"],
            "bytes an item": facts["bytes"] / facts["items"],
            "GB": facts["bytes"] / 1e9,
        }

    def latency(self, engine: str) -> None:
        wanted = [name for name in _QUESTIONS if not self.results.has(name, engine, 1)]
        if not wanted:
            return
        with self.services.running(engine, 1) as running:
            for name in wanted:
                self.row(name, engine, 1, partial(self._latency, running, _QUESTIONS[name]))

    def _latency(self, running: Running, question: Callable[[Running], str]) -> dict[str, float]:
        token = running.facts["tokens"][0]
        times: list[float] = []
        worked: list[list[float]] = []
        with load.connect(running.ports[0]) as sock:
            path = question(running)
            warm = time.monotonic() + _WARM_SECONDS
            for _ in range(_WARM):
                hello.ask(sock, load.request(token, "GET", f"/2.0{path}"))
                if time.monotonic() > warm:
                    break
            ends = time.monotonic() + self.seconds
            while len(times) < _TIMES or (len(times) < _MOST and time.monotonic() < ends):
                # A change invalidates cached results.
                body = json.dumps({"name": f"w {time.time_ns()}", "parent": {"id": "0"}}).encode()
                hello.ask(sock, load.request(token, "POST", "/2.0/folders", body))
                before, began = running.worked(), time.perf_counter()
                hello.ask(sock, load.request(token, "GET", f"/2.0{path}"))
                times.append((time.perf_counter() - began) * 1000)
                worked.append([now - then for now, then in zip(running.worked(), before, strict=True)])
        return {
            "ms": statistics.median(times),
            "best": min(times),
            "service": statistics.median(one[0] for one in worked),
            "database": statistics.median(one[1] for one in worked),
        }

    def rates(self, engine: str, processes: int) -> None:
        wanted = [name for name in _RATES if not self.results.has(name, engine, processes)]
        if not wanted:
            return
        with self.services.running(engine, processes) as running:
            asked = load.Asked(running)
            asked.large()
            for name in wanted:
                measure = partial(self._rate, running, getattr(asked, _RATES[name]))
                self.row(name, engine, processes, measure)

    def _rate(self, running: Running, ask: load.Ask) -> dict[str, float]:
        before = running.worked()
        seconds, count = load.rate(running.ports, ask, self.seconds)
        # Requests sent before the clock started cost processor time as well.
        each = [
            (now - then) / (count + load.CONNECTIONS)
            for now, then in zip(running.worked(), before, strict=True)
        ]
        return {"requests/s": count / seconds, "service": each[0], "database": each[1]}

    def polls(self, engine: str) -> None:
        processes = POLLED[engine]
        if not self.results.has("drives in long poll", engine, processes):
            with self.services.running(engine, processes) as running:
                measure = partial(polling.measure, running, self.drives, _WRITES)
                self.row("drives in long poll", engine, processes, measure)


def _asked(path: str, **params: Any) -> str:
    return f"{path}?{urlencode(params)}"


def _page(folder: str, offset: int) -> Callable[[Running], str]:
    def question(running: Running) -> str:
        number = running.facts["folders"][folder]
        order = {"sort": "modified_at", "direction": "DESC", "limit": 200, "offset": offset}
        return _asked("/search", query=EVERYTHING, ancestor_folder_ids=number, fields=_FIELDS, **order)

    return question


def _since(running: Running) -> str:
    token = running.facts["tokens"][0]
    with load.connect(running.ports[0]) as sock:
        order = {"sort": "modified_at", "direction": "DESC", "limit": 20}
        found = json.loads(
            hello.ask(sock, load.get(token, "/search", query=EVERYTHING, fields=_FIELDS, **order))
        )
    moment = found["entries"][-1]["modified_at"]
    span = {"updated_at_range": f"{moment},", "sort": "modified_at", "direction": "DESC", "limit": 200}
    return _asked("/search", query=EVERYTHING, fields=_FIELDS, **span)


def _word(query: str, **more: Any) -> Callable[[Running], str]:
    return lambda running: _asked("/search", query=query, limit=200, fields=_FIELDS, **more)


_LATEST = {"sort": "modified_at", "direction": "DESC"}
_QUESTIONS: dict[str, Callable[[Running], str]] = {
    "a bare request": lambda running: "/users/me",
    "stat of a file": lambda running: f"/files/{running.facts['file'] + running.facts['files'] // 2}",
    "page of 200 below a deep folder": _page("end", 0),
    "page of 200 below a deep folder, at 4,000": _page("deep", 4000),
    "page of 200 below a seventh of all": _page("middle", 0),
    "page of 200 below most of all, at 4,000": _page("projects", 4000),
    "changed since, 20 items": _since,
    "rare word": _word(RARE),
    "common word, by relevance": _word(COMMON),
    "common word, latest first": _word(COMMON, **_LATEST),
    "two common words": _word(f"{COMMON} AND bridge"),
    "listing of 1,000 of a flat folder": lambda running: _asked(
        f"/folders/{running.facts['folders']['flat']}/items", limit=1000, offset=5000, fields=_FIELDS
    ),
}
_RATES = {
    "stat": "stat",
    "listing of 100": "listing",
    "search": "search",
    "upload, small": "upload_small",
    "download, small": "download_small",
    "upload, 32 MiB": "upload_large",
    "download, 32 MiB": "download_large",
}


def _steps(bench: Bench, groups: list[str]) -> Iterator[Callable[[], None]]:
    """Alternate between the engines, so that both see the same load of the machine."""
    if "store" in groups:
        yield from (partial(bench.store, engine) for engine in ENGINES)
    if "latency" in groups:
        yield from (partial(bench.latency, engine) for engine in ENGINES)
    if "rates" in groups:
        for engine in ENGINES:
            yield from (partial(bench.rates, engine, count) for count in PROCESSES[engine])
    if "polls" in groups:
        yield from (partial(bench.polls, engine) for engine in ENGINES)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rows", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--seconds", type=float, default=4, help="for each rate")
    parser.add_argument("--drives", type=int, default=1000, help="in long poll")
    parser.add_argument("--into", type=Path, help="stores and results (default: below TMPDIR)")
    parser.add_argument("--again", action="store_true", help="repeat measurements that have results already")
    chosen = parser.parse_args()
    folder = chosen.into or Path(tempfile.gettempdir()) / "cmsfs-bench-scale"
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder / "results.jsonl", chosen.items)
    if chosen.again:
        results.forget()
    with ExitStack() as stack:
        services = Services(folder, chosen.items)
        stack.callback(services.close)
        bench = Bench(services, results, chosen.seconds, chosen.drives)
        for step in _steps(bench, chosen.rows.split(",")):
            step()
    table = results.table()
    (folder / f"table-{chosen.items}.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
