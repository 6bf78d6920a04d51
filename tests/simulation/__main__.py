"""The program behind `tests/simulation/run`: stories by their seeds."""

import argparse
import os
import random
import sys
import time
from collections import Counter

if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation import simulation
from tests.simulation.story import Plan
from tests.support import cheap_passwords, database_templates


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/simulation/run")
    parser.add_argument("--seed", type=int, help="the first story; at random if it is not said")
    parser.add_argument("--stories", type=int, default=1)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--trace", action="store_true", help="print the story")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no story after so long")
    parser.add_argument("--twice", action="store_true", help="each story twice, to the same end")
    chosen = parser.parse_args()
    cheap_passwords.install()
    database_templates.install()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    began, used = time.perf_counter(), time.process_time()
    kinds: Counter[str] = Counter()
    stories = calls = requests = 0
    virtual = 0.0
    for number in range(seed, seed + chosen.stories):
        if time.perf_counter() - began > chosen.seconds:
            break
        plan = Plan.of(number, chosen.steps)
        outcome = simulation.run(plan, echo=print if chosen.trace else None)
        stories, calls, requests = stories + 1, calls + outcome.calls, requests + outcome.requests
        virtual += outcome.seconds
        if chosen.twice and simulation.run(plan).digest != outcome.digest:
            outcome.failures.append("two ends: the same story went another way")
        if outcome.failures:
            kinds[outcome.kind] += 1
            print(f"seed {number}: {plan}")
            for failure in outcome.failures[:6]:
                print(f"    {failure[:700]}")
            sys.stdout.flush()
    used = time.process_time() - used
    print(
        f"{stories} stories, {calls} calls, {requests} requests, {virtual / 3600:.1f} virtual hours,"
        f" {used:.1f} s of processor: {60 * stories / used:.0f} stories a minute;"
        f" {sum(kinds.values())} red: {dict(kinds)}"
    )
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
