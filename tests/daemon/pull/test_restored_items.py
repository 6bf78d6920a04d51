"""What goes at the service and is back: its bits, attributes and pin, and as a folder that can be read."""

import pytest

from cmsfs import config
from cmsfs.replica import local_attributes, pins, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


async def marked(drive: Drive) -> None:
    """Bits, an attribute and a pin, as programs and a person set them."""
    run, docs = await drive.ino("docs/run.sh"), await drive.ino("docs")
    await drive.fs.setattr(run, SetAttr(mode=0o750))
    await drive.fs.setxattr(run, "user.note", b"\x00\xffmine")
    await drive.fs.setattr(docs, SetAttr(mode=0o700))
    await drive.db.write(lambda conn: conn.execute("INSERT INTO pin VALUES (?, 7)", (docs,)))
    await drive.sync()


async def is_marked(drive: Drive) -> bool:
    run, docs = await drive.ino("docs/run.sh"), await drive.ino("docs")
    assert drive.fs.getattr(run).mode & 0o777 == 0o750
    assert await drive.fs.getxattr(run, "user.note") == b"\x00\xffmine"
    assert drive.fs.getattr(docs).mode & 0o777 == 0o700
    return docs in pins.roots(drive.db)


async def test_restored_item_regains_attributes_after_restart(starting: Starting, other: Remote) -> None:
    docs = await other.folder("docs")
    await other.file("run.sh", b"#!/bin/sh", parent=docs)
    async with starting() as drive:
        assert await drive.names("docs") == ["run.sh"]
        await drive.poll()
        await marked(drive)
        await other.client.items.delete("folder", docs, recursive=True)
        await drive.poll()
        assert await drive.names() == []
    async with starting() as drive:
        assert drive.db.row("SELECT 1 FROM node WHERE ino > 2") is None
        await other.client.items.restore("folder", docs)
        await drive.poll()
        assert await drive.names("docs") == ["run.sh"]
        assert await is_marked(drive)
        assert drive.db.row("SELECT 1 FROM kept") is None


async def test_restored_foreign_bytes_are_not_executable(starting: Starting, other: Remote) -> None:
    number = await other.file("run.sh", b"#!/bin/sh")
    async with starting() as drive:
        await drive.names()
        await drive.poll()
        await drive.fs.setattr(await drive.ino("run.sh"), SetAttr(mode=0o750))
        await other.client.items.delete("file", number)
        await drive.poll()
        await drive.db.write(tree.discard_detached)
        await other.client.items.restore("file", number)
        await other.write(number, b"rm -rf")
        await drive.poll()
        assert drive.fs.getattr(await drive.ino("run.sh")).mode & 0o777 == 0o640


async def test_what_was_kept_is_forgotten_in_the_end(drive: Drive, other: Remote) -> None:
    number = await other.file("f")
    await drive.names()
    await drive.poll()
    await drive.fs.setattr(await drive.ino("f"), SetAttr(mode=0o600))
    await other.client.items.delete("file", number)
    await drive.poll()
    await drive.db.write(tree.discard_detached)
    assert await drive.db.write(lambda conn: local_attributes.forget(conn, days=1)) == 0
    assert await drive.db.write(lambda conn: local_attributes.forget(conn, days=-1)) == 1


async def test_restored_folder_gets_new_inode(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    assert await drive.names("docs") == ["f"]
    await drive.poll()
    await marked_folder(drive)
    before = await drive.ino("docs")
    await other.client.items.delete("folder", docs, recursive=True)
    await drive.poll()
    assert await drive.names() == []
    await other.client.items.restore("folder", docs)
    await drive.poll()
    after = await drive.ino("docs")
    assert after != before
    assert await drive.names("docs") == ["f"]
    assert await drive.read("docs/f") == b"x"
    assert drive.fs.getattr(after).mode & 0o777 == 0o700
    # Nothing is known twice.
    assert tree.find(drive.db, before).remote_id is None
    await drive.sync()
    assert await other.paths() == ["docs/", "docs/f"]
    assert drive.node(after).parent == ROOT


async def marked_folder(drive: Drive) -> None:
    await drive.fs.setattr(await drive.ino("docs"), SetAttr(mode=0o700))


async def test_refused_folder_deletion_restores_readable_folder(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    await drive.names("docs")
    await drive.poll()
    before = await drive.ino("docs")
    await other.file("new", b"n", parent=docs)
    await drive.rmdir("docs")
    await drive.sync()
    assert await drive.ino("docs") != before
    assert await drive.names("docs") == ["new"]
