"""Hydrate: bytes come once, in time, or with a clear error."""

import errno
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cmsfs import config
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Content
from cmsfs.service.storage.store import Store
from daemon.fetch import block_download, hydrate
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=2)


async def content_of(drive: Drive, other: Remote, data: bytes, name: str = "f") -> Content:
    await other.file(name, data)
    await drive.names()
    await drive.poll()
    node = drive.node(await drive.ino(name))
    return Content(node.sha1, node.size, node.remote_id, node.version)


async def test_a_run_of_blocks_is_one_request(drive: Drive, other: Remote, network: Network) -> None:
    data = os.urandom(3 * BLOCK + 17)
    content = await content_of(drive, other, data)
    await drive.agents.hydrator.blocks(content, 0, 3)
    assert network.count("GET", "/content") == 1
    assert await drive.read("f") == data
    assert network.count("GET", "/content") == 1


async def test_readers_of_one_block_share_a_request(drive: Drive, other: Remote, network: Network) -> None:
    content = await content_of(drive, other, os.urandom(2 * BLOCK))
    arrived, go = network.gate("GET", "/content")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrator.blocks, content, 0, 1)
        await arrived.wait()
        for _ in range(5):
            nursery.start_soon(drive.agents.hydrator.blocks, content, 1, 1)
        await wait_all_tasks_blocked(0.02)
        go.set()
    assert network.count("GET", "/content") == 1


async def test_one_reader_giving_up_spares_others(drive: Drive, other: Remote, network: Network) -> None:
    content = await content_of(drive, other, b"x" * 100)
    arrived, go = network.gate("GET", "/content")
    with trio.CancelScope() as impatient:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.agents.hydrator.blocks, content, 0, 0)
            await arrived.wait()
            impatient.cancel()
    go.set()
    assert await drive.read("f") == b"x" * 100
    assert network.count("GET", "/content") == 1


async def test_a_service_that_says_nothing_is_a_timeout(
    drive: Drive, other: Remote, network: Network
) -> None:
    content = await content_of(drive, other, b"x" * 100)
    gates = [network.gate("GET", "/content") for _ in range(3)]
    with pytest.raises(TimeoutError) as caught:
        await drive.agents.hydrator.blocks(content, 0, 0)
    assert caught.value.errno == errno.ETIMEDOUT
    for _, go in gates:
        go.set()


async def test_silent_connection_is_replaced_in_time(drive: Drive, other: Remote, network: Network) -> None:
    content = await content_of(drive, other, b"x" * 100)
    network.gate("GET", "/content")
    await drive.agents.hydrator.blocks(content, 0, 0)
    assert network.count("GET", "/content") == 2


async def test_reader_takes_over_readahead(drive: Drive, other: Remote, network: Network) -> None:
    contents = [await content_of(drive, other, os.urandom(100), f"f{number}") for number in range(8)]
    gates = [network.gate("GET", "/content") for _ in range(hydrate.BACKGROUND)]
    for content in contents[:6]:
        drive.agents.hydrator.ahead(content, 0, 0)
    for arrived, _ in gates:
        await arrived.wait()
    # All places of read-ahead are taken; these two are queueing.
    for content in contents[6:]:
        drive.agents.hydrator.ahead(content, 0, 0)
    await drive.agents.hydrator.blocks(contents[7], 0, 0)
    assert network.count("GET", "/content") == 7
    for _, go in gates:
        go.set()
    for content in contents:
        await drive.agents.hydrator.blocks(content, 0, 0)
    assert network.count("GET", "/content") == 8


async def test_what_is_asked_for_once_is_left_out_of_larger_requests(
    drive: Drive, other: Remote, network: Network
) -> None:
    data = os.urandom(80 * BLOCK)
    content = await content_of(drive, other, data)
    asked: list[str] = []

    def note(request: httpx.Request) -> None:
        if request.url.path.endswith("/content"):
            asked.append(request.headers["range"])

    network.instead = note
    gates = [network.gate("GET", "/content", before=True) for _ in range(4)]
    hydrator = drive.agents.hydrator
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hydrator.blocks, content, 10, 19)
            await gates[0][0].wait()
            nursery.start_soon(hydrator.blocks, content, 40, 49)
            await gates[1][0].wait()
            nursery.start_soon(hydrator.blocks, content, 15, 60)
            for arrived, go in gates:
                await arrived.wait()
                go.set()
    wanted = [(10, 19), (40, 49), (20, 39), (50, 60)]
    assert asked[:2] + sorted(asked[2:]) == [f"bytes={a * BLOCK}-{(b + 1) * BLOCK - 1}" for a, b in wanted]
    assert await drive.read("f") == data


