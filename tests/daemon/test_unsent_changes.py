"""What a package says before it goes: changes that the service never got, and where they are."""

import sqlite3
from pathlib import Path

from click.testing import CliRunner

from cmsfs import config
from cmsfs.replica import database
from daemon import command


def replica(account: str, changes: int) -> Path:
    file = config.Paths(account).replica_db
    file.parent.mkdir(parents=True)
    with sqlite3.connect(file) as conn:
        conn.executescript(database.schema())
        for ino in range(3, 3 + changes):
            conn.execute(
                "INSERT INTO node(ino, parent, name, name_key, kind, mtime_ns, ctime_ns, mode)"
                " VALUES (?, 1, ?, ?, 'file', 0, 0, 420)",
                (ino, f"n{ino}", f"n{ino}"),
            )
            conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (ino,))
    conn.close()
    return file.parent


def told() -> list[str]:
    done = CliRunner().invoke(command.main, ["--unsent"])
    assert done.exit_code == 0
    return done.output.splitlines()


def test_accounts_with_unsent_changes_are_told() -> None:
    assert told() == []
    replica("default", 0)
    work = replica("work", 2)
    assert told() == [f"account work: 2 changes that the service does not have in {work}"]


def test_a_damaged_tree_and_recovered_files_are_told() -> None:
    broken = replica("broken", 0)
    (broken / "replica.db").write_bytes(b"x" * 5000)
    kept = replica("kept", 0)
    (kept / "recovered").mkdir()
    (kept / "recovered" / "a.txt").write_text("a")
    first, second = told()
    assert first.startswith("account broken: its changes cannot be counted")
    assert second == f"account kept: 1 recovered file in {kept}"
