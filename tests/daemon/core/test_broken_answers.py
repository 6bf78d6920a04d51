"""What a service says wrongly, or again and again, keeps nothing else away, and makes no storm."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from cmsfs import config, errors
from cmsfs.journal import queue
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.sqlite import Connection
from daemon.core.stall_detector import FREE_ROUNDS, LONGEST_REST_SECONDS, TOLD_SECONDS, StallDetector
from daemon.listing import folder_lister
from daemon.pull import poller
from daemon.push import error_policy
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

Edit = Callable[[httpx.Request, dict[str, Any]], Any]


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(
        settle_seconds=0, network_seconds=5, feed="events", poll_seconds=3600, idle_poll_seconds=3600
    )


class Forging(httpx.AsyncBaseTransport):
    """Answers of one path are what `edit` makes of them: other JSON, bytes, or another response."""

    def __init__(self, inner: httpx.AsyncBaseTransport, path: str, edit: Edit) -> None:
        self.inner = inner
        self._path = path
        self._edit = edit
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith(self._path):
            return response
        self.asked += 1
        await response.aread()
        made = self._edit(request, response.json())
        if isinstance(made, httpx.Response):
            return made
        return httpx.Response(200, content=made if isinstance(made, bytes) else json.dumps(made).encode())


def _each_event(change: Callable[[dict[str, Any]], None]) -> Edit:
    def edit(request: httpx.Request, page: dict[str, Any]) -> dict[str, Any]:
        for event in page["entries"]:
            if event["source"]["name"] == "bad":
                change(event)
        return page

    return edit


def _too_large(event: dict[str, Any]) -> None:
    event["source"]["size"] = 2**63


def _nameless(event: dict[str, Any]) -> None:
    event["source"]["name"] = "\ud800"


def _late(event: dict[str, Any]) -> None:
    event["source"]["sequence_id"] = "9" * 5000


def _strange(event: dict[str, Any]) -> None:
    event["source"] = {"type": ["file"], "id": {"a": 1}}


def _without_number(event: dict[str, Any]) -> None:
    event["event_id"] = None


@pytest.mark.parametrize("change", [_too_large, _nameless, _late, _strange, _without_number])
async def test_one_invalid_event_is_skipped(
    drive: Drive, other: Remote, network: Network, change: Any, expect_log: ExpectLog
) -> None:
    if change in (_too_large, _late):
        expect_log("skipping the")
    await drive.names()
    network.inner = Forging(network.inner, "/events", _each_event(change))
    await other.file("bad", b"x")
    await other.file("good", b"y")
    await drive.poll()
    assert await drive.read("good") == b"y"
    await other.file("later", b"z")
    await drive.poll()
    assert await drive.read("later") == b"z"


@pytest.mark.parametrize("field", ["size", "name", "sequence_id"])
async def test_unstorable_item_is_reported_and_kept(
    drive: Drive, other: Remote, network: Network, field: str, expect_log: ExpectLog
) -> None:
    expect_log("skipping the")
    number = await other.file("bad", b"x")
    await drive.names()
    await drive.poll()
    value = {"size": 2**63, "name": "\0", "sequence_id": str(2**63)}[field]

    def edit(request: httpx.Request, found: dict[str, Any]) -> dict[str, Any]:
        return found | {field: value}

    network.inner = forged = Forging(network.inner, f"/files/{number}", edit)
    await other.client.items.describe("file", number, description="asked about")
    await other.file("good", b"y")
    await drive.poll()
    assert await drive.names() == ["bad", "good"]
    told = (await drive.agents.status()).troubles
    assert told.left_out_items == 1
    assert number in told.left_out[0]
    # Once it can be held it is no trouble any more.
    network.inner = forged.inner
    await other.client.items.describe("file", number, description="again")
    await drive.poll()
    assert (await drive.agents.status()).troubles.left_out == []


async def test_invalid_response_is_retried_later(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("skipping the")
    await drive.names()
    number = await other.file("bad", b"x")
    await drive.poll()
    network.inner = forged = Forging(network.inner, f"/files/{number}", lambda *_: b'{"type": "fi')
    await other.client.items.describe("file", number, description="news")
    await other.file("good", b"y")
    await drive.poll()
    assert await drive.names() == ["bad", "good"]
    network.inner = forged.inner
    drive.agents.deferred_updates._again.clear()
    await drive.agents.deferred_updates.settle()
    assert '"news"' in (tree.item_json(drive.db, await drive.ino("bad")) or "")


async def test_refused_position_is_retried_ever_slower(drive: Drive, other: Remote, network: Network) -> None:
    def edit(request: httpx.Request, page: dict[str, Any]) -> Any:
        if request.url.params["stream_position"] == "now":
            return page
        return httpx.Response(400, json={"type": "error", "status": 400, "code": "bad_position"})

    await drive.names()
    network.inner = forged = Forging(network.inner, "/events", edit)
    for _ in range(3):
        before = forged.asked
        with pytest.raises(errors.ProtocolError, match="rejects the event position that it issued"):
            await drive.poll()
        assert forged.asked - before <= 3


async def test_stuck_event_position_is_the_end(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    await other.file("f", b"x")
    position = kv_store.get(drive.db, kv_store.EVENTS_POSITION)

    def edit(request: httpx.Request, page: dict[str, Any]) -> dict[str, Any]:
        return page | {"next_stream_position": position}

    network.inner = forged = Forging(network.inner, "/events", edit)
    await drive.poll()
    assert await drive.names() == ["f"]
    assert forged.asked == 1


class _Hasty(httpx.AsyncBaseTransport):
    """Who waits for changes is told at once that there are some."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.asked = trio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events/wait"):
            self.asked.set()
            self.asked = trio.Event()
            return httpx.Response(200, json={"message": "new_change"})
        return await self.inner.handle_async_request(request)