@pytest.fixture
async def paced(starting: Starting) -> AsyncIterator[Any]:
    async with starting(paced=True) as drive:
        yield drive


async def test_readahead_and_waiting_reads_differ(paced: Any, other: Remote, network: Network) -> None:
    contents = [await content_of(paced, other, os.urandom(100), f"f{number}") for number in range(2)]
    gates = [network.gate("GET", "/content", before=True) for _ in contents]
    paced.agents.hydrator.ahead(contents[0], 0, 0)
    await gates[0][0].wait()
    assert paced.agents.pace.queues == {"ahead": (0, 1)}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(paced.agents.hydrator.blocks, contents[1], 0, 0)
        await gates[1][0].wait()
        assert paced.agents.pace.queues == {"interactive": (0, 1), "ahead": (0, 1)}
        for _, go in gates:
            go.set()


async def test_reads_resume_after_pause(paced: Any, other: Remote, nursery: trio.Nursery) -> None:
    content = await content_of(paced, other, os.urandom(100))
    paced.agents.pace.hold(True)
    nursery.start_soon(paced.agents.hydrator.keep, content)
    await wait_all_tasks_blocked(0.01)
    assert paced.agents.pace.queues == {"pin": (1, 0)}
    with trio.fail_after(3):
        assert len(await paced.read("f")) == 100


async def test_offline_is_told_at_once(drive: Drive, other: Remote, network: Network) -> None:
    await content_of(drive, other, b"x" * 100)
    network.is_down = True
    drive.agents.health.suspect()
    with trio.fail_after(5):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    with pytest.raises(OSError, match="Network is down"):
        await drive.read("f")
    network.is_down = False
    with trio.fail_after(5):
        await drive.agents.health.reachable()
    assert await drive.read("f") == b"x" * 100


