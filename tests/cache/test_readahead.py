"""The read-ahead window, as a reader would see it."""

from hypothesis import given
from hypothesis import strategies as st

from cmsfs.cache import bitmap, readahead
from cmsfs.cache.bitmap import BLOCK

KIB = 1024


def scan(
    window: readahead.ReadaheadWindow, size: int, step: int, start: int = 0, end: int | None = None
) -> list[tuple[int, int, int]]:
    """Read from `start` to the end; (block being read, first, last) of each prefetch."""
    asked = []
    for offset in range(start, end or size, step):
        found = window.advance(offset, step, size)
        if found is not None:
            asked.append((offset // BLOCK, *found))
    return asked


def test_the_first_read_fetches_nothing_ahead() -> None:
    assert readahead.ReadaheadWindow().advance(0, 128 * KIB, 100 * BLOCK) is None


def test_sequential_windows_double_and_refill() -> None:
    asked = scan(readahead.ReadaheadWindow(), 24_000 * BLOCK, BLOCK)
    first = readahead.MIN_BLOCKS
    assert asked[0] == (1, 2, 1 + first)
    assert [last - at for at, _, last in asked[:3]] == [first, 2 * first, 4 * first]
    lengths = [last - first + 1 for _, first, last in asked]
    assert max(lengths) <= readahead.MAX_BLOCKS
    assert lengths[8] == readahead.MAX_BLOCKS // 2


@given(
    st.integers(1, 600 * BLOCK),
    st.sampled_from([4 * KIB, 16 * KIB, 100_000, 1024 * KIB]),
    st.data(),
)
def test_scan_prefetches_each_block_once(size: int, step: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, size // 2))
    step = max(step, size // 400)
    asked = scan(readahead.ReadaheadWindow(), size, step, start)
    ahead = [block for _, first, last in asked for block in range(first, last + 1)]
    assert len(ahead) == len(set(ahead))
    assert ahead == sorted(ahead)
    own = {start // BLOCK, *range(start // BLOCK, min(start + 2 * step - 1, size - 1) // BLOCK + 1)}
    if step <= BLOCK:
        rest = set(range(start // BLOCK, bitmap.blocks(size)))
        assert rest - own <= set(ahead) <= rest
    assert all(
        at < first <= last <= at + 3 + readahead.MAX_BLOCKS + step // BLOCK for at, first, last in asked
    )


@given(
    st.lists(st.tuples(st.integers(0, 30 * BLOCK), st.integers(0, 2 * BLOCK)), max_size=60),
    st.integers(0, 20 * BLOCK),
)
def test_readahead_stays_within_content_and_window(reads: list[tuple[int, int]], size: int) -> None:
    window = readahead.ReadaheadWindow()
    for offset, length in reads:
        found = window.advance(offset, length, size)
        assert 0 <= window.blocks <= readahead.MAX_BLOCKS
        if found is not None:
            first, last = found
            assert 0 <= first <= last < bitmap.blocks(size)
            assert last - first < readahead.MAX_BLOCKS


def test_a_far_seek_starts_over() -> None:
    window = readahead.ReadaheadWindow()
    scan(window, 160 * BLOCK, 128 * KIB)
    size = 4000 * BLOCK
    assert window.advance(2000 * BLOCK, BLOCK, size) is None
    assert window.blocks == 0
    assert window.advance(2001 * BLOCK, BLOCK, size) == (2002, 2001 + readahead.MIN_BLOCKS)


def test_random_reads_fetch_nothing_ahead() -> None:
    window = readahead.ReadaheadWindow()
    size = 100_000 * BLOCK
    assert all(window.advance((i * 35_711 % 100_000) * BLOCK, 4 * KIB, size) is None for i in range(200))


def test_reordered_reads_are_no_seek() -> None:
    window, size, step = readahead.ReadaheadWindow(), 16000 * BLOCK, 128 * KIB
    for base in range(0, 3200 * BLOCK, 4 * step):
        for part in (0, 2, 1, 3):  # as the kernel sends them
            window.advance(base + part * step, step, size)
    assert window.blocks == readahead.MAX_BLOCKS
    window.advance(3200 * BLOCK + 900 * KIB, step, size)
    assert window.blocks == readahead.MAX_BLOCKS


def test_skip_within_window_is_no_seek() -> None:
    window, size = readahead.ReadaheadWindow(), 16000 * BLOCK
    scan(window, size, 128 * KIB, end=4800 * BLOCK)
    assert window.advance(6400 * BLOCK, 128 * KIB, size) is not None
    assert window.blocks == readahead.MAX_BLOCKS


def test_a_read_past_the_end_changes_nothing() -> None:
    window = readahead.ReadaheadWindow()
    assert window.advance(5, 10, 0) is None
    assert window.advance(10, 0, 100) is None
    assert window.blocks == 0
