"""What others change at a service, as programs on the mount see it: names, bytes, open files, watchers.

The service is a process of its own, the feed its stream of events; nobody asks the drive to look.
"""

import os
from pathlib import Path

import pytest

from tests.support.inotify import IN_DELETE_SELF, Trace, Watch
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until


def test_remote_changes_replace_kernel_caches(stopped: MountedDrive, api: Api) -> None:
    top = stopped.top
    # Open windows follow: the same is heard as of a folder of this machine.
    root = Trace(top)
    # What comes while the drive lists the folder for the first time is no change of it.
    list(top.iterdir())
    folder = api.folder("box")
    assert root.until("CREATE/", "box") == [("CREATE/", "box")]
    root.close()
    watch = Trace(top, top / "box")
    number = api.file("f", b"one", folder)
    assert watch.until("CLOSE_WRITE", "box/f") == [("CREATE", "box/f"), ("CLOSE_WRITE", "box/f")]
    assert (top / "box" / "f").read_bytes() == b"one"
    assert not (top / "box" / "g").exists()
    api.write(number, b"three")
    until(lambda: (top / "box" / "f").stat().st_size == 5)
    assert (top / "box" / "f").read_bytes() == b"three"
    assert watch.until("CLOSE_WRITE", "box/f") == [("MODIFY", "box/f"), ("CLOSE_WRITE", "box/f")]
    api.update("file", number, name="g")
    until((top / "box" / "g").exists)
    assert [path.name for path in (top / "box").iterdir()] == ["g"]
    assert watch.until("MOVED_TO", "box/g") == [("MOVED_FROM", "box/f"), ("MOVED_TO", "box/g")]
    api.update("folder", folder, name="crate")
    until(lambda: (top / "crate" / "g").exists() and not (top / "box").exists())
    assert watch.until("MOVED_TO/", "crate") == [("MOVED_FROM/", "box"), ("MOVED_TO/", "crate")]
    api.delete("folder", folder)
    until(lambda: not (top / "crate").exists())
    assert watch.until("DELETE/", "crate") == [("DELETE/", "crate")]
    watch.close()
    assert "upload" not in stopped.status()["requests"]


