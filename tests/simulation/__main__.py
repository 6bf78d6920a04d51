"""Command line of `tests/simulation/run`: runs stories by seed."""

import argparse
import faulthandler
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation import long_run, planted, planted_kinds, simulation, surroundings
from tests.simulation.story import Plan, Step
from tests.simulation.tally import Tally
from tests.support import cheap_passwords, database_templates

# Limits of one story: of its processor time; and of all its time, of which a busy machine, or whoever stops
# the process meanwhile, takes a good part.
PROCESSOR_SECONDS = 300.0
LONGEST_SECONDS = 3600.0

# Up to so many stories one process runs without the one that loads all modules and makes the template.
FEW = 5

# Default first seed and number of stories of a long run.
LONG_SEED = 10_000_000
LONG_STORIES = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/simulation/run")
    parser.add_argument("--seed", type=int, help="seed of the first story (default: random)")
    parser.add_argument("--stories", type=int, help="number of stories (default: 1; with --long 100,000)")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no story after this time")
    parser.add_argument(
        "--harsh", action="store_true", help="bad network, kills and power cuts in every story"
    )
    parser.add_argument("--table", action="store_true", help="print a table of what the stories covered")
    parser.add_argument(
        "--jobs", type=int, help="number of processes; 0 (the default with --long): one per core"
    )
    parser.add_argument(
        "--long",
        type=Path,
        metavar="FILE",
        help="start a long run that writes its results to FILE, or continue it",
    )
    parser.add_argument(
        "--backup", action="store_true", help="restore an old backup of the service during the story"
    )
    parser.add_argument("--trace", action="store_true", help="print the story as it runs")
    parser.add_argument("--twice", action="store_true", help="run each story twice and compare the traces")
    parser.add_argument(
        "--shrink", action="store_true", help="find the shortest list of steps that still fails"
    )
    parser.add_argument(
        "--plant", choices=[*planted.PLANTED], help="run with this bug; stop at the first story that finds it"
    )
    parser.add_argument(
        "--plants",
        nargs="*",
        metavar="BUG",
        help="print how many stories it takes to find each bug (or these)",
    )
    chosen = parser.parse_args()
    cheap_passwords.install()
    database_templates.install()
    surroundings.quick_sqlite()
    surroundings.disable_gc()
    if chosen.stories is None:
        chosen.stories = 1 if chosen.long is None else LONG_STORIES
    if chosen.jobs is None:
        chosen.jobs = 1 if chosen.long is None else 0
    if chosen.seed is None and chosen.long is not None:
        chosen.seed = LONG_SEED
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(10**6)
    if chosen.plants is not None:
        return measure_bugs(chosen)
    with planted.planted(chosen.plant):
        return run_stories(chosen)


def measure_bugs(chosen: argparse.Namespace) -> int:
    """Print how many stories it takes to find each bug; return 1 if any is not found."""
    missed = 0
    print("| Bug | Stories | Failed check |\n| --- | --- | --- |", flush=True)
    for bug in chosen.plants or planted.PLANTED:
        for count in range(1, chosen.stories + 1):
            plan = planted_kinds.plan(bug, chosen.seed + count - 1, chosen.steps)
            if chosen.harsh:
                plan = harsh(plan)
            with limited():
                with planted.planted(bug):
                    outcome = simulation.run(plan)
                # A story that also fails without the bug does not count.
                is_found = outcome.failures and not simulation.run(plan).failures
            if is_found:
                print(f"| `{bug}` | {count} | {outcome.kind} |", flush=True)
                break
        else:
            missed += 1
            print(f"| `{bug}` | not found in {chosen.stories} | |", flush=True)
    return 1 if missed else 0


def harsh(plan: Plan) -> Plan:
    """Return the plan with a bad network, kills and power cuts added."""
    is_far = plan.offline or plan.seed % 2 == 0
    return replace(plan, faults=plan.faults or 0.1, kills=True, power=True, offline=is_far)


def run_stories(chosen: argparse.Namespace) -> int:
    """Run the chosen stories, in parallel if asked for; return 1 if any failed."""
    jobs = min(chosen.jobs or os.cpu_count() or 1, chosen.stories)
    if jobs > 1 or chosen.stories > FEW or chosen.long is not None:
        with limited():
            surroundings.warm_up(lambda seed: simulation.run(Plan.of(seed, chosen.steps)))
    if jobs == 1 and chosen.long is None:
        tally = run_serially(chosen)
        table = tally.table
    else:
        results = long_run.Results(chosen.long)
        tally = long_run.run(
            results,
            chosen.seed,
            chosen.stories,
            jobs=jobs,
            seconds=chosen.seconds,
            run_story=lambda number: run_one(chosen, number),
            report=lambda line: print(line, file=sys.stderr, flush=True),
        )
        table = results.table
    if chosen.table or chosen.long is not None:
        print(table())
    print(tally.line())
    if tally.seeds:
        print(f"red seeds: {sorted(tally.seeds)}")
    return 1 if tally.red else 0


def run_serially(chosen: argparse.Namespace) -> Tally:
    """Run the stories one after the other in this process."""
    began, used = time.perf_counter(), time.process_time()
    tally = Tally()
    for number in range(chosen.seed, chosen.seed + chosen.stories):
        if time.perf_counter() - began > chosen.seconds:
            break
        outcome = run_one(chosen, number)
        tally.note(outcome)
        if not outcome.failures:
            continue
        if chosen.shrink:
            show(shrink(outcome.plan, outcome.steps, outcome.shape, report=print), steps=True)
        if chosen.shrink or chosen.plant:
            break
    tally.processor_seconds = time.process_time() - used
    return tally


def run_one(chosen: argparse.Namespace, number: int) -> simulation.Outcome:
    """Run one story and print its failures."""
    plan = planted_kinds.plan(chosen.plant or "", number, chosen.steps)
    if chosen.harsh:
        plan = harsh(plan)
    if chosen.backup:
        plan = replace(plan, backup=True)
    with limited():
        outcome = simulation.run(plan, echo=print if chosen.trace else None)
        if chosen.twice and simulation.run(plan).digest != outcome.digest:
            outcome.failures.append("two ends: the same story went another way")
    if outcome.failures:
        show(outcome)
    return outcome


@contextmanager
def limited() -> Iterator[None]:
    """Have a story that does not end print its stack, and end the process."""
    faulthandler.register(signal.SIGPROF, chain=True)
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def shrink(
    plan: Plan, steps: Sequence[Step], shape: str, *, report: Callable[[str], None] = lambda _: None
) -> simulation.Outcome:
    """Remove steps, large chunks first, as long as the story still fails in the same way."""
    best = simulation.run(plan, steps)
    size = max(1, len(steps) // 2)
    while size:
        place = 0
        while place < len(best.steps):
            shorter = [*best.steps[:place], *best.steps[place + size :]]
            outcome = simulation.run(plan, shorter)
            if outcome.shape == shape:
                best = outcome
                report(f"{len(shorter)} steps")
            else:
                place += size
        size //= 2
    return best


def show(outcome: simulation.Outcome, *, steps: bool = False) -> None:
    print(f"seed {outcome.plan.seed}: {outcome.plan}")
    for step in outcome.steps if steps else ():
        print(f"    {step}")
    for failure in outcome.failures[:6]:
        print(f"    {failure[:700]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
