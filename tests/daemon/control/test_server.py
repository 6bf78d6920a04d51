"""The control socket: one request a connection, and callers that come and go."""

import inspect
import itertools
import logging
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs import errors, logs
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control, diagnostics
from daemon.control import server as server
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


@pytest.fixture
async def path(drive: Drive, tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Path]:
    # Longer than an address of a socket may be.
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    async with server.listening(folder / "s.sock") as listener:
        nursery.start_soon(drive.agents.server.serve, listener)
        yield folder / "s.sock"


async def ask(path: Path, request: Any) -> list[Any]:
    """All answers, as the command line gets them."""
    with trio.fail_after(20):
        return await trio.to_thread.run_sync(
            lambda: list(daemonctl.exchange(path, request)), abandon_on_cancel=True
        )


async def test_a_ping_is_answered_with_who_we_are(path: Path, tmp_path: Path) -> None:
    assert await ask(path, control.Ping()) == [
        control.Pong(
            stage="starting",
            pid=os.getpid(),
            version=(await ask(path, control.Ping()))[0].version,
            account="default",
            mountpoint=str(tmp_path / "mnt"),
        )
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_status_tells_of_the_queue(
    path: Path, drive: Drive, other: Remote, network: Network
) -> None:
    await other.file("f", b"x")
    await drive.names()
    arrived, go = network.gate("POST", "/files/content")
    await drive.write("large", b"y" * 1000)
    with trio.fail_after(5):
        await arrived.wait()
    (status,) = await ask(path, control.GetStatus())
    assert status.health.state == "online"
    assert status.listing == diagnostics.ListingStatus(state="complete", items=2)
    assert (status.queue.running, status.queue.bytes_pending) == (1, 1000)
    (op,) = status.queue.ops
    assert (op.path, op.kind, op.state, op.size) == ("/large", "upload", "running", 1000)
    assert status.requests["listing"] == drive.agents.health.requests["listing"] > 0
    go.set()
    await drive.sync()


async def test_sync_reports_progress_until_done(path: Path, drive: Drive, other: Remote) -> None:
    await drive.write("f", b"x")
    answers = await ask(path, control.Sync())
    assert answers[-1] == control.Done()
    assert all(isinstance(answer, control.Progress) for answer in answers[:-1])
    assert await other.paths() == ["f"]


async def test_caller_hangup_cancels_only_its_sync(path: Path, drive: Drive, network: Network) -> None:
    arrived, go = network.gate("POST", "/files/content")
    await drive.write("f", b"x")
    stream = await trio.open_unix_socket(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")
    await stream.send_all(control.encode(control.Sync()))
    with trio.fail_after(5):
        await stream.receive_some()
        await arrived.wait()
        await stream.aclose()
        await drive.agents.server.finished(5)
    go.set()
    await drive.sync()
    assert (await ask(path, control.Ping()))[0].pid == os.getpid()


@pytest.mark.parametrize("line", [b"nonsense\n", b"{}\n", b'{"kind": "dance"}\n', b"\xff\n", b""])
async def test_nonsense_is_answered_and_disturbs_nobody(path: Path, line: bytes) -> None:
    stream = await trio.open_unix_socket(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")
    async with stream:
        if line:
            await stream.send_all(line)
        else:
            await stream.send_eof()
        with trio.fail_after(5):
            answer = control.parse_answer(await stream.receive_some())
    assert isinstance(answer, control.Failure)
    assert await ask(path, control.Ping())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"kind": "dance"}', "The daemon does not support this request."),
        (b'{"kind": "pin"}', "The daemon cannot read this request (pin): path: Field required."),
    ],
)
async def test_a_refused_request_gets_a_reason(path: Path, line: bytes, said: str) -> None:
    stream = await trio.open_unix_socket(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")
    async with stream:
        await stream.send_all(line + b"\n")
        with trio.fail_after(5):
            answer = control.parse_answer(await stream.receive_some())
    assert isinstance(answer, control.Failure)
    assert answer.message == said


@pytest.mark.parametrize("request_", control.Request.__subclasses__())
def test_each_request_has_a_matching_command(request_: type[control.Request]) -> None:
    taken = inspect.signature(server.COMMANDS[request_].method).parameters
    assert list(taken)[1:] == [name for name in request_.model_fields if name != "kind"]


async def test_a_sync_of_a_paused_drive_is_refused(path: Path, drive: Drive) -> None:
    await drive.agents.pause(None)
    with pytest.raises(errors.UserError, match="Sync is paused"):
        await ask(path, control.Sync())


async def test_a_poll_brings_what_others_did(path: Path, drive: Drive, other: Remote) -> None:
    await drive.names()
    await other.file("new", b"x")
    assert (await ask(path, control.Poll()))[-1] == control.Done()
    assert await drive.names() == ["new"]


async def test_long_poll_reports_progress(
    path: Path, drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who hears nothing for a while takes the daemon for dead."""
    monkeypatch.setattr(server, "PROGRESS_SECONDS", 0.01)
    told, progress, often = 0, drive.agents.server._progress, trio.Event()

    def counted() -> control.Progress:
        nonlocal told
        told += 1
        if told == 3:
            often.set()
        return progress()

    monkeypatch.setattr(drive.agents.server, "_progress", counted)
    _, go = network.gate("GET", "/")
    answers: list[Any] = []

    async def poll() -> None:
        answers.extend(await ask(path, control.Poll()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        with trio.fail_after(10):
            await often.wait()
        go.set()
    assert isinstance(answers[-1], control.Done)
    assert {type(one) for one in answers[:-1]} == {control.Progress}


async def test_a_poll_without_a_network_says_so(path: Path, network: Network) -> None:
    network.is_down = True
    with pytest.raises(errors.UserError, match="cannot be reached"):
        await ask(path, control.Poll())


async def test_stop_with_open_files_needs_force(path: Path, drive: Drive) -> None:
    opened, _ = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    with pytest.raises(errors.UserError, match="open on the drive"):
        await ask(path, control.Stop())
    assert not drive.agents.shutdown.wanted.is_set()
    await drive.fs.release(opened.fh)
    drive.agents.shutdown.done.set()
    assert (await ask(path, control.Stop(drain_seconds=7)))[-1].kind == "done"
    assert drive.agents.shutdown.wanted.is_set()
    assert drive.agents.shutdown.drain_seconds == 7


async def test_another_user_gets_no_answer(path: Path, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the kernel says of the peer is compared with who we are: so it is another's.
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    stream = await trio.open_unix_socket(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")
    async with stream:
        with trio.fail_after(5):
            assert await stream.receive_some() == b""
    monkeypatch.undo()
    assert await ask(path, control.Ping())


async def test_watcher_receives_status_stream(path: Path, drive: Drive) -> None:
    stream = await trio.open_unix_socket(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")
    await stream.send_all(control.encode(control.Watch()))
    lines = b""
    with trio.fail_after(10):
        while lines.count(b"\n") < 2:
            lines += await stream.receive_some()
    assert all(isinstance(control.parse_answer(line), control.DriveStatus) for line in lines.splitlines()[:2])
    await stream.aclose()
    with trio.fail_after(5):
        await drive.agents.server.finished(5)


async def test_how_one_item_stands(path: Path, drive: Drive, other: Remote, network: Network) -> None:
    await other.file("f", b"x" * 200_000, parent=await other.folder("d"))

    async def of(item: str) -> control.PathStatus:
        (found,) = await ask(path, control.GetPathStatus(path=item))
        assert isinstance(found, control.PathStatus)
        return found

    found = await of("/d/f")
    assert (found.type, found.sync, found.size, found.cached_bytes) == ("file", "synced", 200_000, 0)
    assert found.is_online_only
    assert (await of("/d")).type == "folder"
    await drive.read("d/f")
    await ask(path, control.Pin(path="/d"))
    found = await of("/d/f")
    assert (found.cached_bytes, found.pinned) == (200_000, "/d")
    arrived, go = network.gate("POST", "/content")
    await drive.write("new", b"y" * 1000)
    with trio.fail_after(5):
        await arrived.wait()
    assert (await of("/new")).sync == "uploading"
    go.set()
    await drive.sync()
    assert (await of("/new")).sync == "synced"
    with pytest.raises(errors.UserError, match="There is no /none on the drive"):
        await of("/none")


async def test_the_log_level_is_set(path: Path) -> None:
    before = logging.getLogger().level
    try:
        assert await ask(path, control.SetLogLevel(level="DEBUG")) == [control.Done()]
        assert logging.getLogger().level == logging.DEBUG
    finally:
        logs.set_level(logging.getLevelName(before))


async def test_pins_are_set_and_told(path: Path, drive: Drive, other: Remote) -> None:
    await other.file("f", b"x")
    assert await ask(path, control.Pin(path="/f")) == [control.Done()]
    await drive.agents.pins.once()
    (found,) = await ask(path, control.GetPins())
    assert found.pins.items == [diagnostics.Pinned(path="/f", files=1, bytes=1, files_here=1, bytes_here=1)]
    assert await ask(path, control.Unpin(path="/f")) == [control.Done()]
    with pytest.raises(errors.UserError, match="/f is not pinned"):
        await ask(path, control.Unpin(path="/f"))


async def test_space_is_freed(path: Path, drive: Drive, other: Remote) -> None:
    await other.file("f", b"x")
    await drive.read("f")
    *progress, freed = await ask(path, control.Free(path="/f"))
    assert all(isinstance(one, control.Progress) for one in progress)
    assert freed == control.Freed(files=1, bytes=1)
    with pytest.raises(errors.UserError, match="There is no /none"):
        await ask(path, control.Free(path="/none"))


async def test_a_follower_hears_only_what_changes(path: Path, drive: Drive, network: Network) -> None:
    arrived, go = network.gate("POST", "/files/content")
    heard: list[control.Answer] = []
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(daemonctl.connection(path)))
    async with stream:
        with trio.fail_after(20):
            await stream.send_all(control.encode(control.Follow()))

            async def hear() -> control.DriveSummary:
                (line,) = (await stream.receive_some()).splitlines()
                heard.append(control.parse_answer(line))
                assert isinstance(heard[-1], control.DriveSummary)
                return heard[-1]

            first = await hear()
            assert (first.account, first.pending, first.attention) == ("default", 0, 0)
            await drive.write("large", b"y" * 1000)
            await arrived.wait()
            while (found := await hear()).pending == 0:
                pass
            assert found.moving == ["/large"]
            # What is repeated each second is said once.
            go.set()
            while (await hear()).pending:
                pass
    assert all(one != other for one, other in itertools.pairwise(heard))


@pytest.mark.parametrize("moments", range(5))
async def test_a_socket_that_closes_under_a_caller_ends_the_server_quietly(
    drive: Drive, tmp_path: Path, moments: int
) -> None:
    async with server.listening(tmp_path / "s.sock") as listener, trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.server.serve, listener)
        async with await trio.open_unix_socket(str(tmp_path / "s.sock")):
            await trio.testing.wait_all_tasks_blocked()
            listener.socket.close()
            # As when the drive is handed over: the rest of it ends a moment later.
            for _ in range(moments):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
