"""Walks: who hurries through a tree waits for its enumeration, while that is the sooner."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, NodeKind
from cmsfs.sqlite import Connection, Database
from daemon.listing.walk_detector import FIRST_STEPS, HASTE_SECONDS, RunningEnumeration, WalkDetector

# A folder by itself takes so long in these tests.
STEP_SECONDS = 0.1


class Walker:
    """A program that lists the folders of one folder, and those below the last, one after the other."""

    def __init__(self, db: Database, top: int, folders: list[int]) -> None:
        self.db = db
        self.walks = WalkDetector(db)
        self.top = top
        self.folders = folders
        self.alone: list[int] = []
        self.progressed = 0

    def progress(self) -> None:
        self.progressed += 1

    async def list(self, folder: int) -> float:
        """As a lister does; how long that took."""
        began = trio.current_time()
        await self.walks.wait(folder, self.progress)
        if not tree.is_listed(self.db, folder):
            self.alone.append(folder)
            here = trio.current_time()
            await trio.sleep(STEP_SECONDS)
            await self.db.write(lambda conn: tree.mark_listed(conn, folder, at=1))
            self.walks.stepped(here)
        return trio.current_time() - began

    async def walk(self, count: int) -> None:
        for folder in self.folders[:count]:
            await self.list(folder)
        del self.folders[:count]

    async def enumerate(self, enumeration: RunningEnumeration, seconds: float) -> None:
        """Bring what is left at an even rate; all folders are known at the end."""
        assert enumeration.total is not None
        for _ in range(left := enumeration.total - enumeration._came):
            await trio.sleep(seconds / left)
            enumeration.took(1)
        await self.db.write(self._all_listed)

    def _all_listed(self, conn: Connection) -> None:
        for folder in self.folders:
            tree.mark_listed(conn, folder, at=1)


@pytest.fixture
async def walker(db: Database) -> Walker:
    def txn(conn: Connection) -> tuple[int, list[int]]:
        top = tree.insert(conn, ROOT, "top", NodeKind.FOLDER, now_ns=0)
        return top, [tree.insert(conn, top, f"{one:03}", NodeKind.FOLDER, now_ns=0) for one in range(100)]

    return Walker(db, *await db.write(txn))


async def begun(enumeration: RunningEnumeration, *, seconds_an_item: float) -> None:
    """With a tenth of it here, at a rate that shows."""
    enumeration.total = 10
    await trio.sleep(seconds_an_item)
    enumeration.took(1)


async def test_walk_waits_for_faster_enumeration(
    walker: Walker, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with walker.walks.enumerating(ROOT) as enumeration:
        await begun(enumeration, seconds_an_item=0.1)
        await walker.walk(FIRST_STEPS)
        assert len(walker.alone) == FIRST_STEPS
        nursery.start_soon(walker.enumerate, enumeration, 2.0)
        await walker.walk(96)
    assert len(walker.alone) < FIRST_STEPS + 5


async def test_no_wait_without_an_enumeration_here(walker: Walker, autojump_clock: MockClock) -> None:
    def other(conn: Connection) -> int:
        return tree.insert(conn, ROOT, "other", NodeKind.FOLDER, now_ns=0)

    with walker.walks.enumerating(await walker.db.write(other)) as enumeration:
        await begun(enumeration, seconds_an_item=0.1)
        began = trio.current_time()
        await walker.walk(50)
    await walker.walk(50)
    assert len(walker.alone) == 100
    assert trio.current_time() - began == pytest.approx(100 * STEP_SECONDS, rel=0.1)


async def test_nobody_waits_longer_than_the_walk_would_take(
    walker: Walker, autojump_clock: MockClock
) -> None:
    with walker.walks.enumerating(walker.top) as enumeration:
        # Nine seconds are left, and so it stays; 94 folders are walked through in that time.
        await begun(enumeration, seconds_an_item=1.0)
        await walker.walk(20)
        assert len(walker.alone) == 20
        await walker.walk(80)
    assert len(walker.alone) == 100


async def test_walk_waits_for_first_of_several(
    walker: Walker, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    with walker.walks.enumerating(ROOT) as everything:
        await begun(everything, seconds_an_item=100.0)
        with walker.walks.enumerating(walker.top) as below:
            await begun(below, seconds_an_item=0.1)
            nursery.start_soon(walker.enumerate, below, 2.0)
            await walker.walk(100)
    assert len(walker.alone) < 20


async def test_slow_reader_of_folders_is_no_walk(walker: Walker, autojump_clock: MockClock) -> None:
    with walker.walks.enumerating(walker.top) as enumeration:
        await begun(enumeration, seconds_an_item=0.01)
        for _ in range(3 * FIRST_STEPS):
            await trio.sleep(HASTE_SECONDS + 0.1)
            await begun(enumeration, seconds_an_item=0.01)
            enumeration._came = 5
            assert await walker.list(walker.folders.pop()) == pytest.approx(STEP_SECONDS, rel=0.1)


async def test_stalled_enumeration_is_not_waited_for(walker: Walker, autojump_clock: MockClock) -> None:
    with walker.walks.enumerating(walker.top) as enumeration:
        await begun(enumeration, seconds_an_item=0.01)
        enumeration._came = 9
        await walker.walk(FIRST_STEPS)
        took = await walker.list(walker.folders.pop())
        assert STEP_SECONDS < took < FIRST_STEPS + 2 * STEP_SECONDS
        for _ in range(FIRST_STEPS - 1):
            assert await walker.list(walker.folders.pop()) == pytest.approx(STEP_SECONDS, rel=0.1)


async def test_useless_enumeration_ends_the_wait(
    walker: Walker, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await walker.walk(FIRST_STEPS)
    with walker.walks.enumerating(walker.top) as enumeration:
        await begun(enumeration, seconds_an_item=0.01)
        enumeration._came = 9
        last = walker.folders.pop()
        nursery.start_soon(walker.list, last)
        await trio.testing.wait_all_tasks_blocked()
        assert last not in walker.alone
    await trio.testing.wait_all_tasks_blocked()
    assert last in walker.alone
    assert walker.progressed == 1
