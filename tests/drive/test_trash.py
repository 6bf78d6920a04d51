"""The trash with the tools that people have: ls, mv, rm, cat, getfattr, gio, and `cmsfs trash`."""

import json
import os

import pytest

from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control
from tests.support.mounted_drive import MountedDrive

LINK = "Links/Tide table.url"


def refused(drive: MountedDrive, script: str) -> str:
    """What a script says that must fail."""
    return str(drive.sh(f"({script}) 2>&1 && exit 1; true"))


def sync() -> None:
    """As `cmsfs sync`, without a process for it."""
    daemon = daemonctl.find_account("default")
    assert daemon is not None
    daemonctl.carry_out(daemon, control.Sync())


def trashed(drive: MountedDrive) -> list[str]:
    """What `ls` shows there, once all that was deleted has arrived."""
    found = drive.sh("ls -A .trash")
    if not found:
        sync()
        found = drive.sh("ls -A .trash")
    return sorted(found.splitlines())


@pytest.fixture
def drive(drive: MountedDrive) -> MountedDrive:
    """With an empty trash."""
    drive.sh("rm -rf .trash/*")
    return drive


def test_trash_and_restore_of_each_kind(drive: MountedDrive) -> None:
    assert ".trash" not in drive.sh("ls -A")
    _links(drive)
    _files_and_folders(drive)
    _protected(drive)
    _whole_folders(drive)
    assert drive.sh("find . -name '.Trash*'") == ""


def _links(drive: MountedDrive) -> None:
    """What the specification says of restoring a web link."""
    was = drive.sh(f"getfattr --only-values -n user.cms.id '{LINK}'")
    drive.sh(f"rm '{LINK}'")
    assert trashed(drive) == ["Tide table.url"]
    assert "URL=https://tides.example.com/harbour" in drive.sh("cat '.trash/Tide table.url'")
    told = drive.sh("getfattr -d '.trash/Tide table.url'")
    for line in (
        'original_path="/Links/Tide table.url"',
        'deleted_by="Ada Example <ada@example.com>"',
        'url="https://tides.example.com/harbour"',
        'trashed_at="20',
        'purged_at="20',
        f'id="{was}"',
    ):
        assert f"user.cms.{line}" in told
    # In the trash, its folder there: back under its own name, then under a new one.
    drive.sh("mv '.trash/Tide table.url' Links/")
    assert drive.sh(f"getfattr --only-values -n user.cms.id '{LINK}'") == was
    drive.sh(f"rm '{LINK}'; mv '.trash/Tide table.url' Links/Tides.url")
    assert drive.sh("ls Links").splitlines() == ["Ferry timetable.url", "Tides.url"]
    # One of the name is there already: EEXIST.
    drive.sh("rm Links/Tides.url; mv 'Links/Ferry timetable.url' Links/Tides.url")
    sync()
    with pytest.raises(FileExistsError):
        (drive.top / ".trash/Tides.url").rename(drive.top / "Links/Tides.url")
    # Elsewhere while its folder is there: restored, and moved.
    drive.sh("mkdir Elsewhere; mv .trash/Tides.url Elsewhere/")
    assert drive.sh("ls Elsewhere") == "Tides.url\n"
    # Its folder gone: the one that it is moved to counts.
    drive.sh("mkdir Gone; mv Elsewhere/Tides.url Gone/")
    sync()
    drive.sh("rm Gone/Tides.url; ls .trash > /dev/null; rmdir Gone; mv .trash/Tides.url Elsewhere/Back.url")
    assert drive.sh("ls Elsewhere") == "Back.url\n"
    assert trashed(drive) == ["Gone"]
    # Not in the trash any more: ENOENT.
    assert "No such file" in refused(drive, "mv .trash/Tides.url Links/")
    sync()
    assert drive.cmsfs("find", "Back", "--type", "link").stdout.count("/Elsewhere/Back") == 1
    drive.sh("rmdir .trash/Gone")
    assert trashed(drive) == []


def _files_and_folders(drive: MountedDrive) -> None:
    drive.sh("mkdir -p f/deep; echo one > f/a.txt; echo two > f/deep/b.txt")
    sync()
    was = drive.sh("getfattr --only-values -n user.cms.id f/a.txt")
    drive.sh("rm f/a.txt")
    # What is cached here is read in the trash, too.
    assert drive.sh("cat .trash/a.txt") == "one\n"
    assert drive.sh("stat -c %A .trash/a.txt") == "-r--------\n"
    drive.sh("mv .trash/a.txt f/deep/c.txt")
    assert drive.sh("cat f/deep/c.txt; getfattr --only-values -n user.cms.id f/deep/c.txt") == f"one\n{was}"
    # Two of one name.
    for text in ("x", "y"):
        drive.sh(f"echo {text} > f/same")
        sync()
        drive.sh("rm f/same; ls .trash")
    names = trashed(drive)
    assert len(names) == 2
    assert "same" in names
    drive.sh("rm -f .trash/same")
    assert trashed(drive) == [name for name in names if name != "same"]
    drive.sh("rm -f .trash/*")
    assert trashed(drive) == []
    assert "Operation not permitted" in refused(drive, "touch .trash/new")
    assert "Operation not permitted" in refused(drive, "mkdir .trash/new")
    drive.sh("rm -r f")
    drive.sh("rm -rf .trash/f .trash/*")


