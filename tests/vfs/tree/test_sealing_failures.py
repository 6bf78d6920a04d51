"""Whoever waits for the end of a sealing is woken by its failure, at whichever step."""

import errno
import os
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs.cache import local_contents
from cmsfs.journal import sealing
from cmsfs.replica import tree
from cmsfs.replica.nodes import Content
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive

STEPS = ["fsync", "link", "adopt", "commit", "crash of adopt"]


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_at(drive: Drive, step: str, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Let this step of sealing fail once all who wait are waiting; set when it has been reached."""
    reached = trio.Event()

    async def wait() -> None:
        reached.set()
        await trio.testing.wait_all_tasks_blocked()

    def fail_in_thread(*_: Any) -> Any:
        trio.from_thread.run(wait)
        raise full()

    async def fail(*_: Any) -> Any:
        await wait()
        raise ValueError("a bug") if step.startswith("crash") else full()

    match step:
        case "fsync":
            monkeypatch.setattr(sealing, "_read_all", fail_in_thread)
        case "link":
            monkeypatch.setattr(local_contents, "_link_in", fail_in_thread)
        case "commit":
            monkeypatch.setattr(sealing, "_become_content", fail_in_thread)
        case _:
            monkeypatch.setattr(drive.blocks, "adopt_dirty", fail)
    return reached


async def call(drive: Drive, what: str, ino: int, fh: int) -> None:
    match what:
        case "write":
            assert await drive.fs.write(fh, 5, b" and on") == 7
        case "truncate":
            await drive.fs.setattr(ino, SetAttr(size=2), fh)
        case "truncate by name":
            await drive.fs.setattr(ino, SetAttr(size=2))
        case "read":
            assert await drive.fs.read(fh, 0, 100) == b"begin"
        case "fsync":
            await drive.fs.fsync(fh)
        case "open to truncate":
            opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
            await drive.fs.release(opened.fh)


LEFT = {
    "write": b"begin and on",
    "truncate": b"be",
    "truncate by name": b"be",
    "read": b"begin",
    "fsync": b"begin",
    "open to truncate": b"",
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", LEFT)
async def test_a_call_goes_on_when_sealing_fails(
    drive: Drive, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, step: str, what: str
) -> None:
    opened, made = await drive.fs.create(1, "f", 0o644, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"begin")
    await drive.fs.flush(opened.fh)
    draft = drive.drafts.find(tree.find(drive.db, made.ino).draft)
    reached = fail_at(drive, step, monkeypatch)
    done = trio.Event()

    async def program() -> None:
        await reached.wait()
        await call(drive, what, made.ino, opened.fh)
        done.set()

    nursery.start_soon(program)
    with trio.fail_after(10):
        with pytest.raises((OSError, ValueError)):
            await drive.sealer.seal(draft, while_open=lambda: True)
        await done.wait()
    monkeypatch.undo()
    await drive.fs.release(opened.fh)
    # And it is sealed as ever, the next time.
    await drive.seal(made.ino)
    assert await drive.read_file("f") == LEFT[what]


async def test_waiting_write_spares_sealed_content(
    drive: Drive, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came to the draft's lock while the draft was about to be sealed."""
    opened, made = await drive.fs.create(1, "f", 0o644, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"begin")
    draft = drive.drafts.find(tree.find(drive.db, made.ino).draft)
    done = trio.Event()

    async def program() -> None:
        await drive.fs.write(opened.fh, 5, b" and on")
        done.set()

    async with draft.lock:
        nursery.start_soon(program)
        await trio.testing.wait_all_tasks_blocked()
        draft.sealed = True
    found = sealing._read_all([sealing._candidate(draft)])
    await drive.sealer._commit([(draft, found[0])], lambda *_: None)
    draft.release()
    with trio.fail_after(10):
        await done.wait()
    sealed = tree.find(drive.db, made.ino).sha1
    assert await drive.blocks.read(Content(sealed, 5, None, None), 0, 100) == b"begin"
    assert await drive.fs.read(opened.fh, 0, 100) == b"begin and on"
    assert (drive.blocks.path(sealed)).read_bytes() == b"begin"
    await drive.fs.release(opened.fh)
