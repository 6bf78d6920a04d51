"""Changes from elsewhere reach the kernel's caches, and never at the price of a deadlock."""

import errno
import os
import stat
import threading
from functools import partial

import pytest
import trio
import trio.testing

from cmsfs.fuse import notifier
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import ROOT
from tests.support.inotify import IN_DELETE_SELF, Watch


async def test_new_version_shows_in_closed_file(fs, top, told, outside):
    fs.put("a", b"old bytes")
    assert await outside((top / "a").read_bytes) == b"old bytes"
    await fs.entered["release"].wait()
    # Reading made the kernel doubt the access time, so it asks once more here.
    await outside(os.stat, top / "a")
    ino = fs.put("a", b"the new").ino
    # It knows no better until it is told.
    assert (await outside(os.stat, top / "a")).st_size == 9
    await told(Change(ChangeKind.CONTENT, ino))
    assert (await outside(os.stat, top / "a")).st_size == 7
    assert await outside((top / "a").read_bytes) == b"the new"


async def test_read_before_invalidation_is_complete(fs, top, outside):
    fs.put("a", b"old")
    assert await outside((top / "a").read_bytes) == b"old"
    await fs.entered["release"].wait()
    await outside(os.stat, top / "a")
    fs.news.add(fs.put("a", b"longer than before").ino)
    assert await outside((top / "a").read_bytes) == b"longer than before"


@pytest.mark.parametrize("what", [ChangeKind.CONTENT, ChangeKind.ATTRIBUTES])
async def test_size_is_not_lost_to_a_later_invalidation(fs, hub, top, outside, what):
    fs.put("a", b"old")
    assert await outside((top / "a").read_bytes) == b"old"
    await fs.entered["release"].wait()
    await outside(os.stat, top / "a")
    fs.news.add(ino := fs.put("a", b"longer than before").ino)
    tells, answered = notifier.Notifier(hub, fs), fs.getattr

    def getattr_meanwhile(asked):
        # The kernel takes no answer to what it asked before it was told to forget.
        tells.notify(Change(what, ino))
        return answered(asked)

    fs.getattr = getattr_meanwhile
    assert await outside((top / "a").read_bytes) == b"longer than before"


async def test_changed_times_of_a_file_that_is_open_with_news_show(fs, top, told, outside):
    thing = fs.put("a", b"x")
    await outside(os.stat, top / "a")
    fs.news.add(thing.ino)
    handle = await outside(os.open, top / "a", os.O_RDONLY)
    assert await outside(os.pread, handle, 9, 0) == b"x"
    # Reading made the kernel doubt the access time, so it asks once more here.
    await outside(os.fstat, handle)
    thing.mtime_ns = 5 * 10**9
    await told(Change(ChangeKind.ATTRIBUTES, thing.ino))
    assert (await outside(os.fstat, handle)).st_mtime_ns == 5 * 10**9
    await outside(os.close, handle)


async def test_open_waits_for_an_invalidation_of_its_inode(monkeypatch):
    monkeypatch.setattr(notifier, "INVALIDATION_WAIT_SECONDS", 100.0)
    session, asked, go_on = notifier.KernelSession(), trio.Event(), threading.Event()

    def unless(ino):
        trio.from_thread.run_sync(asked.set)
        return go_on.wait(20)

    async with trio.open_nursery() as nursery:
        call = partial(session.invalidate_inode, 7, attributes_only=False, unless=unless)
        session.open()
        nursery.start_soon(trio.to_thread.run_sync, call)
        await asked.wait()
        await session.wait_for_invalidation(8)
        nursery.start_soon(session.wait_for_invalidation, 7)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2
        go_on.set()


async def test_open_handle_keeps_its_version(fs, top, told, outside):
    fs.put("a", b"old bytes")
    old = await outside(os.open, top / "a", os.O_RDONLY)
    assert await outside(os.pread, old, 3, 0) == b"old"
    ino = fs.put("a", b"NEW BYTES").ino
    await told(Change(ChangeKind.CONTENT, ino))
    assert (await outside(os.stat, top / "a")).st_mtime_ns == fs.things[ino].mtime_ns
    new = await outside(os.open, top / "a", os.O_RDONLY)
    assert await outside(os.pread, new, 9, 0) == b"NEW BYTES"
    assert await outside(os.pread, old, 9, 0) == b"old bytes"
    assert await outside(os.pread, new, 9, 0) == b"NEW BYTES"
    await outside(os.close, old)
    await outside(os.close, new)
    assert await outside((top / "a").read_bytes) == b"NEW BYTES"


async def test_negative_dentry_is_invalidated(fs, top, told, outside, outcome):
    assert await outcome(os.stat, top / "a") == errno.ENOENT
    ino = fs.put("a", b"x").ino
    assert await outcome(os.stat, top / "a") == errno.ENOENT
    await told(Change(ChangeKind.ENTRY, ino, ROOT, "a"))
    assert (await outside(os.stat, top / "a")).st_size == 1


