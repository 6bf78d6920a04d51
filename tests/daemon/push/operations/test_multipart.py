"""Large files go in parts: resumed after a restart, recognised when their answer was lost, given up when
they are of no use any more."""

import random
from pathlib import Path

import pytest
import trio

from cmsfs import config
from cmsfs.client.content.uploads import FileSource
from cmsfs.models.content import upload_sessions
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

PART = 8 * 1024 * 1024
SIZE = 21_000_000
PARTS = -(-SIZE // PART)

# As the profiles have it.
SHIPPED_SIZE = 51_000_000


def large(seed: int, size: int = SIZE) -> bytes:
    # It repeats, but no two parts are the same: a part begins elsewhere in it than the others.
    return (random.Random(seed).randbytes(1_000_003) * 51)[:size]


@pytest.fixture
def early_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go in parts from the least size on that the service takes so."""
    shipped = config.profile

    def profile(settings: config.Settings) -> config.Profile:
        return shipped(settings).model_copy(update={"parts_from_bytes": upload_sessions.MIN_FILE_SIZE})

    monkeypatch.setattr(config, "profile", profile)


def puts(network: Network) -> int:
    return int(network.count("PUT", "/upload_sessions/"))


async def test_large_file_uploads_in_parts(drive: Drive, other: Remote, network: Network) -> None:
    first, second = large(1, SHIPPED_SIZE), large(2, SHIPPED_SIZE)
    await drive.write("f", first)
    await drive.sync()
    assert await other.read("f") == first
    assert puts(network) == -(-SHIPPED_SIZE // PART)
    kept = (await other.find("f")).id
    await drive.write("f", second)
    await drive.sync()
    assert await other.read("f") == second
    assert ((await other.find("f")).id, await other.versions(kept)) == (kept, 2)
    assert network.count("POST", "/files/content") == 0
    # Nothing can have arrived of what has just begun.
    assert network.count("GET", "/upload_sessions/") == 0
    assert drive.db.rows("SELECT * FROM upload") == []


@pytest.mark.usefixtures("early_parts")
@pytest.mark.parametrize("renamed", [False, True])
async def test_restart_resumes_missing_parts(
    starting: Starting, other: Remote, network: Network, renamed: bool
) -> None:
    data = large(3)
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/commit", before=True)
        await drive.write("f", data)
        with trio.fail_after(20):
            await arrived.wait()
    assert puts(network) == PARTS
    async with starting(agents=("health",)) as drive:
        if renamed:
            await drive.mkdir("d")
            await drive.rename("f", "d/g")
    async with starting() as drive:
        await drive.sync()
        assert drive.ops() == []
    assert puts(network) == PARTS
    assert await other.paths() == (["d/", "d/g"] if renamed else ["f"])
    assert await other.read("g" if renamed else "f") == data


@pytest.mark.usefixtures("early_parts")
async def test_a_session_that_is_over_is_replaced(
    starting: Starting, other: Remote, network: Network, service: Store
) -> None:
    data = large(4)
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/commit", before=True)
        await drive.write("f", data)
        with trio.fail_after(20):
            await arrived.wait()
    await service.write(lambda conn: conn.execute("UPDATE upload_session SET expires_at = 1"))
    async with starting() as drive:
        await drive.sync()
    assert await other.read("f") == data
    assert puts(network) == 2 * PARTS


@pytest.mark.usefixtures("early_parts")
async def test_expired_upload_session_is_replaced(
    drive: Drive, other: Remote, network: Network, service: Store
) -> None:
    arrived, go = network.gate("PUT", "/upload_sessions/")
    await drive.write("f", large(5))
    with trio.fail_after(20):
        await arrived.wait()
    await service.write(lambda conn: conn.execute("UPDATE upload_session SET expires_at = 1"))
    go.set()
    await drive.sync()
    assert await other.read("f") == large(5)


@pytest.mark.usefixtures("early_parts")
@pytest.mark.parametrize("version", [False, True])
async def test_a_commit_whose_answer_was_lost_is_recognised(
    drive: Drive, other: Remote, network: Network, version: bool
) -> None:
    if version:
        await drive.write("f", b"small")
        await drive.sync()
    network.lose_answer("POST", "/commit")
    await drive.write("f", large(6))
    await drive.sync()
    assert puts(network) == PARTS
    assert await other.paths() == ["f"]
    assert await other.versions((await other.find("f")).id) == 1 + version
    assert drive.ops() == []


@pytest.mark.usefixtures("early_parts")
async def test_a_lost_answer_is_recognised_where_the_session_began(
    starting: Starting, other: Remote, network: Network
) -> None:
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/commit", before=True)
        await drive.write("f", large(21))
        with trio.fail_after(20):
            await arrived.wait()
    async with starting(agents=("health",)) as drive:
        await drive.rename("f", "g")
    network.lose_answer("POST", "/commit")
    async with starting() as drive:
        await drive.sync()
        assert drive.ops() == []
        assert await drive.names() == ["g"]
    assert await other.paths() == ["g"]
    assert await other.versions((await other.find("g")).id) == 1
    assert puts(network) == PARTS


async def test_newer_bytes_end_a_running_upload(drive: Drive, other: Remote, network: Network) -> None:
    arrived, go = network.gate("PUT", "/upload_sessions/")
    await drive.write("f", large(7, SHIPPED_SIZE))
    with trio.fail_after(20):
        await arrived.wait()
    await drive.write("f", b"newer")
    go.set()
    await drive.sync()
    assert await other.read("f") == b"newer"
    assert await other.versions((await other.find("f")).id) == 1
    assert puts(network) < -(-SHIPPED_SIZE // PART)
    assert network.count("DELETE", "/upload_sessions/") == 1


@pytest.mark.usefixtures("early_parts")
async def test_file_deleted_during_upload_never_appears(
    drive: Drive, other: Remote, network: Network
) -> None:
    arrived, go = network.gate("PUT", "/upload_sessions/")
    await drive.write("f", large(8))
    with trio.fail_after(20):
        await arrived.wait()
    await drive.unlink("f")
    go.set()
    await drive.sync()
    assert network.count("POST", "/commit") == 0
    assert (await other.paths(), drive.ops()) == ([], [])


@pytest.mark.usefixtures("early_parts")
async def test_concurrent_version_makes_conflict_copy(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    arrived, go = network.gate("POST", "/commit", before=True)
    await drive.write("f", large(9))
    with trio.fail_after(20):
        await arrived.wait()
    await other.write((await other.find("f")).id, b"theirs")
    go.set()
    await drive.sync()
    assert await other.read("f") == b"theirs"
    copies = [name for name in await other.paths() if "conflicted copy" in name]
    assert len(copies) == 1
    assert await other.read(copies[0]) == large(9)


@pytest.mark.usefixtures("early_parts")
async def test_small_files_overtake_large_uploads(drive: Drive, other: Remote, network: Network) -> None:
    gates = [network.gate("PUT", "/upload_sessions/", before=True) for _ in range(2 * 4)]
    for number in range(4):
        await drive.write(f"large {number}", large(10 + number))
    with trio.fail_after(20):
        await gates[0][0].wait()
    await drive.write("small", b"x")
    with trio.fail_after(20):
        while "small" not in await other.paths():
            await drive.agents.push._moved.wait()
    for _, go in gates:
        go.set()
    await drive.sync()
    assert len(await other.paths()) == 5


async def test_a_file_that_is_moved_while_its_parts_are_sent_is_no_unexpected_error(
    other: Remote, tmp_path: Path
) -> None:
    """The bytes of a backup are kept, and leave the cache, while they are sent."""
    path = tmp_path / "bytes"
    path.write_bytes(large(20))
    source = FileSource(path)
    session = await other.client.upload_sessions.begin("0", "f", source.size)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        await other.client.upload_sessions.send(session, source)
