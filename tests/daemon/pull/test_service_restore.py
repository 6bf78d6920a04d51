"""A service that comes back from a backup is believed: what it has is shown, and unsent work stays."""

import functools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from cmsfs import config
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import NodeKind
from cmsfs.replica.rows import deleted_items
from cmsfs.vfs.tree.attributes import SetAttr
from daemon.pull import reconciler
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


@pytest.fixture(params=["embedded", "specification", "box"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    made = config.Settings(settle_seconds=0, network_seconds=5)
    if request.param != "embedded":
        addresses = dict.fromkeys(("base_url", "upload_url", "auth_url"), "http://service.test")
        made = made.model_copy(update={"profile": request.param} | addresses)
    return made


def place(other: Remote) -> Path:
    """Where the service keeps what it knows."""
    return Path(other.store.read("PRAGMA database_list")[0]["file"])


def copied(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as two:
        one.backup(two)


async def test_a_full_comparison_believes_the_service(
    drive: Drive, other: Remote, tmp_path: Path, network: Network
) -> None:
    database, backup = place(other), tmp_path / "backup.db"
    docs = await other.folder("docs")
    text = await other.file("text", b"old", parent=docs)
    named = await other.file("named", b"n", parent=docs)
    thrown = await other.file("thrown", b"t", parent=docs)
    await other.file("same", b"s", parent=docs)
    assert await drive.names("docs") == ["named", "same", "text", "thrown"]
    await drive.poll()
    copied(database, backup)
    for data in (b"newer", b"newest"):
        await other.write(text, data)
    await other.client.items.update("file", named, name="called otherwise")
    await other.client.items.delete("file", thrown)
    await other.file("late", b"l", parent=docs)
    await drive.poll()
    assert await drive.names("docs") == ["called otherwise", "late", "same", "text"]
    assert await drive.read("docs/text") == b"newest"
    # The bytes are freed; and something here is not sent yet.
    await drive.agents.free("/docs/text", unpin=False)
    network.is_down = True
    await drive.write("docs/same", b"ours")
    network.is_down = False
    copied(backup, database)
    await other.folder("made after the backup")  # what is made there from now on
    await drive.poll()
    await drive.agents.reconciler.once(full=True)
    assert await drive.names("docs") == ["named", "same", "text", "thrown"]
    assert await drive.read("docs/text") == b"old"
    assert await drive.read("docs/thrown") == b"t"
    await drive.sync()
    assert await drive.read("docs/same") == b"ours"
    assert await other.read("same") == b"ours"
    # And from here on as ever.
    await other.write(text, b"next")
    await drive.poll()
    assert await drive.read("docs/text") == b"next"


@pytest.mark.parametrize("settings", ["embedded"], indirect=True)
async def test_freed_bytes_missing_remotely_are_reported(drive: Drive, other: Remote, tmp_path: Path) -> None:
    database, backup = place(other), tmp_path / "backup.db"
    text = await other.file("text", b"old")
    await drive.names()
    await drive.poll()
    copied(database, backup)
    await other.write(text, b"newer")
    await drive.poll()
    copied(backup, database)
    with pytest.raises(OSError):
        await drive.read("text")
    await drive.agents.deferred_updates.settle()
    assert await drive.read("text") == b"old"


@pytest.mark.parametrize("settings", ["embedded"], indirect=True)
async def test_deleted_file_whose_row_goes_while_the_service_is_asked_is_back(
    starting: Starting, other: Remote, tmp_path: Path, network: Network
) -> None:
    database, backup = place(other), tmp_path / "backup.db"
    thrown = await other.file("thrown", b"t")
    async with starting(agents=("health",)) as drive:
        assert await drive.names() == ["thrown"]
        await drive.poll()
        ino = tree.find_remote(drive.db, NodeKind.FILE, thrown).ino
        copied(database, backup)
        await other.client.items.delete("file", thrown)
        await drive.poll()
        copied(backup, database)
        await other.folder("made after the backup")
        looking, looked = network.gate("GET", f"/files/{thrown}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(drive.agents.reconciler.once, full=True))
            await looking.wait()
            assert await drive.db.write(lambda conn: tree.discard(conn, ino))  # as the reaper does
            looked.set()
        assert await drive.names() == ["made after the backup", "thrown"]


@pytest.mark.parametrize("settings", ["embedded"], indirect=True)
async def test_events_that_begin_anew_have_everything_compared_soon(
    drive: Drive, other: Remote, tmp_path: Path
) -> None:
    database, backup = place(other), tmp_path / "backup.db"
    text = await other.file("text", b"old")
    await drive.names()
    await drive.poll()
    copied(database, backup)
    await other.write(text, b"newer")
    await other.client.items.delete("file", text)
    await drive.poll()
    assert list(deleted_items.all_of(drive.db)) == [(NodeKind.FILE, text)]
    copied(backup, database)
    await drive.poll()
    assert deleted_items.all_of(drive.db) == {}
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
    with trio.fail_after(5):
        await drive.agents.reconciler._sleep_until_due(3600)


async def test_a_number_that_is_given_a_second_time_is_something_else(
    drive: Drive, other: Remote, tmp_path: Path
) -> None:
    """Item, version and etag are the ones that the drive knows, and what they stand for is not."""
    database, backup = place(other), tmp_path / "backup.db"
    files = [await other.file(name, b"first") for name in ("text", "program")]
    await drive.names()
    await drive.poll()
    copied(database, backup)
    for file in files:
        await other.write(file, b"lost with the service")
    gone = await other.file("gone", b"gone, too")
    await drive.poll()
    assert await drive.read("text") == b"lost with the service"
    await drive.fs.setattr(await drive.ino("program"), SetAttr(mode=0o755), None)
    copied(backup, database)
    for file in files:
        await other.write(file, b"of the service")
    assert await other.file("anew", b"anew") == gone
    await drive.poll()
    await drive.agents.reconciler.once(full=True)
    await drive.agents.deferred_updates.settle()
    assert await drive.names() == ["anew", "program", "text"]
    assert await drive.read("text") == await drive.read("program") == b"of the service"
    assert await drive.read("anew") == b"anew"