async def test_watcher_of_a_new_file_sees_its_deletion(fs, top, told, outside, outcome):
    assert await outcome(os.stat, top / "a") == errno.ENOENT
    fs.denied.add(ROOT)
    ino = fs.put("a", b"x").ino
    # The kernel hears of it by a listing, before it is told that the name is another's now.
    assert await outside(os.listdir, top) == ["a"]
    watch = await outside(Watch, top / "a", IN_DELETE_SELF)
    await told(Change(ChangeKind.ENTRY, ino, ROOT, "a", is_new=True))
    del fs.things[ROOT].entries["a"]
    await told(Change(ChangeKind.GONE, ino, ROOT, "a"))
    assert await outside(watch.next) == (IN_DELETE_SELF, "")
    watch.close()


async def test_a_move_shows_at_both_ends(fs, top, told, outside, outcome):
    ino = fs.put("a", b"x").ino
    await outside(os.stat, top / "a")
    assert await outcome(os.stat, top / "b") == errno.ENOENT
    entries = fs.things[ROOT].entries
    entries["b"] = entries.pop("a")
    await told(Change(ChangeKind.ENTRY, ino, ROOT, "a"), Change(ChangeKind.ENTRY, ino, ROOT, "b"))
    assert await outcome(os.stat, top / "a") == errno.ENOENT
    assert (await outside(os.stat, top / "b")).st_ino == ino


async def test_deleted_open_file_stays_readable(fs, top, told, outside, outcome):
    ino = fs.put("a", b"x").ino
    handle = await outside(os.open, top / "a", os.O_RDONLY)
    del fs.things[ROOT].entries["a"]
    await told(Change(ChangeKind.GONE, ino, ROOT, "a"))
    assert await outcome(os.stat, top / "a") == errno.ENOENT
    assert await outside(os.pread, handle, 9, 0) == b"x"
    await outside(os.close, handle)


async def test_changed_times_show(fs, top, told, outside):
    thing = fs.put("a", b"x")
    await outside(os.stat, top / "a")
    thing.mtime_ns = 5 * 10**9
    await told(Change(ChangeKind.ATTRIBUTES, thing.ino))
    assert (await outside(os.stat, top / "a")).st_mtime_ns == 5 * 10**9


async def test_deleted_nonempty_folder_logs_nothing(fs, top, told, outside, outcome):
    ino = fs.put("d", mode=stat.S_IFDIR | 0o755).ino
    fs.put("d/f", b"x")
    await outside(os.stat, top / "d" / "f")
    del fs.things[ROOT].entries["d"]
    await told(Change(ChangeKind.GONE, ino, ROOT, "d"))
    assert await outcome(os.stat, top / "d") == errno.ENOENT


async def test_invalidating_an_unknown_inode_is_no_error(fs, top, told):
    fs.is_all_known = True
    await told(
        Change(ChangeKind.CONTENT, 4711),
        Change(ChangeKind.ATTRIBUTES, 4712),
        Change(ChangeKind.ENTRY, 4713, ROOT, "x"),
        Change(ChangeKind.GONE, 4713, 4714, "x"),
    )


async def test_invalidation_during_lookup_does_not_hang(fs, top, hub, outside, nursery):
    fs.put("slow", b"x")
    known = fs.put("known", b"x")
    await outside(os.stat, top / "known")
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)
    fs.waiting["lookup slow"] = trio.Event()
    nursery.start_soon(outside, os.stat, top / "slow")
    await fs.entered["lookup slow"].wait()

    del fs.things[ROOT].entries["known"]
    hub.publish([Change(ChangeKind.GONE, known.ino, ROOT, "known")])
    # The loop goes on: another folder's business is answered while the notification waits.
    assert (await outside(os.statvfs, top)).f_namemax == 255
    fs.waiting["lookup slow"].set()
    await tells.settled()
    with pytest.raises(FileNotFoundError):
        await outside(os.stat, top / "known")


@pytest.mark.parametrize("what", [ChangeKind.CONTENT, ChangeKind.ATTRIBUTES])
async def test_reply_during_change_is_not_cached(fs, top, hub, outside, nursery, what):
    thing = fs.put("a", b"old bytes")
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)
    # What it will answer is settled, and counted, before the change; the kernel has it after that.
    fs.waiting["answer a"] = trio.Event()
    nursery.start_soon(outside, os.stat, top / "a")
    await fs.entered["answer a"].wait()
    fs.put("a", b"the new")
    hub.publish([Change(what, thing.ino)])
    with trio.move_on_after(0.1):
        await tells.settled()  # for the first time the kernel was told in vain
    fs.waiting["answer a"].set()
    await tells.settled()
    assert (await outside(os.stat, top / "a")).st_size == 7


