"""What lives on this machine only: files, folders and symbolic links that the service never hears of."""

import errno
import os
from collections.abc import Awaitable
from typing import Any

import pytest

from cmsfs.config import local_patterns
from cmsfs.replica import item_details, tree
from cmsfs.replica.item_details import Described
from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics import local_files
from cmsfs.vfs.heuristics.local_files import LocalFiles
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive

NAMES = LocalFiles(local_patterns.DEFAULT)


@pytest.mark.parametrize(
    "name",
    [
        *(".~lock.report.odt#", "~$report.docx", "Database.laccdb", ".#notes.org", "#notes.org#"),
        *(".notes.txt.swp", ".notes.txt.swo", ".notes.txt.swpx", "4913", ".main.c.kate-swp", "notes.txt~"),
        *("lu12345abc.tmp", "~WRD0001.tmp", "5C3D2000.TMP", ".goutputstream-K3X2Y1", "film.mkv.part"),
        *("setup.exe.crdownload", ".Trash-1000", ".fuse_hidden0001", ".nfs00012", ".DS_Store", "thumbs.db"),
    ],
)
def test_names_of_programs_are_local(name: str) -> None:
    assert NAMES.matches(name)


@pytest.mark.parametrize(
    "name",
    [
        *("report.odt", "Cargo.lock", "yarn.lock", "package-lock.json", "sedatives", ".bashrc.backup"),
        *(
            "business-journal",
            "data.db-wal",
            "a.tmpl",
            "tmp",
            "49130",
            "#1 hit.mp3",
            ".swp",
            "party",
            "~",
            "C#",
        ),
        *(".config", ".git", ".trashcan", "Thumbs.dbx", "partial", "x.sw", "f.bak"),
    ],
)
def test_names_of_documents_are_not(name: str) -> None:
    assert not NAMES.matches(name) or name == "~"


def test_no_patterns_match_nothing() -> None:
    assert not any(LocalFiles(()).matches(name) for name in ("", "a", "x.tmp", "\n"))


async def node(drive: Drive, name: str, parent: int = ROOT) -> Any:
    return tree.find(drive.db, (await drive.fs.lookup(parent, name)).ino)


async def test_local_file_is_never_sent(drive: Drive) -> None:
    ino = await drive.write_file(".~lock.f.odt#", b"me")
    assert await drive.read_file(".~lock.f.odt#") == b"me"
    assert drive.names() == [".~lock.f.odt#"]
    assert await drive.fs.getxattr(ino, "user.cms.sync") == b"local"
    assert drive.ops() == []
    await drive.fs.unlink(ROOT, ".~lock.f.odt#")
    assert (drive.names(), drive.ops()) == ([], [])


async def test_all_in_a_local_folder_is_local(drive: Drive) -> None:
    sub = (await drive.fs.mkdir(ROOT, "sub", 0o755)).ino
    trash = (await drive.fs.mkdir(sub, ".Trash-1000", 0o700)).ino
    files = (await drive.fs.mkdir(trash, "files", 0o700)).ino
    await drive.write_file("thrown away", b"x", parent=files)
    assert drive.ops() == [("mkdir", "/sub")]
    await drive.fs.rename(files, "thrown away", sub, "back", 0)
    assert drive.ops() == [("mkdir", "/sub"), ("upload", "/sub/back")]


async def test_renamed_local_folder_is_sent(drive: Drive) -> None:
    folder = (await drive.fs.mkdir(ROOT, "unpacked.tmp", 0o755)).ino
    inner = (await drive.fs.mkdir(folder, "inner", 0o755)).ino
    await drive.write_file("a", b"", parent=inner)
    await drive.write_file("a~", b"", parent=inner)
    await drive.fs.symlink(inner, "link", b"a")
    assert drive.ops() == []
    await drive.fs.rename(ROOT, "unpacked.tmp", ROOT, "unpacked", 0)
    assert drive.ops() == [
        ("mkdir", "/unpacked"),
        ("mkdir", "/unpacked/inner"),
        ("upload", "/unpacked/inner/a"),
    ]


async def traced(drive: Drive, call: Awaitable[None]) -> list[str]:
    """Return the statements of a call."""
    found: list[str] = []
    await drive.db.write(lambda conn: conn.set_trace_callback(found.append))
    await call
    await drive.db.write(lambda conn: conn.set_trace_callback(None))
    return found


async def test_a_temporary_file_is_renamed_with_three_reads_of_rows(drive: Drive) -> None:
    await drive.write_file("f.tmp", b"x")
    statements = await traced(drive, drive.fs.rename(ROOT, "f.tmp", ROOT, "f", 0))
    # The file, the name that it gets, and the folder.
    rows = [one for one in statements if "base_sha1" in one and " FROM node WHERE" in one]
    assert len(rows) == 3
    assert not any("RECURSIVE" in one or "SELECT description" in one for one in statements)
    assert drive.ops() == [("upload", "/f")]


