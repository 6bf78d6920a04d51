"""Many files spoiled in a short time are noticed, and the daily work of programs is not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.heuristics.callers import CallingProgram
from cmsfs.vfs.heuristics.mass_changes import WINDOW_SECONDS, MassChange, MassChanges, is_strange, is_tool

LIMIT = 10


def _file(ino: int, name: str = "", *, remote: str | None = "1") -> Node:
    name = name or f"{ino}.txt"
    return Node(
        ino, 1, name, NodeKind.FILE, 9, 0, 0, 0o644, "x", None, remote, "1", "1", "x", "0", name, 1, 0
    )


class Watched(MassChanges):
    def __init__(self, *ignored: str) -> None:
        super().__init__(LIMIT, 5 * LIMIT, ignored, who=lambda: CallingProgram(7, self.program))
        self.program = "evil.py"
        self.heard: list[MassChange] = []
        self.alarm = self.heard.append


def _encrypt(watched: MassChanges, count: int) -> None:
    for ino in range(count):
        watched.opened(ino)
        watched.encrypted(ino)


def _rename(watched: MassChanges, count: int, suffix: str = ".locked") -> None:
    for ino in range(count):
        watched.renamed(_file(ino), f"{ino}.txt{suffix}")


def _replace(watched: MassChanges, count: int, suffix: str = ".locked") -> None:
    for ino in range(count):
        watched.made(1, f"{ino}.txt{suffix}", count + ino)
        watched.removed(_file(ino))


def _delete(watched: MassChanges, count: int) -> None:
    for ino in range(count):
        watched.removed(_file(ino))


SPOILED: dict[str, Callable[[MassChanges, int], None]] = {
    "encrypted": _encrypt,
    "renamed": _rename,
    "copied and deleted": _replace,
}


@pytest.mark.parametrize("way", SPOILED)
def test_many_spoiled_files_are_noticed(way: str) -> None:
    watched = Watched()
    SPOILED[way](watched, LIMIT - 1)
    assert not watched.heard
    SPOILED[way](watched, LIMIT)
    assert watched.heard[0].spoiled == LIMIT
    ((caller, files),) = watched.heard[0].programs
    assert (caller.name, files) == ("evil.py", LIMIT)
    assert watched.heard[0].suffix == ("" if way == "encrypted" else "locked")


def test_many_deletions_are_noticed() -> None:
    watched = Watched()
    _delete(watched, 5 * LIMIT)
    assert (watched.heard[0].deleted, watched.heard[0].spoiled) == (5 * LIMIT, 0)


def test_a_file_counts_once() -> None:
    watched = Watched()
    for _ in range(LIMIT):
        _encrypt(watched, 3)
        _rename(watched, 5)
    assert not watched.heard


def test_what_programs_do_every_day_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched("my-backup")
    _rename(watched, 5 * LIMIT, ".bak")
    _rename(watched, 5 * LIMIT, ".md")
    _replace(watched, 4 * LIMIT, ".gz")
    for ino in range(100 * LIMIT):
        watched.removed(_file(ino, remote=None))  # the service does not have it
    # A few now and then are not many at once.
    now = clock.monotonic()
    for ino in range(10 * LIMIT):
        monkeypatch.setattr(clock, "monotonic", lambda at=now + ino * WINDOW_SECONDS / 5: at)
        watched.opened(ino)
        watched.encrypted(ino)
    monkeypatch.setattr(clock, "monotonic", lambda: now + 1e6)
    for name in ("git", "npm install", "cc1plus", "my-backup"):
        watched.program = name
        _delete(watched, 100 * LIMIT)
    assert not watched.heard
    # Nobody's work is to encrypt hundreds of files.
    watched.program = "git"
    _encrypt(watched, 10 * LIMIT)
    assert watched.heard


def test_who_was_allowed_goes_on() -> None:
    watched = Watched()
    _encrypt(watched, LIMIT)
    watched.allow(["evil.py"], 60)
    watched.heard.clear()
    _encrypt(watched, 2 * LIMIT)
    _rename(watched, 2 * LIMIT)
    assert not watched.heard


def test_programs_and_suffixes_are_known() -> None:
    assert all(map(is_tool, ("git", "git-remote-http", "rsync", "npm ci", "tar", "cc1plus", "apt-get")))
    assert not any(map(is_tool, ("python3", "sh", "gopher", "assassin", "legit", "openssl", "rm", "")))
    assert all(map(is_strange, ("locked", "crypt", "WNCRY", "x7f3a")))
    assert not any(map(is_strange, ("txt", "JPG", "bak", "gz", "enc", "", "odt", "txt~", "a word", "1")))


def test_the_caller_is_known_by_its_name() -> None:
    callers.CALLER.set(os.getpid())
    assert callers.current() == CallingProgram(os.getpid(), Path("/proc/self/comm").read_text().strip())
    callers.CALLER.set(2**22 + 1)
    assert callers.current().name == ""
