"""The stream of events: access that comes and goes."""

import httpx
import pytest

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.changes import ChangeKind
from cmsfs.replica.merge import local_work
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


@pytest.fixture
def settings(events_only: config.Settings) -> config.Settings:
    return events_only


async def test_a_folder_shared_with_us_comes_and_goes(drive: Drive, other: Remote, ben: Remote) -> None:
    await drive.names()
    folder = await ben.folder("theirs")
    inside = await ben.file("f", b"one", await ben.folder("deep", folder))
    made = await ben.client.collaborations.create("folder", folder, "editor", user_id=str(other.user))
    await drive.poll()
    assert await drive.names() == ["theirs"]
    assert await drive.read("theirs/deep/f") == b"one"
    drive.changes.clear()
    await ben.client.collaborations.delete(made.id)
    await drive.poll()
    assert await drive.names() == []
    assert ChangeKind.GONE in {change.what for change in drive.changes}
    # What was changed while we did not see it is there when we see it again.
    await ben.write(inside, b"two")
    await ben.client.collaborations.create("folder", folder, "viewer", user_id=str(other.user))
    await drive.poll()
    assert await drive.read("theirs/deep/f") == b"two"


async def test_a_lost_folder_goes_though_the_first_answer_about_it_is_unusable(
    drive: Drive, other: Remote, ben: Remote, network: Network, expect_log: ExpectLog
) -> None:
    """Its number is known, so only another request tells."""
    expect_log("skipping the folder")
    folder = await ben.folder("theirs")
    made = await ben.client.collaborations.create("folder", folder, "editor", user_id=str(other.user))
    assert await drive.names() == ["theirs"]
    await drive.poll()
    await ben.client.collaborations.delete(made.id)

    def empty(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith(f"/folders/{folder}"):
            return None
        network.instead = None
        return httpx.Response(200)

    network.instead = empty
    await drive.poll()
    assert await drive.names() == []
    assert not local_work.has_deferred(drive.db)


async def test_unsent_work_in_lost_folder_is_kept(
    drive: Drive, other: Remote, ben: Remote, network: Network
) -> None:
    """Held where it is, with nothing else in the folder; it is not made our own, and Ben's is as it was."""
    await drive.names()
    folder = await ben.folder("theirs")
    await ben.file("f", b"one", folder)
    await ben.file("g", b"untouched", folder)
    made = await ben.client.collaborations.create("folder", folder, "editor", user_id=str(other.user))
    await drive.poll()
    assert await drive.names("theirs") == ["f", "g"]
    network.is_down = True
    await drive.write("theirs/f", b"ours, unsent")
    await ben.client.collaborations.delete(made.id)
    network.is_down = False
    await drive.poll()
    assert await drive.read("theirs/f") == b"ours, unsent"
    await drive.sync()
    assert await drive.names("theirs") == ["f"]
    assert drive.ops() == [("upload", "held", "/theirs/f")]
    # Also if it was not completely known when access was lost: nobody lists it now.
    ino = await drive.ino("theirs")
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ino))
    assert await drive.names("theirs") == ["f"]
    assert await other.paths() == []
    assert await ben.read("f") == b"one"


async def test_sharing_our_own_folder_costs_no_listing(drive: Drive, other: Remote, ben: Remote) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    assert await drive.names("docs") == ["f"]
    await drive.poll()
    before = drive.agents.health.requests["listing"]
    await other.client.collaborations.create("folder", docs, "editor", user_id=str(ben.user))
    await drive.poll()
    assert await drive.names("docs") == ["f"]
    assert drive.agents.health.requests["listing"] == before