async def test_no_operation_is_tried_for_what_is_written_to_a_local_file(drive: Drive) -> None:
    opened, _ = await drive.fs.create(ROOT, "f.tmp", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x")
    statements = await traced(drive, drive.fs.fsync(opened.fh))
    assert any("UPDATE draft" in one for one in statements)
    assert not any("INTO op" in one or "UPDATE op" in one for one in statements)
    await drive.fs.release(opened.fh)


@pytest.mark.parametrize("stored", ["by a program", "described", "wished"])
async def test_what_is_said_of_a_local_file_is_sent_once_it_is_not(drive: Drive, stored: str) -> None:
    ino = await drive.write_file("f.tmp", b"x")
    if stored == "by a program":
        await drive.fs.setxattr(ino, "user.xdg.comment", b"what it is")
    elif stored == "described":
        await drive.db.write(lambda conn: item_details.describe(conn, ino, Described("what it is")))
    else:
        await drive.db.write(lambda conn: item_details.request_value(conn, ino, "scope.plan.state", "new"))
    await drive.fs.rename(ROOT, "f.tmp", ROOT, "f", 0)
    assert drive.ops() == [("upload", "/f"), ("describe", "/f")]


async def test_unsent_file_becomes_local_with_its_name(drive: Drive) -> None:
    await drive.write_file("f", b"x")
    await drive.fs.rename(ROOT, "f", ROOT, "f.tmp", 0)
    assert drive.ops() == []
    await drive.fs.rename(ROOT, "f.tmp", ROOT, "f", 0)
    assert drive.ops() == [("upload", "/f")]


async def test_remote_item_may_take_local_name(drive: Drive) -> None:
    await drive.remote_file(1, "f", b"x")
    await drive.fs.rename(ROOT, "f", ROOT, "f.tmp", 0)
    assert drive.ops() == [("move", "/f.tmp")]
    assert not (await node(drive, "f.tmp")).local


async def test_what_is_being_sent_does_not_become_local(drive: Drive) -> None:
    await drive.write_file("f", b"x")
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
    await drive.fs.rename(ROOT, "f", ROOT, "f.tmp", 0)
    assert not (await node(drive, "f.tmp")).local


@pytest.mark.parametrize("flags", [0, 1, 2])
async def test_remote_item_into_local_folder_is_exdev(drive: Drive, flags: int) -> None:
    await drive.remote_file(1, "f", b"x")
    folder = (await drive.fs.mkdir(ROOT, "cache.tmp", 0o755)).ino
    await drive.write_file("f", b"", parent=folder)
    target = "f" if flags == 2 else "g"
    with pytest.raises(OSError) as caught:
        await drive.fs.rename(ROOT, "f", folder, target, flags)
    assert caught.value.errno == errno.EXDEV
    with pytest.raises(OSError) as caught:
        await drive.fs.rename(folder, "f", ROOT, "f", 2)
    assert caught.value.errno == errno.EXDEV
    assert drive.ops() == []


async def test_a_symlink_is_kept_here(drive: Drive) -> None:
    made = await drive.fs.symlink(ROOT, "link", b"../not utf-8 \xff")
    assert await drive.fs.readlink(made.ino) == b"../not utf-8 \xff"
    assert (oct(made.mode), made.size) == (oct(0o120777), len(b"../not utf-8 \xff"))
    await drive.fs.rename(ROOT, "link", ROOT, "other", 0)
    assert await drive.fs.readlink(made.ino) == b"../not utf-8 \xff"
    assert (drive.names(), drive.ops()) == (["other"], [])
    await drive.fs.unlink(ROOT, "other")
    assert drive.names() == []
    await drive.remote_file(1, "f", b"")
    with pytest.raises(OSError) as caught:
        await drive.fs.readlink((await drive.fs.lookup(ROOT, "f")).ino)
    assert caught.value.errno == errno.EINVAL


async def test_symlink_and_file_replace_each_other(
    drive: Drive,
) -> None:
    await drive.remote_file(1, "f", b"")
    await drive.fs.symlink(ROOT, "link", b"x")
    await drive.fs.rename(ROOT, "link", ROOT, "f", 0)
    assert drive.ops() == [("trash", "(f)")]
    await drive.write_file("new", b"new")
    await drive.fs.rename(ROOT, "new", ROOT, "f", 0)
    assert sorted(drive.ops()) == [("trash", "(f)"), ("upload", "/f")]


async def test_remote_item_wins_local_name(drive: Drive) -> None:
    await drive.fs.symlink(ROOT, "docs", b"x")
    await drive.write_file("plan.tmp", b"ours")
    await drive.remote_file(1, "docs", b"theirs")
    await drive.remote_file(2, "plan.tmp", b"theirs")
    assert [name.partition(" (conflicted copy")[0] for name in drive.names()] == [
        "docs",
        "docs",
        "plan",
        "plan.tmp",
    ]
    assert await drive.read_file("docs") == b"theirs"
    assert await drive.read_file("plan.tmp") == b"theirs"
    assert drive.ops() == []


async def test_patterns_that_changed_let_files_go(drive: Drive) -> None:
    await drive.write_file("f.tmp", b"x")
    await drive.write_file("g~", b"x")
    await drive.fs.symlink(ROOT, "link", b"x")
    surfaced = await drive.db.write(lambda conn: local_files.reapply_patterns(conn, LocalFiles(["*~"])))
    assert surfaced == 1
    assert drive.ops() == [("upload", "/f.tmp")]


class Days:
    """The wall clock of the machine, in days."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.day = 20_000.5
        monkeypatch.setattr(clock, "time", lambda: self.day * 86400)


async def keep(node: Any) -> bool:
    return True


async def test_stale_local_files_go_and_everything_else_stays(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = Days(monkeypatch)
    old = {}
    for name in ("stale.tmp", "open.tmp", "touched.tmp", "kept.tmp", "document"):
        old[name] = await drive.write_file(name, b"x")
    await drive.fs.mkdir(ROOT, "stale folder.tmp", 0o755)
    await drive.fs.symlink(ROOT, "link", b"x")
    assert await drive.fs.tidy(days=2, keep=keep) == []
    days.day += 1
    assert await drive.fs.tidy(days=2, keep=keep) == []
    fresh = await drive.write_file("fresh.tmp", b"x")
    await drive.fs.setattr(old["touched.tmp"], SetAttr(mtime_ns=7))
    opened = await drive.fs.open(old["open.tmp"], os.O_RDONLY)
    days.day += 1

    async def keep_most(node: Any) -> bool:
        return bool(node.name != "kept.tmp")

    changes = await drive.fs.tidy(days=2, keep=keep_most)
    assert sorted(change.name for change in changes) == ["stale folder.tmp", "stale.tmp"]
    assert drive.names() == ["document", "fresh.tmp", "kept.tmp", "link", "open.tmp", "touched.tmp"]
    assert tree.find(drive.db, fresh).parent == ROOT
    await drive.fs.release(opened.fh)


async def test_clock_correction_ages_no_file(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.day -= 60
    ino = await drive.write_file("work.tmp", b"x")
    await drive.db.write(
        lambda conn: conn.execute("UPDATE node SET mtime_ns = ?1, ctime_ns = ?1", (int(days.day * 864e11),))
    )
    assert await drive.fs.tidy(days=30, keep=keep) == []
    days.day += 60
    assert await drive.fs.tidy(days=30, keep=keep) == []
    days.day += 365
    for _ in range(28):
        assert await drive.fs.tidy(days=30, keep=keep) == []
        days.day += 1
    assert tree.find(drive.db, ino).parent == ROOT
    assert await drive.fs.tidy(days=30, keep=keep)


async def test_programs_attributes_are_kept_and_listed(drive: Drive) -> None:
    ino = await drive.write_file("f", b"x")
    await drive.fs.setxattr(ino, "user.xdg.origin.url", b"https://example.com")
    await drive.fs.setxattr(ino, "user.empty", b"")
    await drive.fs.setxattr(ino, "user.empty", b"\0\xff")
    assert await drive.fs.listxattr(ino) == ["user.empty", "user.xdg.origin.url"]
    assert await drive.fs.getxattr(ino, "user.empty") == b"\0\xff"
    await drive.fs.rename(ROOT, "f", ROOT, "g", 0)
    await drive.fs.removexattr(ino, "user.empty")
    assert await drive.fs.listxattr(ino) == ["user.xdg.origin.url"]
    for call, number in (
        (drive.fs.removexattr(ino, "user.empty"), errno.ENODATA),
        (drive.fs.getxattr(ino, "user.empty"), errno.ENODATA),
        (drive.fs.setxattr(ino, "user.big", b"x" * (64 * 1024 + 1)), errno.E2BIG),
        (drive.fs.setxattr(ino, "user.big", b"x" * 64 * 1024), errno.ENOSPC),
        (drive.fs.setxattr(ino, "user.cms.etag", b""), errno.ENOTSUP),
    ):
        with pytest.raises(OSError) as caught:
            await call
        assert caught.value.errno == number
    assert await drive.fs.listxattr(ino) == ["user.xdg.origin.url"]
