"""Counts of lookups and handles are those of a plain counter, whatever is counted."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import ROOT

numbers = st.sampled_from([1, 2, 3, 1023, 1024, 5000, 10**9])


@given(st.lists(st.tuples(numbers, st.integers(-5, 40_000))))
def test_lookups_are_counted_exactly(steps: list[tuple[int, int]]) -> None:
    inodes, model = Inodes(), Counter[int]()
    for ino, change in steps:
        if change > 0:
            for _ in range(change % 7):
                inodes.looked_up(ino)
            model[ino] += change % 7 if ino != ROOT else 0
        else:
            inodes.forgotten(ino, -change)
            model[ino] = max(model[ino] + change, 0)
        assert inodes.lookups(ino) == model[ino]
        assert inodes.is_used(ino) == (model[ino] > 0)
        assert inodes.is_known(ino) == (ino == ROOT or model[ino] > 0)
    assert inodes.totals() == (sum(1 for count in model.values() if count), 0)


def test_a_count_may_go_on_and_on() -> None:
    inodes = Inodes()
    for _ in range(70_000):
        inodes.looked_up(7)
    assert inodes.lookups(7) == 70_000
    inodes.forgotten(7, 3)
    assert inodes.lookups(7) == 69_997
    inodes.forgotten(7, 69_000)
    assert inodes.lookups(7) == 997
    inodes.forgotten(7, 10_000)
    assert inodes.totals() == (0, 0)