def fresh(path: Path) -> bytes:
    """The bytes of a file as the drive has them, whatever pages the kernel has."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.readall()


def test_renamed_or_copied_bytes_are_not_refetched(stopped: MountedDrive, api: Api) -> None:
    top, data = stopped.top, os.urandom(3_000_000)
    folder = api.folder("box")
    number = api.file("f", data)
    until((top / "f").exists)
    # All there is, so that nothing is left to be fetched ahead.
    for path in top.rglob("*"):
        assert path.is_dir() or path.read_bytes() is not None
    assert fresh(top / "f") == data
    before = stopped.status()
    assert before["requests"]["read"] >= 1
    api.update("file", number, name="renamed")
    until((top / "renamed").exists)
    assert fresh(top / "renamed") == data
    api.update("file", number, parent={"id": folder})
    until((top / "box" / "renamed").exists)
    assert fresh(top / "box" / "renamed") == data
    api.copy(number, "copy")
    api.file("same bytes", data)
    for name in ("copy", "same bytes"):
        until((top / name).exists)
        assert fresh(top / name) == data
    after = stopped.status()
    assert after["requests"]["read"] == before["requests"]["read"]
    # And it is on this disk once.
    assert after["cache"]["used_bytes"] == before["cache"]["used_bytes"]


def test_open_file_stays_on_its_version(stopped: MountedDrive, api: Api) -> None:
    path = stopped.top / "f"
    old_bytes, new_bytes = b"old bytes" * 100_000, b"NEW BYTES" * 100_001
    number = api.file("f", old_bytes)
    until(path.exists)
    with path.open("rb", buffering=0) as old:
        assert old.read(9) == b"old bytes"
        api.write(number, new_bytes)
        until(lambda: path.stat().st_size == len(new_bytes))
        assert path.read_bytes() == new_bytes
        assert old.readall() == old_bytes[9:]
        api.delete("file", number)
        until(lambda: not path.exists())
        old.seek(500_000)
        assert old.read(9) == old_bytes[500_000:500_009]


def test_watchers_see_remote_deletion(stopped: MountedDrive, api: Api) -> None:
    """Who watches the folder around it is not: the kernel has no word for that."""
    top = stopped.top
    folder = api.folder("box")
    number = api.file("f", b"x", folder)
    until((top / "box" / "f").exists)
    # A name that the kernel is told to look up again is none that it could tell watchers of.
    stopped.cmsfs("sync")
    file, box = Watch(top / "box" / "f", IN_DELETE_SELF), Watch(top / "box", IN_DELETE_SELF)
    try:
        api.delete("file", number)
        assert file.next() == (IN_DELETE_SELF, "")
        api.delete("folder", folder)
        assert box.next() == (IN_DELETE_SELF, "")
    finally:
        file.close()
        box.close()


def test_restored_folder_works_as_cwd(stopped: MountedDrive, api: Api) -> None:
    folder = api.folder("box")
    api.file("f", b"one", folder)
    place = stopped.top / "box"
    until((place / "f").exists)
    stands = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        api.delete("folder", folder)
        until(lambda: not place.exists())
        api.restore("folder", folder)
        until((place / "f").exists)
        assert [path.name for path in place.iterdir()] == ["f"]
        assert (place / "f").read_bytes() == b"one"
    finally:
        os.close(stands)


def test_a_full_comparison_is_there_for_the_asking(stopped: MountedDrive, api: Api) -> None:
    api.file("f", b"x")
    # Of a tree that is not listed to its end nothing can be said.
    until(lambda: stopped.status()["listing"]["state"] == "complete")
    done = stopped.cmsfs("sync", "--full")
    assert "Everything" in done.stdout
    assert "f" in [path.name for path in stopped.top.iterdir()]
    assert stopped.status()["requests"]["sweep"] >= 1


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_colleague_cannot_take_names(stopped: MountedDrive, api: Api) -> None:
    top: Path = stopped.top
    api.file("diary.txt", b"mine", api.folder("Private"))
    api.file("note.md", b"my note")
    api.file("plan.md", b"my plan")
    until(
        lambda: (
            (top / "note.md").exists()
            and (top / "plan.md").exists()
            and (top / "Private" / "diary.txt").exists()
        )
    )
    before = names(top)
    cy = api.colleague()
    taken = ["Private", "note.md", ".trash", f".Trash-{os.getuid()}", ".git", "Team"]
    theirs = {name: cy.folder(name) for name in taken}
    for number in theirs.values():
        cy.share("folder", number, api.user)
    shelf = top / "Shared with me"
    until(lambda: shelf.exists() and len(names(shelf)) == len(taken))
    assert names(top) == sorted([*before, "Shared with me"])
    assert [name for name in names(shelf) if name.startswith(".")] == []
    # One's own is read and written under its name; what is deleted is in one's own trash.
    assert (top / "note.md").read_bytes() == b"my note"
    (top / "Private" / "diary.txt").write_bytes(b"still mine")
    stopped.sync()
    assert (shelf / "Private").is_dir()
    assert names(shelf / "Private") == []
    (top / "note.md").rename(top / f".Trash-{os.getuid()}" / "files" / "note.md")
    trashes = [name for name in names(shelf) if "rash" in name]
    assert len(trashes) == 2
    assert [names(shelf / name) for name in trashes] == [[], []]
    # Nothing is put among what is shared; a colleague's rename to one's own name changes nothing.
    with pytest.raises(PermissionError):
        (shelf / "new").mkdir()
    with pytest.raises(PermissionError):
        (top / "Private").rename(shelf / "Mine")
    cy.update("folder", theirs["Team"], name="plan.md")
    until(lambda: "Team" not in names(shelf))
    assert (top / "plan.md").read_bytes() == b"my plan"
    assert (top / "Private" / "diary.txt").read_bytes() == b"still mine"
    (shelf / "Private" / "for Cy").write_bytes(b"his")
    stopped.sync()
    cy.close()
