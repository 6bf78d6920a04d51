"""Saving keeps the file: whatever a program does to save, the item gets one more version and nothing else."""

import os
from typing import Any

import pytest

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Connection
from cmsfs.vfs.heuristics import save_patterns
from tests.vfs.conftest import Drive


async def overwrite(drive: Drive, name: str, data: bytes) -> None:
    found = await drive.fs.lookup(ROOT, name)
    opened = await drive.fs.open(found.ino, os.O_WRONLY | os.O_TRUNC)
    await drive.fs.write(opened.fh, 0, data)
    await drive.fs.release(opened.fh)


async def rename(drive: Drive, old: str, new: str, flags: int = 0) -> None:
    await drive.fs.rename(ROOT, old, ROOT, new, flags)


async def unlink(drive: Drive, name: str) -> None:
    await drive.fs.unlink(ROOT, name)


async def who(drive: Drive, name: str) -> Any:
    found = await drive.fs.lookup(ROOT, name)
    return tree.find(drive.db, found.ino)


async def in_place(drive: Drive) -> None:
    await overwrite(drive, "f", b"new")


async def rename_over(drive: Drive) -> None:
    await drive.write_file("new file", b"new")
    await rename(drive, "new file", "f")


async def rename_over_from_a_local_name(drive: Drive) -> None:
    await drive.write_file(".goutputstream-X1Y2Z3", b"new")
    await rename(drive, ".goutputstream-X1Y2Z3", "f")


async def away_and_anew(drive: Drive) -> None:
    await rename(drive, "f", "f~")
    await drive.write_file("f", b"new")
    await unlink(drive, "f~")


async def away_and_anew_with_the_backup_left(drive: Drive) -> None:
    await rename(drive, "f", "f~")
    await drive.write_file("f", b"new")


async def away_under_any_name_and_anew(drive: Drive) -> None:
    await rename(drive, "f", "9A7B10")
    await drive.write_file("f", b"new")
    await unlink(drive, "9A7B10")


async def away_and_a_new_one_renamed_there(drive: Drive) -> None:
    await drive.write_file("~WRD0001.tmp", b"new")
    await rename(drive, "f", "~WRL0002.tmp")
    await rename(drive, "~WRD0001.tmp", "f")
    await unlink(drive, "~WRL0002.tmp")


async def away_and_a_new_one_of_any_name_renamed_there(drive: Drive) -> None:
    await drive.write_file("5C3D2000", b"new")
    await rename(drive, "f", "A1B2C3D4.tmp")
    await rename(drive, "5C3D2000", "f")
    await unlink(drive, "A1B2C3D4.tmp")


async def deleted_and_anew(drive: Drive) -> None:
    await unlink(drive, "f")
    await drive.write_file("f", b"new")


async def deleted_and_a_new_one_renamed_there(drive: Drive) -> None:
    await drive.write_file(".f.new", b"new")
    await unlink(drive, "f")
    await rename(drive, ".f.new", "f")


async def exchanged_and_the_old_one_deleted(drive: Drive) -> None:
    await drive.write_file(".f.new", b"new")
    await rename(drive, ".f.new", "f", 2)
    await unlink(drive, ".f.new")


PATTERNS = [
    exchanged_and_the_old_one_deleted,
    in_place,
    rename_over,
    rename_over_from_a_local_name,
    away_and_anew,
    away_and_anew_with_the_backup_left,
    away_under_any_name_and_anew,
    away_and_a_new_one_renamed_there,
    away_and_a_new_one_of_any_name_renamed_there,
    deleted_and_anew,
    deleted_and_a_new_one_renamed_there,
]


@pytest.mark.parametrize("save", PATTERNS, ids=lambda save: save.__name__)
async def test_save_is_one_version_of_the_item(drive: Drive, save: Any) -> None:
    await drive.remote_file(7, "f", b"old")
    await save(drive)
    node = await who(drive, "f")
    assert node.remote_id == "7"
    assert drive.ops() == [("upload", "/f")]
    assert await drive.read_file("f") == b"new"


