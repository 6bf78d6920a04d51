"""Requests that a daemon had begun when it died, asked once more of the next."""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.heuristics import callers
from daemon.survival.record import CrashRecord
from daemon.survival.recorded import CrashLeftovers, RecordedDrive
from tests.support.daemon_drive import Drive, fails

CALLER = 77


class Story:
    """A drive whose daemon dies: what it carried out stays, and who waited asks again."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.record = CrashRecord.create()
        self.fs = self.over(CrashLeftovers())
        callers.CALLER.set(CALLER)

    def over(self, remains: CrashLeftovers) -> RecordedDrive:
        return RecordedDrive(self.drive.agents.shown, self.record, self.child, remains)

    def child(self, parent: Ino, name: str) -> Ino:
        node = tree.find_child(self.drive.db, parent, name)
        return 0 if node is None else node.ino

    def die(self) -> None:
        """The last request of the caller was not answered."""
        requests = {note.key: note.before for note in self.record.requests() if note.pid == CALLER}
        self.fs = self.over(CrashLeftovers(requests))


@pytest.fixture
async def story(drive: Drive) -> Story:
    await drive.names()
    return Story(drive)


Step = Callable[[Story], Awaitable[Any]]


REQUESTS: dict[str, tuple[Step, dict[str, bool]]] = {
    "mkdir": (lambda story: story.fs.mkdir(ROOT, "new", 0o755), {"new": True}),
    "mknod": (lambda story: story.fs.mknod(ROOT, "new", 0o100644), {"new": True}),
    "symlink": (lambda story: story.fs.symlink(ROOT, "new", b"file"), {"new": True}),
    "create": (
        lambda story: story.fs.create(ROOT, "new", 0o644, os.O_RDWR | os.O_CREAT | os.O_EXCL),
        {"new": True},
    ),
    "unlink": (lambda story: story.fs.unlink(ROOT, "file"), {"file": False}),
    "rmdir": (lambda story: story.fs.rmdir(ROOT, "folder"), {"folder": False}),
    "rename": (lambda story: story.fs.rename(ROOT, "file", ROOT, "new", 0), {"file": False, "new": True}),
    "rename over": (
        lambda story: story.fs.rename(ROOT, "file", ROOT, "other", 0),
        {"file": False, "other": True},
    ),
    "exchange": (
        lambda story: story.fs.rename(ROOT, "file", ROOT, "other", 2),
        {"file": True, "other": True},
    ),
}


async def before(story: Story) -> None:
    await story.drive.write("file", b"file")
    await story.drive.write("other", b"other")
    await story.drive.mkdir("folder")


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_was_carried_out_is_not_carried_out_twice(story: Story, name: str) -> None:
    await before(story)
    ask, expected = REQUESTS[name]
    await ask(story)
    there = await story.drive.names()
    numbers = {one: story.child(ROOT, one) for one in there}
    story.die()
    await ask(story)
    assert {one: story.child(ROOT, one) for one in await story.drive.names()} == numbers
    assert {one: one in there for one in expected} == expected


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_was_not_carried_out_is_now(
    story: Story, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await before(story)
    ask, expected = REQUESTS[name]
    with monkeypatch.context() as patch:
        died = OSError(errno.EPIPE, "died")

        async def dies(*arguments: object) -> None:
            raise died

        method = {"rename over": "rename", "exchange": "rename"}.get(name, name)
        patch.setattr(story.drive.agents.shown, method, dies)
        with fails(errno.EPIPE):
            await ask(story)
    numbers = {one: story.child(ROOT, one) for one in await story.drive.names()}
    story.die()
    await ask(story)
    there = await story.drive.names()
    assert {one: one in there for one in expected} == expected
    assert {one: story.child(ROOT, one) for one in there} != numbers


@pytest.mark.parametrize("name", ["user.mine", "user.cms.description"])
async def test_attributes_are_set_and_removed_once(story: Story, name: str) -> None:
    await before(story)
    await story.drive.sync()
    ino = story.child(ROOT, "file")
    for _ in range(2):
        await story.fs.setxattr(ino, name, b"said")
        story.die()
    assert await story.fs.getxattr(ino, name) == b"said"
    for _ in range(2):
        await story.fs.removexattr(ino, name)
        story.die()
    with fails(errno.ENODATA):
        await story.fs.getxattr(ino, name)
    # Who asks anew is told that there is none.
    story.fs = story.over(CrashLeftovers())
    with fails(errno.ENODATA):
        await story.fs.removexattr(ino, name)


async def test_an_attribute_that_cannot_be_set_twice_was_set(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await before(story)
    ino = story.child(ROOT, "file")
    await story.fs.setxattr(ino, "user.mine", b"said")

    async def refuses(*arguments: object) -> None:
        raise OSError(errno.ESTALE, "another has changed it")

    monkeypatch.setattr(story.drive.agents.shown, "setxattr", refuses)
    story.die()
    await story.fs.setxattr(ino, "user.mine", b"said")
    with fails(errno.ESTALE):
        await story.fs.setxattr(ino, "user.mine", b"said")
    story.die()
    with fails(errno.ESTALE):
        await story.fs.setxattr(ino, "user.mine", b"something else")


async def test_what_another_has_put_under_the_name_is_left_alone(
    story: Story, expect_log: Callable[[str], None]
) -> None:
    expect_log("neither before nor after")
    await before(story)
    for name, ask in (
        ("file", lambda: story.fs.unlink(ROOT, "file")),
        ("folder", lambda: story.fs.rmdir(ROOT, "folder")),
    ):
        await ask()
        await (story.drive.write("file", b"news") if name == "file" else story.drive.mkdir("folder"))
        story.die()
        with fails(errno.EIO):
            await ask()
        assert story.child(ROOT, name)
        # Who asks anew means what is there.
        await ask()
        assert not story.child(ROOT, name)


async def test_a_request_that_finds_what_was_there_before_is_refused_as_ever(story: Story) -> None:
    await before(story)
    for ask, number in (
        (lambda: story.fs.mkdir(ROOT, "folder", 0o755), errno.EEXIST),
        (lambda: story.fs.unlink(ROOT, "nothing"), errno.ENOENT),
        (lambda: story.fs.rename(ROOT, "nothing", ROOT, "new", 0), errno.ENOENT),
    ):
        with fails(number):
            await ask()
        story.die()
        with fails(number):
            await ask()


async def test_handles_and_lookups_are_recorded_and_taken_back(story: Story) -> None:
    opened, made = await story.fs.create(ROOT, "new", 0o644, os.O_WRONLY | os.O_APPEND)
    folder = await story.fs.opendir(ROOT)
    assert sorted(story.record.handles()) == sorted(
        [(opened.fh, made.ino, os.O_RDWR | os.O_APPEND), (folder, ROOT, -1)]
    )
    assert list(story.record.known_inodes()) == [made.ino]
    await story.fs.write(opened.fh, 0, b"recorded")
    sql = "SELECT size FROM node WHERE ino = ?"
    assert story.drive.db.rows(sql, made.ino)[0]["size"] == 8
    story.fs.releasedir(folder)
    await story.fs.release(opened.fh)
    await story.fs.release(opened.fh)  # once more, by one who was not answered
    story.fs.releasedir(folder)
    assert story.record.handles() == []
    story.fs.forget([(made.ino, 1)])
    assert list(story.record.known_inodes()) == []


async def test_lookups_by_a_listing_are_recorded(story: Story) -> None:
    made = [(await story.fs.mkdir(ROOT, name, 0o755)).ino for name in ("a", "b")]
    story.fs.forget([(ino, 1) for ino in made])
    assert list(story.record.known_inodes()) == []
    folder = await story.fs.opendir(ROOT)
    listed = [line.attributes.ino for line in await story.fs.readdir(folder, 0)]
    story.fs.counted(listed)
    assert sorted(story.record.known_inodes()) == sorted(listed)
    assert set(made) <= set(listed)
    story.fs.forget([(ino, 1) for ino in listed])
    assert list(story.record.known_inodes()) == []
    story.fs.releasedir(folder)


async def test_a_handle_that_nobody_can_open_again_gives_an_error(
    story: Story, expect_log: Callable[[str], None]
) -> None:
    expect_log("cannot be used any more")
    story.record.add_handle(9, 1000, 0)
    story.fs = story.over(CrashLeftovers(stale_handles={9, 10}))
    for use in (
        lambda: story.fs.read(9, 0, 10),
        lambda: story.fs.write(9, 0, b"x"),
        lambda: story.fs.fsync(9),
    ):
        with fails(errno.EIO):
            await use()
    with fails(errno.ESTALE):
        await story.fs.readdir(10, 0)
    await story.fs.flush(9)
    await story.fs.release(9)
    story.fs.releasedir(10)
    assert story.record.handles() == []


async def test_a_new_file_is_there_before_the_program_is_told(story: Story) -> None:
    """The next daemon has to know its number."""
    await story.drive.agents.commit.commit()
    opened, made = await story.fs.create(ROOT, "new", 0o644, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    with contextlib.closing(sqlite3.connect(story.drive.db.path)) as conn:
        assert conn.execute("SELECT name FROM node WHERE ino = ?", (made.ino,)).fetchall() == [("new",)]
    await story.fs.release(opened.fh)
