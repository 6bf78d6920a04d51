"""The shortest story that still goes wrong in the same way."""

from collections.abc import Callable, Sequence

from tests.simulation import simulation
from tests.simulation.simulation import Outcome
from tests.simulation.story import Plan, Step


def shrink(
    plan: Plan, steps: Sequence[Step], kind: str, *, told: Callable[[str], None] = lambda _: None
) -> Outcome:
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
