"""What fails beside the mount is told and begun again, and takes nothing else with it."""

import itertools

import pytest
import trio
import trio.testing

from daemon.control import server
from daemon.core.supervisor import FIRST_REST_SECONDS, LONGEST_REST_SECONDS, Supervisor


@pytest.fixture
async def agents(nursery):
    return Supervisor(nursery)


async def test_what_fails_is_begun_again_ever_later(agents, autojump_clock, expect_log, caplog):
    expect_log("unexpected error in the work; restarting it in")
    begun = []
    done = trio.Event()

    async def work(first, second):
        assert (first, second) == (1, 2)
        begun.append(trio.current_time())
        if len(begun) < 12:
            raise ValueError("unforeseen")
        done.set()

    agents.keep(work, 1, 2, name="the work")
    await done.wait()
    rests = [round(after - before, 3) for before, after in itertools.pairwise(begun)]
    assert rests[:3] == [FIRST_REST_SECONDS, 2 * FIRST_REST_SECONDS, 4 * FIRST_REST_SECONDS]
    assert rests[-1] == LONGEST_REST_SECONDS
    assert "ValueError: unforeseen" in caplog.text


async def test_long_running_task_restarts_soon(agents, autojump_clock, expect_log):
    expect_log("unexpected error in the work")
    begun = []
    done = trio.Event()

    async def work():
        begun.append(trio.current_time())
        if len(begun) == 4:
            done.set()
            return
        if len(begun) == 3:
            await trio.sleep(LONGEST_REST_SECONDS + 1)
        raise ValueError

    agents.keep(work, name="the work")
    await done.wait()
    assert begun[3] - begun[2] == pytest.approx(LONGEST_REST_SECONDS + 1 + FIRST_REST_SECONDS)


async def test_a_group_of_failures_is_a_failure(agents, autojump_clock, expect_log):
    expect_log("unexpected error in the work")
    begun = []
    done = trio.Event()

    async def work():
        begun.append(1)
        if len(begun) == 2:
            done.set()
            return
        async with trio.open_nursery() as inner:
            inner.start_soon(_fail)

    agents.keep(work, name="the work")
    await done.wait()


async def test_what_returns_is_over(agents, autojump_clock, nursery):
    begun = []

    async def work():
        begun.append(1)

    agents.keep(work, name="the work")
    await trio.sleep(1000)
    assert begun == [1]
    assert not nursery.child_tasks


async def test_an_errand_that_fails_ends_alone(agents, autojump_clock, nursery, expect_log):
    expect_log("unexpected error in a background task")
    agents.start_soon(_fail, name="errand")
    await trio.sleep(1000)
    assert not nursery.child_tasks


async def test_a_cancellation_is_no_failure(autojump_clock):
    async with trio.open_nursery() as nursery:
        agents = Supervisor(nursery)
        agents.keep(trio.sleep_forever, name="the work")
        agents.start_soon(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def _fail():
    raise KeyError("x")


async def test_drive_survives_a_failing_agent(starting, other, settings, nursery, monkeypatch, expect_log):
    expect_log("unexpected error in crawl")
    failed = trio.Event()

    async def fail():
        failed.set()
        raise KeyError("x")

    await other.file("f", b"x")
    async with starting(agents=()) as drive, server.listening(settings.paths.socket) as listener:
        monkeypatch.setattr(drive.agents.crawler, "once", fail)
        agents = Supervisor(nursery)
        drive.agents.start_handlers(agents, listener)
        drive.agents.start(agents)
        await failed.wait()
        assert await drive.read("f") == b"x"
        await drive.write("g", b"ours")
        await drive.sync()
        assert await other.paths() == ["f", "g"]
        nursery.cancel_scope.cancel()
