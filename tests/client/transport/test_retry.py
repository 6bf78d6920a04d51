"""What is asked again, when, and how often."""

import httpx
import pytest
import trio
from starlette.responses import JSONResponse, Response

from cmsfs import errors
from cmsfs.client.transport import retry
from cmsfs.client.transport.retry import Repeat

USER = {"id": "7", "type": "user"}
FOLDER = {"id": "7", "type": "folder"}


class Failing:
    def __init__(self, answers):
        self.times = []
        self.answers = list(answers)

    async def __call__(self, request):
        self.times.append(trio.current_time())
        return self.answers.pop(0) if self.answers else JSONResponse(USER | FOLDER)


def failing(*answers):
    """A handler that gives these answers, then a good one; the times of the requests are kept."""

    return Failing(answers)


def refusal(status, code="", **headers):
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"type": "error", "status": status, "code": code}, status, headers=shown)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_read_is_retried_on_server_error(connect, autojump_clock, status):
    handler = failing(refusal(status), refusal(status))
    client = await connect(handler)
    assert (await client.users.me()).id == "7"
    first, second, third = handler.times
    assert 0 <= second - first <= 0.5
    assert 0 <= third - second <= 1.0
    assert client.counters["other"] == 3


async def test_attempts_are_bounded(connect, autojump_clock):
    handler = failing(*[refusal(503)] * 10)
    client = await connect(handler)
    with pytest.raises(errors.ServerError):
        await client.users.me()
    assert len(handler.times) == retry.Policy().attempts


@pytest.mark.parametrize(
    ("status", "code"), [*((one, "") for one in (400, 403, 404, 409, 412, 501)), (500, "content_lost")]
)
async def test_a_refusal_is_final(connect, status, code):
    handler = failing(refusal(status, code))
    client = await connect(handler)
    with pytest.raises(errors.ApiError):
        await client.users.me()
    assert len(handler.times) == 1


async def test_retry_after_is_waited_for(connect, autojump_clock):
    handler = failing(refusal(429, retry_after="7"))
    client = await connect(handler)
    await client.users.me()
    assert 7 <= handler.times[1] - handler.times[0] <= 7.5


async def test_long_retry_after_is_raised(connect, autojump_clock):
    handler = failing(refusal(429, retry_after="100"))
    client = await connect(handler)
    with pytest.raises(errors.RateLimited) as caught:
        await client.users.me()
    assert caught.value.retry_after == 100
    assert (len(handler.times), trio.current_time()) == (1, handler.times[0])


async def test_nobody_waits_past_his_own_deadline(connect, autojump_clock):
    handler = failing(refusal(503, retry_after="10"))
    client = await connect(handler)
    with trio.fail_after(5):
        # Not a cancellation after five seconds: the reason, now.
        with pytest.raises(errors.ServerError):
            await client.users.me()
    assert trio.current_time() == handler.times[0]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_unsafe_request_is_not_retried(connect, status):
    handler = failing(refusal(status, retry_after="1"))
    client = await connect(handler)
    with pytest.raises(errors.ServerError):
        await client.folders.create("a", "0")
    assert len(handler.times) == 1


@pytest.mark.parametrize(
    "answer",
    [
        refusal(429),
        refusal(409, "name_temporarily_reserved"),
        refusal(409, "operation_blocked_temporary"),
    ],
)
async def test_unsent_change_is_repeated(connect, autojump_clock, answer):
    handler = failing(answer)
    client = await connect(handler)
    assert (await client.folders.create("a", "0")).id == "7"
    assert len(handler.times) == 2


@pytest.mark.parametrize(
    "failure",
    [httpx.ReadError("reset"), httpx.WriteError("reset"), httpx.RemoteProtocolError("no answer")],
)
async def test_broken_connection_repeats_reads_only(connect, broken, autojump_clock, failure):
    network = broken(failure)
    client = await connect(transport=network)
    await client.users.me()
    assert network.requests == 2

    network = broken(failure)
    client = await connect(transport=network)
    with pytest.raises(errors.Offline):
        await client.folders.create("a", "0")
    assert network.requests == 1


async def test_without_a_connection_it_is_known_soon(connect, broken, autojump_clock):
    network = broken(*[httpx.ConnectError("refused")] * 9)
    client = await connect(transport=network)
    with pytest.raises(errors.Offline):
        await client.folders.create("a", "0")
    assert network.requests == 2
    assert trio.current_time() < 0.6


@pytest.mark.parametrize("failure", [httpx.ConnectTimeout("away"), httpx.ReadTimeout("slow")])
async def test_a_timeout_is_not_waited_for_twice(connect, broken, failure):
    network = broken(failure)
    client = await connect(transport=network)
    with pytest.raises(errors.RemoteError):
        await client.users.me()
    assert network.requests == 1


async def test_content_that_is_not_ready_is_asked_for_again(connect, autojump_clock):
    handler = failing(Response(status_code=202, headers={"Retry-After": "3"}), Response(b"ready"))
    client = await connect(handler)
    async with client.files.content("1") as pieces:
        assert b"".join([piece async for piece in pieces]) == b"ready"
    assert 3 <= handler.times[1] - handler.times[0] <= 3.5
    assert client.counters["download"] == 2


def test_waits_grow_and_are_spread(autojump_clock):
    async def waits():
        found = []
        for failed in range(1, 5):
            before = trio.current_time()
            await retry.pause(
                errors.ServerError(503), failed=failed, repeat=Repeat.READ, policy=retry.Policy(attempts=9)
            )
            found.append(trio.current_time() - before)
        return found

    runs = [trio.run(waits, clock=trio.testing.MockClock(autojump_threshold=0)) for _ in range(50)]
    for number, upper in enumerate((0.5, 1, 2, 4)):
        column = [run[number] for run in runs]
        assert 0 <= min(column) < upper * 0.4 < upper * 0.6 < max(column) <= upper
