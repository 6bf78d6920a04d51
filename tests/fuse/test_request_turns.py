"""Which task reads the next request from the kernel, and that none is left unread."""

import itertools
import os
import stat
from pathlib import Path

import trio

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
    # At no time were more than a few requests served between two steps of it.
    assert max(after - before for before, after in itertools.pairwise(steps)) <= 10


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
