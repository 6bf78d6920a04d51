"""Files whose upload has no answer yet, and which replace another file and become its backup in a save: the
backup has its bytes, here or at the service, and the service has nothing that was not saved."""

import pytest
import trio

from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

# What happens to the backup `old~` of `old`, which was sent as `f`; then what is there.
LOCAL_ENDS: dict[str, dict[str, bytes]] = {
    "stays": {"old": b"new", "old~": b"one"},
    "is removed": {"old": b"new"},
    "is removed, and `f` is anew": {"f": b"two", "old": b"new"},
    "is renamed": {"g": b"one", "old": b"new"},
    "is renamed to `f`": {"f": b"one", "old": b"new"},
    "is renamed to `f` and written": {"f": b"two", "old": b"new"},
    "is replaced": {"old": b"new", "old~": b"two"},
}
# The same of one that goes to the service.
SENT_ENDS: dict[str, dict[str, bytes]] = {
    "stays": {"old": b"new", "old.bak": b"one"},
    "is removed": {"old": b"new"},
    "is renamed to `f`": {"f": b"one", "old": b"new"},
}
ENDS = [
    *[("old~", end, there) for end, there in LOCAL_ENDS.items()],
    *[("old.bak", end, there) for end, there in SENT_ENDS.items()],
]


async def save(drive: Drive, backup: str, end: str) -> None:
    await drive.rename("f", "old")
    await drive.rename("old", backup)
    await drive.write("old", b"new")
    match end:
        case "is removed":
            await drive.unlink(backup)
        case "is removed, and `f` is anew":
            await drive.unlink(backup)
            await drive.write("f", b"two")
        case "is renamed":
            await drive.rename(backup, "g")
        case "is renamed to `f`":
            await drive.rename(backup, "f")
        case "is renamed to `f` and written":
            await drive.rename(backup, "f")
            await drive.write("f", b"two")
        case "is replaced":
            await drive.write("new~", b"two")
            await drive.rename("new~", backup)


async def check(drive: Drive, other: Remote, there: dict[str, bytes]) -> None:
    for _ in range(2):
        await drive.sync()
        await drive.poll()
    assert {name: await drive.read(name) for name in await drive.names()} == there
    sent = {name: data for name, data in there.items() if not name.endswith("~")}
    assert {name: await other.read(name) for name in await other.paths()} == sent
    assert drive.ops() == []
    assert drive.db.rows("SELECT * FROM unheard") == []


@pytest.mark.parametrize(("backup", "end", "there"), ENDS)
async def test_crash_before_the_response_is_recorded(
    starting: Starting, other: Remote, network: Network, backup: str, end: str, there: dict[str, bytes]
) -> None:
    async with starting() as drive:
        await drive.write("old", b"old")
        await drive.sync()
        arrived, _ = network.gate("POST", "/content")
        await drive.write("f", b"one")
        with trio.fail_after(5):
            await arrived.wait()
    async with starting(agents=("health", "fs")) as drive:
        await save(drive, backup, end)
        going = {path.strip("/") for kind, _, path in drive.ops() if kind == "trash"}
        assert not going & {name for name in there if not name.endswith("~")}
    async with starting() as drive:
        await check(drive, other, there)


@pytest.mark.parametrize("is_lost", [False, True], ids=["late", "lost"])
@pytest.mark.parametrize(("backup", "end", "there"), ENDS)
async def test_answer_comes_after_the_save(
    drive: Drive,
    other: Remote,
    network: Network,
    backup: str,
    end: str,
    there: dict[str, bytes],
    is_lost: bool,
) -> None:
    await drive.write("old", b"old")
    await drive.sync()
    # An answer to be lost is held before its request is carried out: what comes then is the same.
    arrived, go = network.gate("POST", "/files/content", before=is_lost)
    if is_lost:
        network.lose_answer("POST", "/files/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    await save(drive, backup, end)
    go.set()
    await check(drive, other, there)


async def test_backup_is_renamed_while_its_upload_is_looked_for(
    drive: Drive, other: Remote, network: Network
) -> None:
    """It is an item again, and what is found is its item, which is not deleted."""
    await drive.write("old", b"old")
    await drive.sync()
    network.lose_answer("POST", "/files/content")
    looked, look = network.gate("OPTIONS", "/content", before=True)
    sent, send = network.gate("POST", "/files/content", before=True)
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await sent.wait()
    await save(drive, "old~", "stays")
    send.set()
    with trio.fail_after(20):
        await looked.wait()
    await drive.rename("old~", "f")
    look.set()
    await check(drive, other, {"f": b"one", "old": b"new"})


async def test_file_becomes_a_backup_while_an_earlier_upload_is_looked_for(
    drive: Drive, other: Remote, network: Network
) -> None:
    """It stays on this machine then, and is not sent."""
    await drive.write("old", b"old")
    await drive.sync()
    network.lose_answer("POST", "/files/content")
    looked, look = network.gate("OPTIONS", "/content", before=True)
    sent, send = network.gate("POST", "/files/content", before=True)
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await sent.wait()
    await drive.rename("f", "g")
    await drive.write("g", b"two")
    send.set()
    with trio.fail_after(20):
        await looked.wait()
    await drive.rename("g", "f")
    await save(drive, "old~", "stays")
    look.set()
    await check(drive, other, {"old": b"new", "old~": b"two"})
    assert await other.paths() == ["old"]
    assert network.count("POST", "/files/content") == 2
