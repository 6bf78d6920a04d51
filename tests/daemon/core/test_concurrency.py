import pytest
import trio

from cmsfs import errors
from daemon.core import concurrency


@pytest.mark.parametrize(("pieces", "tasks", "most"), [(0, 3, 0), (1, 3, 1), (2, 3, 2), (7, 3, 3), (7, 1, 1)])
async def test_each_piece_is_done_once_and_few_at_a_time(
    pieces: int, tasks: int, most: int, autojump_clock: trio.testing.MockClock
) -> None:
    done: list[int] = []
    running = at_once = 0

    async def do(piece: int) -> None:
        nonlocal running, at_once
        running += 1
        at_once = max(at_once, running)
        await trio.sleep(1)
        running -= 1
        done.append(piece)

    await concurrency.for_each(range(pieces), do, tasks=tasks)
    assert sorted(done) == list(range(pieces))
    assert at_once == most


@pytest.mark.parametrize("pieces", [1, 2, 5])
async def test_a_failure_ends_the_rest_and_comes_as_it_is(pieces: int) -> None:
    ended: list[int] = []

    async def do(piece: int) -> None:
        try:
            if piece == 0:
                raise errors.UserError("gone")
            await trio.sleep_forever()
        finally:
            ended.append(piece)

    with pytest.raises(errors.UserError):
        await concurrency.for_each(range(pieces), do, tasks=2)
    assert sorted(ended) in ([0], [0, 1])


async def test_what_is_taken_from_a_list_as_it_grows() -> None:
    todo = [1]
    done: list[int] = []

    async def do(piece: int) -> None:
        await trio.lowlevel.checkpoint()
        done.append(piece)
        if piece < 3:
            todo.append(piece + 1)

    await concurrency.for_each(todo, do, tasks=1)
    assert done == [1, 2, 3]
