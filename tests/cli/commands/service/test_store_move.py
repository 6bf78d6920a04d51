"""`cmsfs service move`: what it says, and what it refuses."""

import json
import sqlite3
from contextlib import closing


def test_a_copy_is_made_and_serves_the_same(server, cmsfs, tmp_path):
    data, copy = server.data, tmp_path / "copy"
    refused = cmsfs("service", "move", "--data", data, "--to-data", copy)
    assert (refused.returncode, "stop it first" in refused.stderr) == (1, True)
    assert server.stop() == 0
    done = cmsfs("service", "move", "--data", data, "--to-data", copy)
    assert done.returncode == 0, done.stderr
    assert "The original is as it was." in done.stdout
    with (
        closing(sqlite3.connect(data / "service.db")) as old,
        closing(sqlite3.connect(copy / "service.db")) as new,
    ):
        for table in ("item", "version", "event", "account", "token"):
            sql = f"SELECT * FROM {table} ORDER BY 1"
            assert new.execute(sql).fetchall() == old.execute(sql).fetchall()
    again = cmsfs("service", "move", "--data", data, "--to-data", copy)
    assert (again.returncode, "choose an empty one" in again.stderr) == (1, True)
    checked = cmsfs("service", "check", "--data", copy)
    assert checked.returncode == 0, checked.stdout
    assert " 0 missing, 0 damaged; 0 orphaned" in checked.stdout


def test_damaged_contents_stop_it_unless_allowed(server, cmsfs, tmp_path):
    assert server.stop() == 0
    first = min(one for one in (server.data / "blobs").rglob("*") if one.is_file())
    first.write_bytes(b"x" + first.read_bytes()[1:])
    target = ("--data", server.data, "--to-data", tmp_path / "copy")
    refused = cmsfs("service", "move", *target)
    assert (refused.returncode, "1 contents are missing or damaged" in refused.stderr) == (1, True)
    done = cmsfs("service", "move", *target, "--incomplete", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["broken"] == [first.name]
    assert said["already_there"] > 0
    assert said["rows"]["item"] > 0


def test_places_that_cannot_be_are_told(cmsfs, tmp_path):
    for words, code in (
        (("--data", tmp_path / "none", "--to-data", tmp_path / "copy"), 1),
        (("--data", tmp_path, "--to-data", tmp_path), 1),
    ):
        done = cmsfs("service", "move", *words)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
