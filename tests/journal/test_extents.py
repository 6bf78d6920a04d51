"""Extents against a set of byte positions."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cmsfs.journal.extents import Extents

RANGE = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(RANGE), st.integers(0, 60), RANGE)
def test_extents_match_a_position_set(
    ranges: list[tuple[int, int]], clip: int, asked: tuple[int, int]
) -> None:
    extents = Extents(ranges)
    extents.clip(clip)
    positions = {at for start, end in ranges for at in range(start, end) if at < clip}

    assert {at for start, end in extents for at in range(start, end)} == positions
    runs = list(extents)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(runs))

    pieces = list(extents.pieces(*asked))
    assert [at for start, end, _ in pieces for at in range(start, end)] == list(range(*asked))
    assert {at for start, end, held in pieces if held for at in range(start, end)} == positions & set(
        range(*asked)
    )
    assert extents.covers(*asked) == (set(range(*asked)) <= positions)
    assert Extents.from_json(extents.to_json()) == extents
