"""The program behind `tests/simulation/run`: stories by their seeds."""

import argparse
import faulthandler
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation import long_run, planted, planted_kinds, simulation
from tests.simulation.story import Plan, Step
from tests.simulation.tally import Tally
from tests.support import cheap_passwords, database_templates

# No story is alive after so long, however busy the machine is.
LONGEST_SECONDS = 300.0

# A long run: from this seed on, so many stories.
LONG_SEED = 10_000_000
LONG_STORIES = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/simulation/run")
    parser.add_argument("--seed", type=int, help="the first story; at random if it is not said")
    parser.add_argument("--stories", type=int, help="how many; 1, and of a long run 100,000")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no story after so long")
    parser.add_argument("--harsh", action="store_true", help="bad networks, kills and power cuts in each")
    parser.add_argument("--table", action="store_true", help="tell what was reached")
    parser.add_argument("--jobs", type=int, help="processes; 0: one a core, as in a long run")
    parser.add_argument(
        "--long",
        type=Path,
        metavar="FILE",
        help="go on with the run whose results it has, or begin it",
    )
    parser.add_argument("--backup", action="store_true", help="an old backup of the service is put back")
    parser.add_argument("--trace", action="store_true", help="print the story")
    parser.add_argument("--twice", action="store_true", help="each story twice, to the same end")
    parser.add_argument("--shrink", action="store_true", help="the shortest form of what goes wrong")
    parser.add_argument("--plant", choices=[*planted.PLANTED], help="with this bug; ends where it is found")
    parser.add_argument(
        "--plants", nargs="*", metavar="BUG", help="a table: each bug (or these), and the stories to find it"
    )
    chosen = parser.parse_args()
    cheap_passwords.install()
    database_templates.install()
    if chosen.stories is None:
        chosen.stories = 1 if chosen.long is None else LONG_STORIES
    if chosen.jobs is None:
        chosen.jobs = 1 if chosen.long is None else 0
    if chosen.seed is None and chosen.long is not None:
        chosen.seed = LONG_SEED
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(10**6)
    if chosen.plants is not None:
        return find_all(chosen)
    with planted.planted(chosen.plant):
        return tell(chosen)


def find_all(chosen: argparse.Namespace) -> int:
    """One bug after the other, with the number of stories that it takes to find it; 1 if one is not found."""
    missed = 0
    print("| Bug | Stories | What is judged |\n| --- | --- | --- |", flush=True)
    for bug in chosen.plants or planted.PLANTED:
        for count in range(1, chosen.stories + 1):
            plan = planted_kinds.plan(bug, chosen.seed + count - 1, chosen.steps)
            if chosen.harsh:
                plan = harsh(plan)
            faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
            with planted.planted(bug):
                outcome = simulation.run(plan)
            # What goes wrong without it, too, tells nothing of it.
            if outcome.failures and not simulation.run(plan).failures:
                print(f"| `{bug}` | {count} | {outcome.kind} |", flush=True)
                break
        else:
            missed += 1
            print(f"| `{bug}` | not found in {chosen.stories} | |", flush=True)
    return 1 if missed else 0


def harsh(plan: Plan) -> Plan:
    """The same with a bad network, kills and power cuts."""
    is_far = plan.offline or plan.seed % 2 == 0
    return replace(plan, faults=plan.faults or 0.1, kills=True, power=True, offline=is_far)


def tell(chosen: argparse.Namespace) -> int:
    """Live through the stories, in as many processes as are wanted; 1 if one went wrong."""
    jobs = min(chosen.jobs or os.cpu_count() or 1, chosen.stories)
    if jobs == 1 and chosen.long is None:
        tally = live(chosen)
        table = tally.table
    else:
        results = long_run.Results(chosen.long)
        tally = long_run.run(
            results,
            chosen.seed,
            chosen.stories,
            jobs=jobs,
            seconds=chosen.seconds,
            live=lambda number: live_one(chosen, number),
            told=lambda line: print(line, file=sys.stderr, flush=True),
        )
        table = results.table
    if chosen.table or chosen.long is not None:
        print(table())
    print(tally.line())
    if tally.seeds:
        print(f"red seeds: {sorted(tally.seeds)}")
    return 1 if tally.red else 0


def live(chosen: argparse.Namespace) -> Tally:
    """Each of so many stories."""
    began, used = time.perf_counter(), time.process_time()
    tally = Tally()
    for number in range(chosen.seed, chosen.seed + chosen.stories):
        if time.perf_counter() - began > chosen.seconds:
            break
        outcome = live_one(chosen, number)
        tally.note(outcome)
        if not outcome.failures:
            continue
        if chosen.shrink:
            show(shrink(outcome.plan, outcome.steps, outcome.kind, told=print), steps=True)
        if chosen.shrink or chosen.plant:
            break
    tally.processor_seconds = time.process_time() - used
    return tally


def live_one(chosen: argparse.Namespace, number: int) -> simulation.Outcome:
    """One story; what went wrong is printed."""
    plan = planted_kinds.plan(chosen.plant or "", number, chosen.steps)
    if chosen.harsh:
        plan = harsh(plan)
    if chosen.backup:
        plan = replace(plan, backup=True)
    # One that does not end by itself tells where it is.
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    outcome = simulation.run(plan, echo=print if chosen.trace else None)
    if chosen.twice and simulation.run(plan).digest != outcome.digest:
        outcome.failures.append("two ends: the same story went another way")
    faulthandler.cancel_dump_traceback_later()
    if outcome.failures:
        show(outcome)
    return outcome


def shrink(
    plan: Plan, steps: Sequence[Step], kind: str, *, told: Callable[[str], None] = lambda _: None
) -> simulation.Outcome:
    """Leave out what can be left out, first in large pieces."""
    best = simulation.run(plan, steps)
    size = max(1, len(steps) // 2)
    while size:
        place = 0
        while place < len(best.steps):
            shorter = [*best.steps[:place], *best.steps[place + size :]]
            outcome = simulation.run(plan, shorter)
            if outcome.kind == kind:
                best = outcome
                told(f"{len(shorter)} steps")
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
