"""What is written down for the next daemon, read by another that has the same file."""

import errno
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.virtual.node import FIRST
from daemon.survival import record
from daemon.survival.record import CrashRecord, RequestRecord


@pytest.fixture
def written() -> Iterator[CrashRecord]:
    made = CrashRecord.create()
    yield made
    made.close()


def again(written: CrashRecord) -> CrashRecord:
    """As another process has it."""
    return CrashRecord(os.dup(written.fd))


def test_handles_are_there_until_they_are_closed(written: CrashRecord) -> None:
    written.add_handle(1, 20, os.O_RDWR)
    written.add_handle(2, 30, -1)
    written.add_handle(FIRST + 7, FIRST + 3, 0)
    written.remove_handle(1)
    written.remove_handle(1)
    written.add_handle(3, 40, 0)
    found = again(written)
    assert sorted(found.handles()) == [(2, 30, -1), (3, 40, 0), (FIRST + 7, FIRST + 3, 0)]
    assert found.has_handle(2)
    assert not found.has_handle(1)
    assert found.highest == (FIRST, FIRST + 7)
    # It goes on with them.
    found.remove_handle(2)
    found.add_handle(9, 90, 0)
    assert sorted(fh for fh, _, _ in again(found).handles()) == [3, 9, FIRST + 7]


def test_lookups_are_counted_as_the_tree_counts_them(written: CrashRecord) -> None:
    chance, counts = random.Random(7), Counter[int]()
    for _ in range(5000):
        ino = chance.choice([chance.randrange(2, 40), chance.randrange(2, 100_000), 9_000_000])
        if chance.random() < 0.6 or not counts[ino]:
            written.count_lookup(ino)
            counts[ino] += 1
        else:
            gone = chance.randrange(1, counts[ino] + 1)
            written.count_forget(ino, gone)
            counts[ino] -= gone
    written.count_lookup(ROOT)
    written.count_lookup(FIRST + 5)
    written.count_lookup(record.INODES + 1)  # more than it has room for: not counted
    expected = {ino for ino, count in counts.items() if count}
    found = again(written)
    assert set(found.known_inodes()) == expected
    assert found.highest[0] == FIRST + 5
    inodes = Inodes()
    empty: dict[str, list[object]] = {"denied": [], "news": [], "refreshed": [], "fresh": []}
    inodes.take_over({"lookups": found.lookups(), **empty})
    assert {ino: inodes.lookups(ino) for ino in expected} == {ino: counts[ino] for ino in expected}


def test_a_count_that_went_on_and_on_never_ends(written: CrashRecord) -> None:
    for _ in range(70_000):
        written.count_lookup(5)
    written.count_forget(5, 70_000)
    assert list(written.known_inodes()) == [5]


def test_the_last_request_of_each_thread_is_kept(written: CrashRecord) -> None:
    written.add_request(RequestRecord(("mkdir", 1, "ä\udcff"), 100, (0,)))
    written.add_request(RequestRecord(("unlink", 1, "x"), 101, (7,)))
    written.add_request(RequestRecord(("rename", 1, "x" * 255, 2, "y" * 255), 100, (7, 0)))
    written.add_request(RequestRecord(("open", 5), 0, (), 3))
    assert {note.pid: note for note in again(written).requests()} == {
        100: RequestRecord(("rename", 1, "x" * 255, 2, "y" * 255), 100, (7, 0)),
        101: RequestRecord(("unlink", 1, "x"), 101, (7,)),
        0: RequestRecord(("open", 5), 0, (), 3),
    }
    for pid in range(200, 200 + record.NOTES):
        written.add_request(RequestRecord(("rmdir", pid, "x"), pid, (1,)))
    assert {note.pid for note in again(written).requests()} == set(range(200, 200 + record.NOTES))
    written.clear_requests()
    assert again(written).requests() == []


def test_what_the_drive_is(written: CrashRecord) -> None:
    written.describe(mode=0o750, fixed=[".search", ".trash"])
    written.echo_pid = 4711
    found = again(written)
    assert found.about == {"mode": 0o750, "fixed": [".search", ".trash"]}
    assert found.echo_pid == 4711


def test_a_file_of_another_kind_is_refused() -> None:
    fd = os.memfd_create("other")
    os.ftruncate(fd, record.SIZE)
    with pytest.raises(ValueError, match="format 0"):
        CrashRecord(fd)


def test_more_handles_than_there_is_room_for(written: CrashRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "HANDLES", 2)
    written.add_handle(1, 1, 0)
    written.add_handle(2, 1, 0)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENFILE):
        written.add_handle(3, 1, 0)


def test_what_virtual_files_are_read_from(written: CrashRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    content = ["da39", 0, "4711", None]
    for fh, data in ((7, content), (8, "YWI="), (9, "x" * 20_000)):
        written.add_handle(fh, 1, 0)
        written.add_content_source(fh, data)
    assert dict(again(written).content_sources()) == {7: content, 8: "YWI="}
    known = list(again(written).known_inodes())
    written.remove_handle(7)
    written.add_handle(10, 1, 0)
    written.add_content_source(10, "YWJj")
    assert dict(again(written).content_sources()) == {8: "YWI=", 10: "YWJj"}
    assert list(again(written).known_inodes()) == known
    monkeypatch.setattr(record, "CONTENTS", 2)
    written.add_content_source(11, "")
    assert dict(written.content_sources()) == {8: "YWI=", 10: "YWJj"}


def test_a_record_of_before_is_made_longer() -> None:
    before = CrashRecord.create()
    fd = os.dup(before.fd)
    before.close()
    os.ftruncate(fd, record.SIZE - 100)
    found = CrashRecord(fd)
    found.add_content_source(3, "YWI=")
    assert found.content_sources() == [(3, "YWI=")]
    found.close()
