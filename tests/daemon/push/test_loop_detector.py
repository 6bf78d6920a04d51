"""Changes that get nowhere though nobody refuses them: named, rested, and given up by who wants to."""

from typing import Any

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.ipc import control
from cmsfs.journal import ops, queue
from cmsfs.journal.ops import OpKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Connection
from daemon.push import dispatcher, loop_detector
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


class _Failing(httpx.AsyncBaseTransport):
    """No upload succeeds."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and "/content" in request.url.path:
            await request.aread()
            return httpx.Response(500)
        return await self.inner.handle_async_request(request)


async def _failed(drive: Drive) -> ops.Op:
    with trio.fail_after(10):
        while not (found := queue.failed(drive.db)) or found[0].state == "running":
            await drive.agents.push._moved.wait()
    return found[0]


async def test_looping_change_is_named_and_discardable(drive: Drive, other: Remote, network: Network) -> None:
    network.inner = failing = _Failing(network.inner)
    await drive.write("f", b"mine")
    failed = await _failed(drive)
    assert (await drive.agents.conflicts()).stuck == []
    with pytest.raises(errors.UserError, match="No change of /f was rejected"):
        await drive.agents.discard("/f")

    def tired(conn: Connection) -> None:
        later = clock.time_ns() + 300 * 10**9
        conn.execute("UPDATE op SET attempts = ?, not_before = ?", (loop_detector.TIRED_ATTEMPTS, later))

    await drive.db.write(tired)
    found = await drive.agents.conflicts()
    assert [(one.path, one.error) for one in found.stuck] == [("/f", failed.error)]
    (told,) = (await drive.agents.status()).troubles.stalled
    assert told.name == "the upload of /f"
    assert "discard" in told.reason
    network.inner = failing.inner
    assert str(config.Paths("default").recovered / "f") in await drive.agents.discard("/f")
    assert (config.Paths("default").recovered / "f").read_bytes() == b"mine"
    assert (await drive.agents.conflicts()).stuck == []
    assert await drive.names() == []


async def test_sync_says_what_it_waits_for(drive: Drive, network: Network) -> None:
    network.inner = _Failing(network.inner)
    await drive.write("f", b"mine")
    failed = await _failed(drive)
    progress = drive.agents.server._progress()
    assert isinstance(progress, control.Progress)
    assert progress.message == f"/f: {failed.error}"


async def test_what_comes_back_again_and_again_rests(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that finds, each time, that it is not the time."""
    rounds = 0

    async def give_back(push_context: Any, task: queue.Task) -> None:
        nonlocal rounds
        rounds += 1
        await push_context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=0))

    monkeypatch.setitem(dispatcher.PERFORM, OpKind.UPLOAD, give_back)
    await drive.write("f", b"x")
    assert (await _failed(drive)).error == f"{loop_detector.REASON}."
    assert rounds == loop_detector.FREE_ROUNDS + 1