async def test_repeated_empty_events_cause_no_storm(
    starting: Starting, other: Remote, network: Network
) -> None:
    network.inner = hasty = _Hasty(network.inner)
    async with starting(agents=("health", "pull")) as drive:
        governor = drive.agents.pull.governor
        with trio.fail_after(20):
            while governor._rounds <= FREE_ROUNDS:
                await hasty.asked.wait()


class _Silent(httpx.AsyncBaseTransport):
    """Who waits for changes hears nothing, ever: the connection has died, and nobody says so."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events/wait"):
            await trio.sleep_forever()
        return await self.inner.handle_async_request(request)


async def test_change_arrives_despite_dead_long_poll(
    starting: Starting, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "SECOND_LOOK_SECONDS", 0.05)
    network.inner = _Silent(network.inner)
    async with starting(agents=("health", "pull")) as drive:
        await drive.names()
        await other.file("f", b"x")
        with trio.fail_after(20):
            while await drive.names() != ["f"]:
                await drive.changed.wait()


async def test_stall_detector_limits_round_rate(autojump_clock: MockClock) -> None:
    governor = StallDetector("a loop")
    began = trio.current_time()
    for number in range(1, 100):
        await trio.sleep(governor.stood_still("Nothing comes."))
        assert number <= FREE_ROUNDS + 1 + (trio.current_time() - began)
    assert governor.stood_still("Nothing comes.") == LONGEST_REST_SECONDS
    stalled = governor.stalled
    assert stalled is not None
    assert (stalled.name, stalled.reason) == ("a loop", "Nothing comes.")
    assert stalled.seconds > TOLD_SECONDS
    governor.progressed()
    assert governor.stalled is None
    assert governor.stood_still("Nothing comes.") == 0


@pytest.mark.parametrize("status", [500, 502, 503, 507])
async def test_a_failing_service_never_has_a_change_held(status: int) -> None:
    error = errors.ServerError(status, "internal", "it fails")
    for attempts in (0, 5, 1000):
        verdict = error_policy.verdict_for(error, attempts)
        assert verdict.wait_ns is not None


async def test_a_conflict_whose_answer_lost_its_body_is_asked_for_again(
    drive: Drive, network: Network
) -> None:
    answers = [httpx.Response(409)]

    def refuse(request: httpx.Request) -> httpx.Response | None:
        is_ours = request.method == "POST" and request.url.path.endswith("/folders")
        return answers.pop() if is_ours and answers else None

    network.instead = refuse
    await drive.mkdir("docs")
    with trio.fail_after(60):
        await drive.sync()
    assert not answers
    assert drive.ops() == []


def test_a_conflict_that_goes_on_without_a_word_is_held() -> None:
    error = errors.Conflict(409, "", "Conflict")
    assert error_policy.verdict_for(error, error_policy.WORDLESS_ATTEMPTS).wait_ns is None


async def test_change_obeys_retry_after(drive: Drive, other: Remote, network: Network) -> None:
    refusing = _Refusing(network.inner)
    network.inner = refusing
    before = clock.time_ns()
    await drive.write("f", b"x")
    with trio.fail_after(10):
        while not (op := queue.failed(drive.db)):
            await drive.agents.push._moved.wait()
    assert op[0].state == "ready"
    assert op[0].not_before - before >= 900 * 10**9
    network.inner = refusing.inner
    await drive.sync()
    assert await other.read("f") == b"x"


class _Refusing(httpx.AsyncBaseTransport):
    """Uploads are to come again in a quarter of an hour."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and "/content" in request.url.path:
            await request.aread()
            return httpx.Response(503, headers={"Retry-After": "900"})
        return await self.inner.handle_async_request(request)


