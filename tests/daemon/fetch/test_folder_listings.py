"""Listings in the background: while a folder above is being listed, and after a failure."""

import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from daemon.fetch import folder_listings
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    """Of a service that lists folders one by one."""
    addresses = dict.fromkeys(("base_url", "upload_url", "auth_url"), "http://service.test")
    made = config.Settings(settle_seconds=0, network_seconds=5)
    return made.model_copy(update={"profile": "box"} | addresses)


async def test_a_folder_is_listed_though_the_listing_of_the_one_above_does_not_reach_it(
    drive: Drive, other: Remote, network: Network
) -> None:
    folder = await other.folder("d")
    assert await drive.names() == ["d"]
    ino = await drive.ino("d")
    await other.file("f", b"x", parent=folder)
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    listed, go = network.gate("GET", "/folders/0/items")
    drive.agents.hydrator.list_soon(ROOT)
    with trio.fail_after(5):
        await listed.wait()
        drive.agents.hydrator.list_soon(ino)
        go.set()
        while not tree.is_listed(drive.db, ino):
            await drive.db.written.wait()
    assert network.count("GET", f"/folders/{folder}/items") == 1
    assert await drive.names("d") == ["f"]


@pytest.mark.parametrize("failures", [1, 3, folder_listings.RETRIES + 1])
async def test_a_listing_that_failed_is_repeated_though_nobody_waits_for_it(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Until then the kernel may know a name as missing that is there."""
    monkeypatch.setattr(folder_listings, "RETRY_SECONDS", 0.002)
    folder = await other.folder("d")
    assert await drive.names() == ["d"]
    ino = await drive.ino("d")
    await other.file("f", b"x", parent=folder)
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ino))
    left = [httpx.Response(200, json=[]) for _ in range(failures)]
    network.instead = lambda request: (
        left.pop() if left and request.url.path.endswith(f"/{folder}/items") else None
    )
    drive.agents.hydrator.list_soon(ino)
    with trio.fail_after(10):
        while network.count("GET", f"/folders/{folder}/items") < min(failures, folder_listings.RETRIES) + 1:
            await trio.lowlevel.checkpoint()
        while drive.agents.hydrator.is_listing:
            await trio.lowlevel.checkpoint()
    assert tree.is_listed(drive.db, ino) == (failures <= folder_listings.RETRIES)