def _protected(drive: MountedDrive) -> None:
    """What a hold or a retention protects goes into the trash, and not out of it for good."""
    kept = {"Projects/Harbour Bridge/Permits": "Checklist.txt", "Reports/2025": "Year 2025.md"}
    for folder, name in kept.items():
        drive.sh(f"rm '{folder}/{name}'")
        assert trashed(drive) == [name]
        assert "Operation not permitted" in refused(drive, f"rm -f '.trash/{name}'")
        assert trashed(drive) == [name]
        drive.sh(f"mv '.trash/{name}' '{folder}/'")
        assert trashed(drive) == []
    log = drive.cmsfs("trash", "purge", "nothing", "--yes", check=False)
    assert (log.returncode, log.stderr.count("\n")) == (1, 1)
    drive.sh("mv 'Projects/Harbour Bridge/Permits' .trash/")
    assert "Operation not permitted" in refused(drive, "rm -rf .trash/Permits")
    told = drive.cmsfs("trash", "empty", "--yes", check=False)
    assert told.returncode == 1
    assert "A legal hold protects this" in told.stderr
    drive.sh("mv .trash/Permits 'Projects/Harbour Bridge/'")
    assert "Checklist.txt" in drive.sh("ls 'Projects/Harbour Bridge/Permits'")


def _whole_folders(drive: MountedDrive) -> None:
    drive.sh("mkdir -p w/x/y; for n in $(seq 5); do echo $n > w/x/y/$n; done")
    # Nothing of it was sent yet.
    drive.sh("mv w .trash/")
    assert trashed(drive) == ["w"]
    assert drive.sh("ls -A .trash/w") == ""
    drive.sh("mv .trash/w again")
    assert drive.sh("cat again/x/y/5; ls again/x/y | wc -l") == "5\n5\n"
    sync()
    drive.sh("mv again .trash/again; rm -r .trash/again")
    assert trashed(drive) == []


def test_cli_and_desktop_share_the_trash(drive: MountedDrive) -> None:
    _commands(drive)
    _desktop(drive)


def _commands(drive: MountedDrive) -> None:
    drive.sh("mkdir c; echo one > c/a.txt; echo two > c/b.txt")
    sync()
    drive.sh("rm c/*; ls .trash > /dev/null")
    found = json.loads(drive.cmsfs("trash", "list", "--json").stdout)
    assert {one["original_path"] for one in found} == {"/c/a.txt", "/c/b.txt"}
    assert "/c/a.txt" in drive.cmsfs("trash", "list").stdout
    assert drive.cmsfs("trash", "restore", "/c/a.txt").stdout == "Restored /c/a.txt.\n"
    assert drive.sh("cat c/a.txt") == "one\n"
    told = drive.cmsfs("trash", "restore", "b.txt", "--name", "a.txt", check=False)
    assert "its name is taken there" in told.stderr
    drive.cmsfs("trash", "restore", "b.txt", "--to", "/Personal", "--name", "moved.txt")
    assert drive.sh("cat Personal/moved.txt") == "two\n"
    drive.sh("rm c/a.txt Personal/moved.txt; ls .trash > /dev/null")
    asked = drive.cmsfs("trash", "purge", "a.txt", check=False)
    assert asked.returncode != 0  # nobody answered the question
    assert trashed(drive) == ["a.txt", "moved.txt"]
    assert "a.txt was permanently deleted" in drive.cmsfs("trash", "purge", "a.txt", "--yes").stdout
    assert "permanently deleted" in drive.cmsfs("trash", "empty", "--yes").stdout
    assert drive.cmsfs("trash", "list").stdout == ""
    assert trashed(drive) == []


def _desktop(drive: MountedDrive) -> None:
    top = f".Trash-{os.getuid()}"
    drive.sh("mkdir -p g/h; echo thrown > g/t.txt; echo deep > g/h/d.txt")
    drive.sh("gio trash g/t.txt; gio trash g/h")
    assert drive.sh("ls g") == ""
    assert trashed(drive) == ["h", "t.txt"]
    assert drive.sh(f"ls {top}/files").split() == ["h", "t.txt"]
    assert "Path=g/t.txt" in drive.sh(f"cat {top}/info/t.txt.trashinfo")
    assert ".Trash" not in drive.sh("ls -A")
    # As a file manager restores: out of its folder, then the note.
    drive.sh(f"mv {top}/files/h g/h; rm -f {top}/info/h.trashinfo")
    assert drive.sh("cat g/h/d.txt") == "deep\n"
    # As a file manager empties: aside, then away.  The service's trash keeps it.
    drive.sh(f"mv {top}/files/t.txt {top}/expunged/123; rm -f {top}/info/t.txt.trashinfo {top}/expunged/123")
    assert drive.sh(f"ls {top}/files {top}/info | grep t.txt || true") == ""
    assert trashed(drive) == ["t.txt"]
    sync()
    found = drive.cmsfs("find", "Trash", "--json").stdout
    assert ".Trash" not in found
    drive.stop()
    drive.start()
    drive.sh("mv .trash/t.txt g/")
    assert drive.sh("cat g/t.txt") == "thrown\n"
