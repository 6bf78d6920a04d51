"""Which task reads the next request from the kernel, and that none is left unread."""

import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import trio
import trio.testing

from cmsfs.fuse import request_turns
from tests.support import memory_drive


def _look_up_many(top: Path, count: int) -> None:
    for number in range(count):
        (top / f"absent {number}").exists()


async def test_requests_that_wait_for_nothing_are_carried_out_by_one_task(fs, drive, top, outside):
    tasks = []
    lookup = fs.lookup

    async def noted(parent, name):
        tasks.append(trio.lowlevel.current_task().name)
        return await lookup(parent, name)

    fs.lookup = noted
    await outside(_look_up_many, top, 100)
    assert len(tasks) == 100
    assert len(set(tasks)) == 1


def _waiting_lookups(fs: memory_drive.MemoryDrive, names: str) -> None:
    # Each in a folder of its own: of one folder the kernel asks for one name at a time.
    for name in names:
        fs.put(f"in {name}", mode=stat.S_IFDIR | 0o755)
        fs.put(f"in {name}/{name}")
        fs.waiting[f"lookup {name}"] = trio.Event()


async def test_others_are_served_while_requests_wait(fs, drive, top, outside):
    _waiting_lookups(fs, "abc")
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(outside, os.stat, top / f"in {name}" / name)
            await fs.entered[f"lookup {name}"].wait()
            assert not await outside((top / f"absent beside {name}").exists)
        for name in "cab":
            fs.waiting[f"lookup {name}"].set()


async def test_other_tasks_run_while_requests_come(fs, drive, top, outside):
    steps = []

    async def work() -> None:
        while True:
            steps.append(fs.calls["lookup"])
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await outside(_look_up_many, top, 200)
        nursery.cancel_scope.cancel()
    # Between two steps of it requests were served twice at most: before it in one pass, after it in another.
    most = 2 * request_turns.IN_A_ROW + 2
    assert max(after - before for before, after in itertools.pairwise(steps)) <= most


class CountedLooks:
    """What tells whether there is a request: at the looks with these numbers there is."""

    def __init__(self, *there: int) -> None:
        self.count, self._there = 0, there

    def look(self, milliseconds: float) -> list[tuple[int, int]]:
        self.count += 1
        return [(0, 1)] if self.count in self._there else []


def _looks(turn: request_turns.Turn, requests: CountedLooks) -> int:
    before = requests.count
    turn.comes_soon(requests.look)
    return requests.count - before


def test_next_request_is_looked_for_less_and_less_often_while_that_is_in_vain():
    turn, requests = request_turns.Turn(), CountedLooks()
    looked = [_looks(turn, requests) > 1 for _ in range(1000)]
    times = [number for number, is_looked_for in enumerate(looked) if is_looked_for]
    assert times[:6] == [0, 2, 6, 14, 30, 62]
    assert {after - before for before, after in itertools.pairwise(times[6:])} == {
        request_turns.MOST_SKIPPED + 1
    }


def test_next_request_is_looked_for_every_time_again_once_it_came_meanwhile():
    turn, requests = request_turns.Turn(), CountedLooks(request_turns.LOOKS + 1 + 1 + 5)
    assert [_looks(turn, requests) for _ in range(3)] == [request_turns.LOOKS + 1, 1, 5]
    assert [_looks(turn, requests) for _ in range(3)] == [request_turns.LOOKS + 1, 1, request_turns.LOOKS + 1]


class NotedTurn(request_turns.Turn):
    """Notes how often it would look for the next request, where it does; in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []

    def comes_soon(
        self, look: Callable[[float], list[tuple[int, int]]], looks: int = request_turns.LOOKS
    ) -> bool:
        self.looks.append(looks)
        return False


async def test_next_request_is_looked_for_after_an_answer_and_not_while_a_request_waits():
    turn, gone = NotedTurn(), trio.Event()
    reader, writer = os.pipe()

    async def handler() -> None:
        await gone.wait()

    async def work() -> None:
        async with turn:
            await turn.wait_readable(reader)
        os.read(reader, 1)
        await request_turns.run_handler(handler())
        async with turn:
            await turn.wait_readable(reader)

    async with trio.open_nursery() as workers:
        for _ in range(2):
            workers.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        turn.looks.clear()
        os.write(writer, b"1")
        await trio.testing.wait_all_tasks_blocked()
        # One request waits, and another task for the next one, which was not looked for.
        assert turn.looks == []
        gone.set()
        await trio.testing.wait_all_tasks_blocked()
        assert turn.looks == [request_turns.LOOKS_AFTER_WAIT]
        workers.cancel_scope.cancel()
    os.close(reader)
    os.close(writer)


async def test_unmount_ends_all_tasks_that_read_requests(tmp_path, mounting, outside):
    fs = memory_drive.MemoryDrive()
    async with mounting(fs) as drive:
        _waiting_lookups(fs, "abcdef")
        async with trio.open_nursery() as nursery:
            for name in "abcdef":
                nursery.start_soon(outside, os.stat, drive.mountpoint / f"in {name}" / name)
                await fs.entered[f"lookup {name}"].wait()
            for name in "abcdef":
                fs.waiting[f"lookup {name}"].set()
    assert drive.unmounted.is_set()
    assert [task for task in _tasks() if "pyfuse" in task] == []


def _tasks() -> list[str]:
    found, nurseries = [], list(trio.lowlevel.current_root_task().child_nurseries)
    while nurseries:
        for task in nurseries.pop().child_tasks:
            found.append(task.name)
            nurseries += task.child_nurseries
    return found
