"""Push: answers to uploads that arrive late, when the file's item belongs to another file by then."""

import pytest
import trio

from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_of_a_file_that_took_over_an_item_whose_own_upload_is_not_answered(
    drive: Drive, other: Remote, network: Network
) -> None:
    """What was sent of the item that it took over stays known; otherwise its next version seems to meet
    somebody else's, and becomes a conflict copy."""
    await drive.write("a", b"one")
    await drive.write("b", b"two")
    await drive.sync()
    ids = {name: (await other.find(name)).id for name in ("a", "b")}
    held = {}
    for name, data in (("a", b"three"), ("b", b"four")):
        held[name] = network.gate("POST", f"/files/{ids[name]}/content")
        await drive.write(name, data)
        with trio.fail_after(5):
            await held[name][0].wait()
    await drive.rename("a", "b")
    held["a"][1].set()

    async def is_sent() -> bool:
        return network.count("POST", f"/files/{ids['b']}/content") >= 2

    assert await drive.agents.push.until(is_sent, seconds=5)
    held["b"][1].set()
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["b"]
    assert await other.read("b") == await drive.read("b") == b"three"
    assert (await other.find("b")).id == ids["b"]
    assert drive.db.rows("SELECT * FROM unheard") == []


async def test_of_a_new_file_that_took_over_an_item_whose_own_upload_is_not_answered(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("b", b"two")
    await drive.sync()
    kept = (await other.find("b")).id
    late, late_go = network.gate("POST", f"/files/{kept}/content")
    await drive.write("b", b"four")
    new, new_go = network.gate("POST", "/files/content")
    await drive.write("a", b"three")
    with trio.fail_after(5):
        await late.wait()
        await new.wait()
    await drive.rename("a", "b")
    new_go.set()

    async def is_sent() -> bool:
        return network.count("POST", f"/files/{kept}/content") >= 2

    assert await drive.agents.push.until(is_sent, seconds=5)
    late_go.set()
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["b"]
    assert await other.read("b") == b"three"
    assert (await other.find("b")).id == kept
    assert drive.db.rows("SELECT * FROM unheard") == []


@pytest.mark.parametrize("change", ["time", "name", "description"])
async def test_of_an_item_that_was_deleted_meanwhile(
    drive: Drive, other: Remote, network: Network, change: str
) -> None:
    """It does not come back."""
    ino = await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    late, go_on = network.gate("PUT", f"/files/{kept}")
    match change:
        case "time":
            await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922 * 10**9))
        case "name":
            await drive.rename("f", "g")
        case "description":
            await drive.fs.setxattr(ino, "user.cms.description", b"told")
    with trio.fail_after(5):
        await late.wait()
    await other.client.items.delete("file", kept)
    await drive.poll()
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
    with trio.fail_after(5):
        while drive.db.rows("SELECT 1 FROM node WHERE ino = ?", ino):
            await trio.lowlevel.checkpoint()
    go_on.set()
    await drive.write("next", b"two")
    await drive.sync()
    assert await drive.names() == await other.paths() == ["next"]
    assert drive.ops() == []