async def test_kept_backup_is_its_own_file(drive: Drive) -> None:
    await drive.remote_file(7, "f", b"old bytes")
    await rename(drive, "f", "f.bak")
    await drive.write_file("f", b"new")
    assert (await who(drive, "f")).remote_id == "7"
    assert (await who(drive, "f.bak")).remote_id is None
    assert sorted(drive.ops()) == [("upload", "/f"), ("upload", "/f.bak")]
    # The bytes were never here: they come from the version that the item had.
    assert await drive.read_file("f.bak") == b"old bytes"


async def test_a_backup_under_a_local_name_stays_here(drive: Drive) -> None:
    await drive.remote_file(7, "f", b"old bytes")
    await away_and_anew_with_the_backup_left(drive)
    assert (await who(drive, "f~")).local
    assert await drive.read_file("f~") == b"old bytes"


async def test_backup_with_unsent_bytes_keeps_them(drive: Drive) -> None:
    await drive.remote_file(7, "f", b"old")
    await overwrite(drive, "f", b"newer")
    await away_and_anew_with_the_backup_left(drive)
    assert await drive.read_file("f~") == b"newer"
    assert await drive.read_file("f") == b"new"
    assert drive.ops() == [("upload", "/f")]


async def test_merely_renamed_file_keeps_identity(drive: Drive) -> None:
    ino = await drive.remote_file(7, "f", b"old")
    await rename(drive, "f", "g")
    await drive.write_file("f", b"another")
    assert tree.find(drive.db, ino).remote_id == "7"
    assert (await who(drive, "f")).remote_id is None
    assert sorted(drive.ops()) == [("move", "/g"), ("upload", "/f")]


async def test_moved_file_keeps_history(drive: Drive) -> None:
    ino = await drive.remote_file(7, "f", b"old")
    folder = (await drive.fs.mkdir(ROOT, "archive", 0o755)).ino
    await drive.fs.rename(ROOT, "f", folder, "f", 0)
    await drive.write_file("f", b"another")
    assert tree.find(drive.db, ino).remote_id == "7"
    assert (await who(drive, "f")).remote_id is None


async def test_late_new_file_is_new(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    ino = await drive.remote_file(7, "f", b"old")
    await rename(drive, "f", "f~")
    monkeypatch.setattr(save_patterns, "LEFT_SECONDS", 0.0)
    await drive.write_file("f", b"another")
    assert tree.find(drive.db, ino).remote_id == "7"
    assert not tree.find(drive.db, ino).local, "what the service has stays there, whatever it is called"
    assert sorted(drive.ops()) == [("move", "/f~"), ("upload", "/f")]


async def test_running_deletion_is_not_undone(drive: Drive) -> None:
    await drive.remote_file(7, "f", b"old")
    await unlink(drive, "f")
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
    await drive.write_file("f", b"another")
    assert (await who(drive, "f")).remote_id is None


async def test_three_renames_exchange_two_files_with_their_histories(drive: Drive) -> None:
    await drive.remote_file(1, "a", b"a")
    await drive.remote_file(2, "b", b"b")
    for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
        await rename(drive, old, new)
    assert [(await who(drive, name)).remote_id for name in "ab"] == ["2", "1"]
    assert sorted(drive.ops()) == [("move", "/a"), ("move", "/b")]


async def test_save_completed_remotely_meanwhile_returns(drive: Drive) -> None:
    """The rename to the backup was sent before the new file was made."""

    def sent(conn: Connection) -> None:
        conn.execute("UPDATE node SET base_name = 'f~', base_key = 'f~' WHERE remote_id = '7'")
        conn.execute("DELETE FROM op")

    await drive.remote_file(7, "f", b"old")
    await rename(drive, "f", "f~")
    await drive.db.write(sent)
    await drive.write_file("f", b"new")
    assert sorted(drive.ops()) == [("move", "/f"), ("upload", "/f")]
    assert (await who(drive, "f")).remote_id == "7"


def test_what_left_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    known = save_patterns.SavePatterns()
    for number in range(100):
        known.note_left(Ino(number + 10), ROOT, f"f{number}")
    assert known.who_left(ROOT, "f50") == 60
    assert known.who_left(ROOT, "F50") is None
    assert known.place_left(Ino(60)) == (ROOT, "f50")
    monkeypatch.setattr(save_patterns, "LEFT_SECONDS", -1.0)
    known.note_left(Ino(5), ROOT, "g")
    assert (len(known._left), len(known._places)) == (1, 1)
