"""Bitmaps against sets of numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cmsfs.cache import bitmap
from cmsfs.cache.bitmap import BLOCK

sizes = st.one_of(
    st.integers(0, 40 * BLOCK),
    st.builds(lambda n, d: max(0, n * BLOCK + d), st.integers(0, 40), st.integers(-1, 1)),
)


runs_of_blocks = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=6)


@given(sizes, runs_of_blocks, st.integers(0, 40), st.integers(0, 40))
def test_a_bitmap_says_what_a_set_says(
    size: int, chosen: list[tuple[int, int]], first: int, length: int
) -> None:
    count = bitmap.blocks(size)
    here: set[int] = set()
    bits = bitmap.empty(size)
    for start, more in chosen:
        if start < count:
            end = min(start + more, count - 1)
            here |= set(range(start, end + 1))
            bitmap.add(bits, start, end)
    assert bitmap.fits(bits, size)
    assert [index for index in range(count) if bitmap.has(bits, index)] == sorted(here)
    assert bitmap.absent(bits, size) == count - len(here)
    assert bitmap.present_bytes(bits, size) == sum(bitmap.block_length(size, index) for index in here)

    last = min(first + length, count - 1)
    runs = bitmap.missing(bits, first, last)
    listed = [index for start, end in runs for index in range(start, end + 1)]
    assert listed == [index for index in range(first, last + 1) if index not in here]
    assert all(start <= end for start, end in runs)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(runs))


def test_no_bitmap_means_every_block() -> None:
    assert bitmap.missing(None, 0, 9) == []
    assert bitmap.absent(None, 10 * BLOCK) == 0
    assert bitmap.present_bytes(None, 12345) == 12345
    assert bitmap.has(None, 7)


def test_bitmap_with_stray_bits_is_rejected() -> None:
    assert not bitmap.fits(b"\x02", BLOCK)
    assert not bitmap.fits(b"\x01\x00", BLOCK)
    assert not bitmap.fits(b"", 1)


def test_bits_count_from_low_end() -> None:
    bits = bitmap.empty(10 * BLOCK)
    bitmap.add(bits, 0, 0)
    bitmap.add(bits, 9, 9)
    assert bytes(bits) == b"\x01\x02"


@given(st.integers(1, 60 * BLOCK), st.data())
def test_what_lacks_only_these_lacks_no_others(size: int, data: st.DataObject) -> None:
    last = data.draw(st.integers(0, bitmap.blocks(size) - 1))
    first = data.draw(st.integers(0, last))
    others = set(range(bitmap.blocks(size))) - set(range(first, last + 1))
    here = others - data.draw(st.just(set()) | st.sets(st.integers(0, 60)) | st.just(others))
    bits = bitmap.empty(size)
    for index in here:
        bitmap.add(bits, index, index)
    assert bitmap.lacks_only(bits, size, first, last) == (here == others)
