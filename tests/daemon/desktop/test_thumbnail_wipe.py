"""Small pictures in the desktop's cache: of what may no longer be read, they are removed."""

import struct
import zlib
from pathlib import Path

import pytest
import trio

from cmsfs import config
from daemon.desktop import thumbnail_cache
from tests.support.daemon_drive import Drive, Remote
from tests.support.shared_team import TEAM, Team, listed


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


@pytest.fixture
async def team(ben: Remote, user: int) -> Team:
    return await Team(ben, user).make()


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def _draw(path: Path, mtime_ns: int) -> list[Path]:
    """Put pictures of a file into the cache, as file managers do; one that it could not draw it notes."""
    cache, uri = config.thumbnails_folder(), thumbnail_cache.uri(path)
    sizes = ("normal", "x-large", "fail/gnome-thumbnail-factory")
    for size in sizes:
        thumbnail_cache.path_of(cache, size, uri).parent.mkdir(parents=True, exist_ok=True)
        thumbnail_cache.write(cache, size, uri, mtime_ns // 10**9, _png())
    return [thumbnail_cache.path_of(cache, size, uri) for size in sizes]


async def _drawn(drive: Drive, path: str) -> list[Path]:
    node = drive.node(await drive.ino(path))
    return _draw(drive.agents.mountpoint / path, node.mtime_ns)


async def _wiped(drive: Drive) -> None:
    with trio.fail_after(10):
        while not await drive.agents.wiper.once():
            await trio.lowlevel.checkpoint()


async def _all_drawn(drive: Drive, other: Remote, tmp_path: Path) -> tuple[list[Path], list[Path]]:
    """Pictures of what Ben shares, and of one's own and of others on this machine."""
    await other.file("mine é;.jpg", b"mine")
    await listed(drive)
    await drive.names()
    theirs = [*await _drawn(drive, f"{TEAM}/plan"), *await _drawn(drive, f"{TEAM}/Sub/deep")]
    theirs += _draw(drive.agents.mountpoint / f"{TEAM}/plan@versions" / "old", 10**9)
    elsewhere = _draw(tmp_path / "mnt of another" / "photo.jpg", 10**9)
    return theirs, [*await _drawn(drive, "mine é;.jpg"), *elsewhere]


async def test_when_the_access_ends(drive: Drive, team: Team, other: Remote, tmp_path: Path) -> None:
    theirs, mine = await _all_drawn(drive, other, tmp_path)
    await team.revoke()
    await drive.poll()
    await _wiped(drive)
    assert [path for path in theirs if path.exists()] == []
    assert all(path.exists() for path in mine)


async def test_when_the_role_no_longer_lets_us_read(
    drive: Drive, team: Team, other: Remote, tmp_path: Path
) -> None:
    theirs, mine = await _all_drawn(drive, other, tmp_path)
    await drive.agents.account.rights.learn(drive.node(await drive.ino(TEAM)))
    await team.revoke()
    await team.grant("previewer")
    await drive.poll()
    with trio.fail_after(10):
        while drive.agents.account.rights._asking:
            await trio.lowlevel.checkpoint()
    await _wiped(drive)
    assert [path for path in theirs if path.exists()] == []
    assert all(path.exists() for path in mine)