async def test_wrong_bytes_are_an_error_and_never_read(
    drive: Drive, other: Remote, service: Store, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    content = await content_of(drive, other, b"right bytes")
    blob = next(path for path in (service.root / "blobs").glob("*/*") if path.name == content.sha1)
    blob.chmod(0o600)
    blob.write_bytes(b"wrong bytes")
    with pytest.raises(OSError, match="Input/output error"):
        await drive.read("f")


async def test_bytes_that_are_nowhere_are_an_error(drive: Drive) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        await drive.agents.hydrator.blocks(Content("0" * 40, 10, None, None), 0, 0)


async def test_a_large_file_streams_through(drive: Drive, other: Remote) -> None:
    data = os.urandom(80 * BLOCK + 5)
    await other.file("large", data)
    found = drive.fs.getattr(await drive.ino("large"))
    opened = await drive.fs.open(found.ino, os.O_RDONLY)
    parts = [await drive.fs.read(opened.fh, start, 128 * 1024) for start in range(0, len(data), 128 * 1024)]
    await drive.fs.release(opened.fh)
    assert b"".join(parts) == data


@pytest.mark.parametrize("error", [None, httpx.ReadError("reset"), httpx.ReadTimeout("silent")])
async def test_broken_download_resumes(
    drive: Drive, other: Remote, network: Network, error: Exception | None
) -> None:
    data = os.urandom(80 * BLOCK)
    content = await content_of(drive, other, data)
    network.break_body(BLOCK + 5, error)
    network.break_body(3 * BLOCK, error)
    await drive.agents.hydrator.blocks(content, 0, 79)
    assert await drive.read("f") == data
    assert network.count("GET", "/content") == 3
    with trio.fail_after(5):
        while not drive.agents.health.is_online:
            await drive.agents.health.changed()


@pytest.mark.parametrize(("size", "first"), [(3 * BLOCK - 5, 0), (80 * BLOCK, 50)])
async def test_connection_that_breaks_behind_the_last_byte_is_not_resumed(
    drive: Drive, other: Remote, network: Network, size: int, first: int
) -> None:
    data = os.urandom(size)
    content = await content_of(drive, other, data)
    network.break_body(size - first * BLOCK, httpx.ReadError("reset"))
    await drive.agents.hydrator.blocks(content, first, (size - 1) // BLOCK)
    assert network.count("GET", "/content") == 1
    assert await drive.read("f") == data


async def test_repeated_empty_downloads_are_an_error(drive: Drive, other: Remote, network: Network) -> None:
    content = await content_of(drive, other, os.urandom(80 * BLOCK))
    for _ in range(10):
        network.break_body(BLOCK - 1, httpx.ReadError("reset"))
    with pytest.raises(OSError, match="Network is down"):
        await drive.agents.hydrator.blocks(content, 0, 79)
    assert network.count("GET", "/content") == block_download.MAX_EMPTY_CONNECTIONS


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, block_download.WHOLE_BYTES])
async def test_small_file_is_verified_before_reading(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, size: int
) -> None:
    expect_log("a download does not match its SHA-1")
    data = os.urandom(size)
    content = await content_of(drive, other, data)
    network.break_body(size // 2, flip=True)
    with pytest.raises(OSError, match="Input/output error"):
        await drive.fs.read((await drive.fs.open(await drive.ino("f"), os.O_RDONLY)).fh, 0, 1)
    assert drive.agents.state.blocks.missing(content.sha1, size, 0, 99) != []
    assert await drive.read("f") == data
    assert network.count("GET", "/content") == 2


async def test_damaged_large_file_is_dropped(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    data = os.urandom(80 * BLOCK)
    content = await content_of(drive, other, data)
    network.break_body(BLOCK + 7, flip=True)
    with pytest.raises(OSError, match="Input/output error"):
        await drive.agents.hydrator.blocks(content, 0, 79)
    assert not drive.agents.state.blocks.is_complete(content.sha1)
    assert await drive.read("f") == data


async def test_no_space_for_prefetch(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [await content_of(drive, other, os.urandom(BLOCK), name) for name in "ab"]
    monkeypatch.setattr(drive.agents.state.blocks._evictor, "_limit", BLOCK // 2)
    drive.agents.hydrator.ahead(contents[0], 0, 0)
    await wait_all_tasks_blocked(0.02)
    assert network.count("GET", "/content") == 0
    drive.agents.hydrator.ahead(contents[1], 0, 0)
    await drive.agents.hydrator.blocks(contents[1], 0, 0)
    assert network.count("GET", "/content") == 1


async def test_waiting_reader_learns_of_outage(drive: Drive, other: Remote, network: Network) -> None:
    content = await content_of(drive, other, b"x" * 100)
    arrived, _ = network.gate("GET", "/content")
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(OSError, match="Network is down"):
                await drive.agents.hydrator.blocks(content, 0, 0)
            nursery.cancel_scope.cancel()

        nursery.start_soon(read)
        await arrived.wait()
        network.is_down = True
        for work in drive.agents.hydrator._in_flight.values():
            work.at -= 10  # it has been silent for long
        drive.agents.health.suspect()
        await trio.sleep(1.5)
        pytest.fail("nobody was told")


async def test_incomplete_small_file_is_dropped(drive: Drive, other: Remote, network: Network) -> None:
    size = block_download.WHOLE_BYTES
    content = await content_of(drive, other, os.urandom(size))
    for _ in range(block_download.MAX_EMPTY_CONNECTIONS):
        network.break_body(size - 5, httpx.ReadError("reset"))
    with pytest.raises(OSError, match="Network is down"):
        await drive.agents.hydrator.blocks(content, 0, 0)
    assert drive.agents.state.blocks.missing(content.sha1, size, 0, 31) == [(0, 31)]


async def test_reader_of_damaged_file_gets_error(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    data = os.urandom(80 * BLOCK)
    await content_of(drive, other, data)
    network.break_body(7, flip=True)
    told: list[Change] = []
    drive.agents.hub.subscribe(told.extend)
    ino = await drive.ino("f")
    first, second = [(await drive.fs.open(ino, os.O_RDONLY)).fh for _ in range(2)]
    # Of a part alone nobody can know.
    assert await drive.fs.read(first, 0, BLOCK) != data[:BLOCK]

    async def read_on() -> None:
        for start in range(BLOCK, len(data), BLOCK):
            await drive.fs.read(first, start, BLOCK)

    with pytest.raises(OSError, match="Input/output error"):
        await read_on()
    # Not here any more, not in the kernel, and whoever read of it is told so to the end.
    assert Change(ChangeKind.CONTENT, ino, is_same=True) in told
    with pytest.raises(OSError, match="Input/output error"):
        await drive.fs.read(first, len(data) - 1, 1)
    assert (await drive.agents.status()).troubles.came_wrong == ["/f"]
    # Who had read nothing yet reads what is right, and so does who opens it again.
    assert await drive.fs.read(second, 0, len(data)) == data
    for fh in (first, second):
        await drive.fs.release(fh)
    assert await drive.read("f") == data


async def test_damaged_base_is_never_uploaded(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    data = os.urandom(80 * BLOCK)
    await content_of(drive, other, data)
    network.break_body(BLOCK + 7, flip=True)
    opened = await drive.fs.open(await drive.ino("f"), os.O_WRONLY)
    await drive.fs.write(opened.fh, len(data), b"more")
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.read("f") == data + b"more"
