"""Two changes of what somebody else shares: who keeps the name, and where the other one is."""

from typing import get_args

import pytest

from cmsfs import config
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import share

PLACES = get_args(config.Settings.model_fields["shared"].annotation)


@pytest.fixture(params=PLACES)
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, shared=request.param)


async def _shelf(drive: Drive) -> str:
    await drive.names()
    await drive.poll()
    if offered := [one.id for one in drive.agents.offers.undecided()]:
        await drive.agents.decide_offers(offered, accept=True)
    return "Shared with me" if "Shared with me" in await drive.names() else ""


async def test_shared_file_conflict_copy_is_private(
    drive: Drive, ben: Remote, other: Remote, user: int
) -> None:
    """There is no folder of the owner's that this account could put its copy into."""
    file_id = await ben.file("f.txt", b"one")
    await share(ben, "file", file_id, "editor", user)
    shelf = await _shelf(drive)
    path = f"{shelf}/f.txt".lstrip("/")
    assert await drive.read(path) == b"one"
    await ben.write(file_id, b"theirs")
    await drive.write(path, b"mine")
    await drive.sync()
    await drive.poll()
    assert await drive.read(path) == b"theirs"
    if shelf:
        assert await drive.names(shelf) == ["f.txt"]
    (copy,) = [name for name in await drive.names() if "conflicted copy of" in name]
    assert await drive.read(copy) == b"mine"
    assert await other.read(copy) == b"mine"
    assert await ben.read("f.txt") == b"theirs"
    assert await ben.paths() == ["f.txt"]
    assert drive.ops() == []


async def test_shared_folder_conflict_copy_is_shared(drive: Drive, ben: Remote, user: int) -> None:
    folder = await ben.folder("s")
    file_id = await ben.file("f.txt", b"one", folder)
    await share(ben, "folder", folder, "editor", user)
    shelf = await _shelf(drive)
    path = f"{shelf}/s/f.txt".lstrip("/")
    assert await drive.read(path) == b"one"
    await ben.write(file_id, b"theirs")
    await drive.write(path, b"mine")
    await drive.sync()
    await drive.poll()
    assert await drive.read(path) == b"theirs"
    (copy,) = [name for name in await ben.paths() if "conflicted copy of" in name]
    assert copy.startswith("s/")
    assert await ben.read(copy.removeprefix("s/")) == b"mine"
