"""Taking something away from what others share: one leaves it, and it stays for everybody else."""

import os
from typing import Any

import httpx
import pytest

from cmsfs import config
from cmsfs.models.base import UserMini
from cmsfs.replica.nodes import ROOT
from cmsfs.replica.sharing import shares
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import attempt, share
from tests.support.network import Network
from tests.support.shared_team import SHELF


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


async def _give(ben: Remote, kind: str, name: str, role: str, user: int) -> str:
    made = await (ben.folder(name) if kind == "folder" else ben.file(name, b"theirs"))
    await share(ben, kind, made, role, user)
    return str(made)


async def _parts(ben: Remote, kind: Any, item_id: str) -> list[str]:
    """Who collaborates on Ben's item."""
    found = ben.client.collaborations.of(kind, item_id)
    return [one.accessible_by.login or "" async for one in found if isinstance(one.accessible_by, UserMini)]


async def _throw(drive: Drive, path: str, trash: str) -> None:
    """Move something into the trash of the drive, or into that of a desktop."""
    shown = drive.agents.shown
    into = (await shown.lookup(ROOT, trash)).ino
    if trash != ".trash":
        into = (await shown.lookup(into, "files")).ino
    parent, name = await drive.place(path)
    await shown.rename(parent, name, into, name, 0)


@pytest.mark.parametrize(
    ("kind", "role", "way", "where"),
    [
        *(("folder", role, "remove", "folder") for role in ("viewer", "editor")),
        *(("folder", role, ".trash", "folder") for role in ("viewer", "editor", "co-owner")),
        *(("file", role, "remove", "folder") for role in ("viewer", "editor")),
        ("file", "editor", ".trash", "folder"),
        ("folder", "co-owner", "desktop", "folder"),
        ("folder", "co-owner", "remove", "root"),
        ("file", "editor", "remove", "root"),
        ("folder", "co-owner", ".trash", "root"),
    ],
)
async def test_removing_it_leaves_it(
    starting: Starting,
    ben: Remote,
    user: int,
    kind: str,
    role: str,
    way: str,
    where: str,
) -> None:
    item = await _give(ben, kind, "Thing", role, user)
    if kind == "folder" and way != "remove":
        await ben.file("inside.txt", b"theirs", item)
    before = await ben.paths()
    async with starting(shared=where) as drive:
        await drive.names()
        path = f"{SHELF}/Thing" if where == "folder" else "Thing"
        if kind == "folder":
            await drive.names(path)
        if way == "remove":
            await (drive.rmdir(path) if kind == "folder" else drive.unlink(path))
        else:
            await _throw(drive, path, way if way == ".trash" else f".Trash-{os.getuid()}")
        await drive.sync()
        await drive.poll()
        assert await drive.names() == []
        assert await ben.paths() == before
        assert await _parts(ben, kind, item) == []
        # Shared anew, it is here again.
        await share(ben, kind, item, role, user)
        await drive.poll()
        assert drive.node(await drive.ino(path)).remote_id == item


async def test_what_is_shared_otherwise_cannot_be_left(
    drive: Drive,
    ben: Remote,
    user: int,
    network: Network,
    log_watch: Any,
) -> None:
    item = await _give(ben, "file", "plan.txt", "editor", user)
    await drive.names()

    def group(request: httpx.Request) -> httpx.Response | None:
        if request.method == "DELETE":
            raise AssertionError(request.url)
        if not request.url.path.endswith("/collaborations"):
            return None
        everybody = {"type": "group", "id": str(user), "name": "Everybody"}
        shown = {"type": "collaboration", "id": "7", "status": "accepted", "accessible_by": everybody}
        return httpx.Response(200, json={"entries": [shown | {"item": {"type": "file", "id": item}}]})

    network.instead = group
    log_watch.expected += [
        "plan.txt cannot be left: .* ask its owner",
        "moved to the trash: .* ask its owner",
    ]
    for call in (drive.unlink(f"{SHELF}/plan.txt"), _throw(drive, f"{SHELF}/plan.txt", ".trash")):
        assert await attempt(call) == "EACCES"
    assert await drive.names(SHELF) == ["plan.txt"]
    assert await ben.paths() == ["plan.txt"]


async def test_without_the_service_it_is_left_later(
    drive: Drive, ben: Remote, user: int, network: Network
) -> None:
    item = await _give(ben, "file", "plan.txt", "editor", user)
    await drive.names()
    network.is_down = True
    await drive.unlink(f"{SHELF}/plan.txt")
    network.is_down = False
    await drive.sync()
    assert await ben.paths() == ["plan.txt"]
    assert await _parts(ben, "file", item) == []


async def test_rmdir_of_nonempty_share_is_refused(drive: Drive, ben: Remote, user: int) -> None:
    item = await _give(ben, "folder", "Team", "editor", user)
    await ben.file("in it", b"theirs", item)
    await drive.names()
    assert await attempt(drive.rmdir(f"{SHELF}/Team")) == "ENOTEMPTY"
    await drive.sync()
    assert await _parts(ben, "folder", item) == ["ada@example.com"]


async def test_what_was_read_of_it_is_wiped(drive: Drive, ben: Remote, user: int) -> None:
    await _give(ben, "file", "plan.txt", "editor", user)
    await drive.names()
    assert await drive.read(f"{SHELF}/plan.txt") == b"theirs"
    await drive.unlink(f"{SHELF}/plan.txt")
    await drive.sync()
    assert await drive.agents.wiper.once()
    assert drive.db.rows("SELECT sha1 FROM content") == []


async def test_deleting_and_making_anew_is_a_save(starting: Starting, ben: Remote, user: int) -> None:
    item = await _give(ben, "file", "plan.txt", "editor", user)
    async with starting(settle_seconds=600) as drive:
        await drive.names()
        await drive.unlink(f"{SHELF}/plan.txt")
        await drive.write(f"{SHELF}/plan.txt", b"made anew")
        await drive.sync()
        assert await ben.read("plan.txt") == b"made anew"
        assert (await ben.find("plan.txt")).id == item
        assert await _parts(ben, "file", item) == ["ada@example.com"]
        assert shares.owner(drive.db, await drive.ino(f"{SHELF}/plan.txt")) == "Ben Tester"
