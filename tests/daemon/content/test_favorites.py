"""The favorites of the account, as an attribute that can be set."""

from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import listed, told, value
from tests.support.network import Network


async def favorites(other: Remote) -> list[str]:
    return [item.name or "" async for item in await other.client.favorites.list()]


async def test_a_favorite_is_set_and_shown(drive: Drive, other: Remote) -> None:
    await other.file("a", b"1")
    await other.folder("d")
    await drive.names()
    assert await value(drive, "a", "favorite") == "0"
    assert await told(drive, "a", "favorite", "1") == "ok"
    assert await told(drive, "d", "favorite", "1") == "ok"
    assert await favorites(other) == ["d", "a"]
    assert [await value(drive, name, "favorite") for name in ("a", "d")] == ["1", "1"]
    assert await told(drive, "a", "favorite", None) == "ok"
    assert await told(drive, "d", "favorite", "0") == "ok"
    assert await favorites(other) == []
    assert await value(drive, "a", "favorite") == "0"
    # Copying programs copy what is listed: a copy is no favorite.
    assert "favorite" not in await listed(drive, "a")


async def test_others_favorites_are_seen_when_doubted(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"1")
    await drive.names()
    assert await value(drive, "a", "favorite") == "0"
    await other.client.favorites.set("file", number, is_one=True)
    assert await value(drive, "a", "favorite") == "0"
    drive.agents.favorites.doubt()
    assert await value(drive, "a", "favorite") == "1"
    assert drive.agents.health.requests["favorites"] == 2


async def test_what_cannot_be_one(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("a", b"1")
    await drive.names()
    await drive.write("new", b"1")
    assert await told(drive, "new", "favorite", "1") == "EBUSY"
    await drive.write(".~lock.a#", b"1")
    assert await told(drive, ".~lock.a#", "favorite", "1") == "ENOTSUP"
    assert await told(drive, "a", "favorite", "yes") == "EINVAL"
    assert await told(drive, "a", "favorite", "1") == "ok"
    network.is_down = True
    assert await told(drive, "a", "favorite", "0") == "ENETDOWN"
    assert await value(drive, "a", "favorite") == "1"
