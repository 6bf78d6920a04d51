"""Deletions carried out at the service."""

import trio

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_deletion_is_heard_of_before_its_own_answer(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The event comes first, and the node is forgotten: nothing is left to record."""
    await other.file("file", b"x")
    ino = await drive.ino("file")
    held, release = network.gate("DELETE", "/files/")
    await drive.fs.unlink(ROOT, "file")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await held.wait()
        await drive.poll()
        # As the reaper does when the kernel has forgotten it.
        assert await drive.db.write(lambda conn: tree.discard(conn, ino))
        release.set()
    assert drive.ops() == [] and await drive.names() == await other.paths() == []