async def test_waiting_read_does_not_block_invalidation(fs, top, told, outside, nursery):
    ino = fs.put("slow", b"x").ino
    other = fs.put("other", b"x")
    await outside(os.stat, top / "other")
    fs.waiting["read"] = trio.Event()
    nursery.start_soon(outside, (top / "slow").read_bytes)
    await fs.entered["read"].wait()
    fs.put("other", b"longer")
    await told(Change(ChangeKind.CONTENT, ino), Change(ChangeKind.CONTENT, other.ino))
    assert (await outside(os.stat, top / "other")).st_size == 6
    fs.waiting["read"].set()


async def test_mount_closes_with_pending_invalidation(fs, mounting, hub, outcome, nursery, expect_log):
    expect_log("requests did not finish")
    known = fs.put("known")
    fs.put("slow", b"x")
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)
    fs.waiting["lookup slow"] = trio.Event()
    ends = []

    async def caller(path):
        ends.append(await outcome(os.stat, path))

    async with trio.open_nursery() as callers, mounting(fs, linger=0.1, deadline=0.1) as drive:
        await outcome(os.stat, drive.mountpoint / "known")
        callers.start_soon(caller, drive.mountpoint / "slow")
        await fs.entered["lookup slow"].wait()
        hub.publish([Change(ChangeKind.ENTRY, known.ino, ROOT, "known")])
        await trio.testing.wait_all_tasks_blocked()
    await tells.settled()
    assert ends[0] in (errno.ENOTCONN, errno.ECONNABORTED)


async def test_flush_waits_briefly_for_kernel(hub, fs, autojump_clock):
    tells = notifier.Notifier(hub, fs)
    fs.is_all_known = True
    began = trio.current_time()
    await tells.settled_soon()
    assert trio.current_time() == began
    hub.publish([Change(ChangeKind.CONTENT, 5)])
    await tells.settled_soon()  # nobody tells the kernel
    assert trio.current_time() == began + notifier.SETTLE_SECONDS


async def test_without_a_mount_news_is_dropped(fs, told):
    await told(Change(ChangeKind.CONTENT, 1), Change(ChangeKind.ENTRY, 5, 1, "x"))


async def test_uncached_inodes_are_not_invalidated(fs, hub):
    ino = fs.put("known").ino
    fs.lookups[ino] = 1
    tells = notifier.Notifier(hub, fs)
    hub.publish(
        [
            *(Change(ChangeKind.CONTENT, 4711), Change(ChangeKind.ATTRIBUTES, 4712)),
            *(Change(ChangeKind.ENTRY, 4713, 4714, "x"), Change(ChangeKind.GONE, 4713, 4714, "x")),
            *(Change(ChangeKind.ENTRY, 4713, ino, "x"), Change(ChangeKind.CONTENT, ino)),
        ]
    )
    assert list(tells._waiting.values()) == [
        Change(ChangeKind.ENTRY, 4713, ino, "x"),
        Change(ChangeKind.CONTENT, ino),
    ]


async def test_first_listing_clears_negative_dentries(fs, hub):
    folder, other = fs.put("folder").ino, fs.put("other").ino
    fs.lookups[folder] = fs.lookups[other] = 1
    fs.denied.add(folder)
    tells = notifier.Notifier(hub, fs)
    new = Change(ChangeKind.ENTRY, 4713, folder, "x", is_new=True)
    moved = Change(ChangeKind.ENTRY, 4714, other, "y")
    hub.publish([new, Change(ChangeKind.ENTRY, 4715, other, "x", is_new=True), moved])
    assert list(tells._waiting.values()) == [new, moved]


async def test_changes_that_wait_collapse(fs, hub):
    fs.is_all_known = True
    tells = notifier.Notifier(hub, fs)
    for _ in range(1000):
        hub.publish(
            [
                Change(ChangeKind.CONTENT, 5),
                Change(ChangeKind.ATTRIBUTES, 5),
                Change(ChangeKind.ENTRY, 6, 1, "x"),
            ]
        )
    hub.publish([Change(ChangeKind.GONE, 6, 1, "x"), Change(ChangeKind.ENTRY, 7, 1, "x")])
    assert list(tells._waiting.values()) == [
        Change(ChangeKind.CONTENT, 5),
        Change(ChangeKind.GONE, 6, 1, "x"),
    ]


async def test_a_refusal_of_the_kernel_is_told_once(fs, hub, caplog, expect_log, monkeypatch, nursery):
    expect_log("rejected a notification")

    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "refused")

    monkeypatch.setattr(notifier.session, "invalidate_inode", refuse)
    fs.is_all_known = True
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)
    hub.publish([Change(ChangeKind.CONTENT, ino) for ino in range(3)])
    await tells.settled()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