async def test_future_timestamps_are_sent_now(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("while the clock was ahead")
    year = 365 * 86_400 * 10**9
    await drive.write("first", b"x")
    await drive.sync()

    def ahead(conn: Connection) -> None:
        conn.execute(
            "INSERT INTO op(ino, kind, not_before) VALUES (?, 'touch', ?)", (ino, clock.time_ns() + year)
        )

    ino = await drive.ino("first")
    await drive.db.write(ahead)
    drive.agents.push.wake()
    with trio.fail_after(10):
        while drive.ops():
            await drive.agents.push._moved.wait()


async def test_folder_leaving_tree_during_request(drive: Drive, other: Remote, network: Network) -> None:
    docs = await other.folder("docs")
    await drive.names("docs")
    await other.client.items.delete("folder", docs, recursive=True)
    arrived, go = network.gate("GET", f"/folders/{docs}")
    await drive.write("docs/f", b"mine")
    with trio.fail_after(10):
        await arrived.wait()
    parent = await drive.ino("docs")

    def leave(conn: Connection) -> None:
        # As the reaper does with what nobody knows any more; the new file has gone elsewhere.
        conn.execute("UPDATE node SET parent = 1 WHERE parent = ?", (parent,))
        conn.execute("DELETE FROM node WHERE ino = ?", (parent,))

    await drive.db.write(leave)
    go.set()
    await drive.sync()
    assert await other.read("f") == b"mine"


@pytest.mark.parametrize("answer", [b"{}", b'{"type": "comet", "id": "1"}', b'{"entries": null}'])
async def test_folder_listing_without_entries_is_no_empty_folder(
    drive: Drive, other: Remote, network: Network, answer: bytes
) -> None:
    await other.file("f", b"x")
    agents = drive.agents
    lister = folder_lister.FolderItems(
        drive.db, agents.client, agents.remote_updates, agents.health, agents.deletion_check
    )
    network.inner = Forging(network.inner, "/folders/0/items", lambda request, page: answer)
    with pytest.raises(errors.RemoteError):
        await lister.fill(ROOT, progress=lambda: None)
    assert not tree.is_listed(drive.db, ROOT)
