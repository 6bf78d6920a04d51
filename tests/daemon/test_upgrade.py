"""What one process hands to the next that serves the same mount: open files, lookups, listings."""

import errno
import json
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs import config, errors
from cmsfs.replica import database
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.virtual.node import FIRST
from daemon import upgrade
from daemon.shutdown import Upgrading
from tests.support.daemon_drive import Drive, Remote, Starting, fails


async def handed_over(drive: Drive) -> upgrade.Handover:
    """As it comes out of the file in memory."""
    with os.fdopen(upgrade.write_memory_file({"tree": await drive.agents.shown.handed_over()})) as file:
        file.seek(0)
        return upgrade.Handover(-1, -1, 0o700, -1, json.load(file))


async def test_open_files_go_on_with_every_byte(starting: Starting, other: Remote) -> None:
    await other.file("news", b"old version")
    async with starting() as drive:
        await drive.names()
        fs = drive.agents.shown
        made, attributes = await fs.create(ROOT, "made", 0o644, os.O_RDWR)
        await fs.write(made.fh, 0, b"never closed")
        hidden, _ = await fs.create(ROOT, "hidden", 0o644, os.O_RDWR)
        await fs.write(hidden.fh, 0, b"unlinked")
        await drive.unlink("hidden")
        await fs.mkdir(ROOT, "folder", 0o755)
        gone = await fs.mkdir(ROOT, "gone", 0o755)
        await drive.rmdir("gone")
        news = await fs.open((await fs.lookup(ROOT, "news")).ino, os.O_RDONLY)
        await other.write((await other.find_file("news")).id, b"new version")
        await drive.poll()
        listing = await fs.opendir(ROOT)
        before = await fs.readdir(listing, 0)
        lookups = drive.fs.inodes.lookups(attributes.ino)
        given = await handed_over(drive)

    async with starting(given=given) as drive:
        fs = drive.agents.shown
        assert bytes(await fs.read(made.fh, 0, 100)) == b"never closed"
        assert bytes(await fs.read(hidden.fh, 0, 100)) == b"unlinked"
        assert bytes(await fs.read(news.fh, 0, 100)) == b"old version"
        assert await drive.read("news") == b"new version"
        # A number that was given is given to nothing else.
        assert (await fs.open(attributes.ino, os.O_RDONLY)).fh not in (made.fh, hidden.fh, news.fh, listing)
        await fs.write(made.fh, 12, b", and then some")
        await fs.write(hidden.fh, 8, b" and alive")
        assert bytes(await fs.read(hidden.fh, 0, 100)) == b"unlinked and alive"
        assert fs.getattr(gone.ino).ino == gone.ino  # somebody's working folder
        fs.forget([(gone.ino, 1)])
        assert [one.name for one in await fs.readdir(listing, before[0].cookie)] == [
            one.name for one in before[1:]
        ]
        fs.releasedir(listing)
        assert drive.fs.inodes.lookups(attributes.ino) == lookups
        for opened in (made, hidden, news):
            await fs.flush(opened.fh)
            await fs.release(opened.fh)
        await drive.sync()
        assert await other.read("made") == b"never closed, and then some"
        assert "/hidden" not in await other.paths()
        with fails(errno.ESTALE):
            while True:
                fs.getattr(gone.ino)
                await drive.agents.commit.commit()


async def test_virtual_files_are_read_to_the_end(starting: Starting, other: Remote) -> None:
    number = await other.file("news", b"version 1")
    await other.write(number, b"version 2")
    async with starting() as drive:
        await drive.names()
        fs = drive.agents.shown
        folder = await fs.opendir((await fs.lookup(ROOT, "news@versions")).ino)
        first = min(await fs.readdir(folder, 0), key=lambda one: one.name)
        opened = await fs.open(first.attributes.ino, os.O_RDONLY)
        whole = bytes(await fs.read(opened.fh, 0, 100))
        trash = await fs.lookup(ROOT, ".search")
        given = await handed_over(drive)

    async with starting(given=given) as drive:
        fs = drive.agents.shown
        assert bytes(await fs.read(opened.fh, 3, 100)) == whole[3:]
        assert fs.getattr(trash.ino).ino == trash.ino
        again = await fs.lookup(ROOT, "news@versions")
        assert again.ino > first.attributes.ino >= FIRST
        await fs.release(opened.fh)
        fs.releasedir(folder)
        with fails(errno.ESTALE):
            fs.getattr(first.attributes.ino)


def test_changes_that_the_kernel_has_not_heard_of_are_told_by_the_next() -> None:
    changes = [Change(ChangeKind.CONTENT, 7), Change(ChangeKind.GONE, 8, 1, "ä", is_new=True)]
    state = json.loads(json.dumps({"untold": [upgrade.change_to_json(one) for one in changes]}))
    assert upgrade.Handover(-1, -1, 0, -1, state).unsent_changes == changes


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (f"{upgrade.FORMAT} {database.VERSION - 1}", "does not read this one's local state"),
        (f"{upgrade.FORMAT + 1} {database.VERSION}", "cannot take over"),
        (f"{upgrade.FORMAT}", "cannot take over"),
    ],
)
def test_a_version_that_could_not_go_on_is_refused_beforehand(said: str, refusal: str) -> None:
    upgrade.check_greeting(upgrade.greeting())
    upgrade.check_greeting(f"{upgrade.FORMAT} {database.VERSION + 1}")
    with pytest.raises(errors.UserError, match=refusal):
        upgrade.check_greeting(said)


async def test_two_who_ask_at_once_are_answered_by_one_try() -> None:
    upgrading, tried, may_fail = Upgrading(), list[int](), trio.Event()

    async def try_it() -> None:
        tried.append(1)
        await may_fail.wait()
        raise errors.UserError("not now")

    async def ask() -> None:
        with pytest.raises(errors.UserError, match="not now"):
            await upgrading.ask()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upgrading.run, try_it)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as two:
            two.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            two.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            may_fail.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(tried) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_a_version_that_does_not_start_is_told_before_anything_else(private_folders: Path) -> None:
    arguments = ["--account", "default", "--profile", "embedded", "--ready-fd", "99"]
    ready = await upgrade.start_successor(arguments)
    await ready.dismiss()  # and it ends
    file = config.config_file()
    file.parent.mkdir(exist_ok=True)
    file.write_text("nonsense = 1\n")
    with pytest.raises(errors.UserError, match=r"does not start: .*there is no setting nonsense"):
        await upgrade.start_successor(arguments)
