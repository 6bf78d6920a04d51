"""log and watch, against the embedded service."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cmsfs.cli import main
from cmsfs.client.history.change_notes import ChangeNotes
from cmsfs.models.content import events, items

pytestmark = pytest.mark.usefixtures("sample")


def _log(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert main.run(["log", "--json", *arguments]) == 0
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


def test_log_tells_who_did_what(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    assert main.run(["put", str(tmp_path / "a.txt"), "/Projects"]) == 0
    assert main.run(["lock", "/Projects/a.txt"]) == 0
    capsys.readouterr()
    told = [(one["by"], one["done"], one["path"]) for one in _log(capsys, "/Projects/a.txt")]
    path = "/Projects/a.txt"
    assert told == [("Ada Example", "uploaded", path), ("Ada Example", "locked", path)]
    in_folder = _log(capsys, "/Projects", "--limit", "2")
    assert [one["done"] for one in in_folder] == ["uploaded", "locked"]
    assert all(one["path"].startswith("/Links/") for one in _log(capsys, "/Links") if one["path"] != "/Links")
    assert main.run(["log", "/Projects/a.txt"]) == 0
    assert "Ada Example  uploaded  /Projects/a.txt" in capsys.readouterr().out
    assert main.run(["log", "/nothing"]) == 1
    assert "There is no /nothing" in capsys.readouterr().err


def test_what_leaves_a_folder_is_told():
    notes = ChangeNotes(items.Folder(id="7", name="here"))
    moved = _event(events.MOVE, "9", above=["7"]), _event(events.MOVE, "9", above=["8"])
    assert [note.done if note else None for note in map(notes.of, moved)] == ["moved here", "moved away"]
    assert notes.of(_event(events.RENAME, "9", above=["8"])) is None
    assert notes.of(_event(events.RENAME, "7", above=[])) is None  # a file of this number is another item
    unknown = notes.of(_event("ITEM_GILDED", "9", above=["7"]))
    assert unknown is not None
    assert unknown.done == "item gilded"


def _event(word: str, number: str, *, above: list[str]) -> events.Event:
    folders: list[dict[str, Any]] = [{"type": "folder", "id": one, "name": one} for one in ["0", *above]]
    source = {
        "type": "file",
        "id": number,
        "name": "a",
        "parent": folders[-1],
        "path_collection": {"total_count": len(folders), "entries": folders},
    }
    return events.Event(event_id=f"{word}{number}{above}", event_type=word, source=source)


def test_watch_runs_a_command_on_each_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = tmp_path / "said"
    options = ["--count", "2", "--json", "--exec", f'echo "$CMSFS_EVENT $CMSFS_PATH" >> {said}; false']
    watching = subprocess.Popen(
        [sys.executable, "-m", "cmsfs", "watch", "/Projects", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stderr is not None
    assert watching.stderr.readline() == "Watching /Projects; Ctrl+C ends it.\n"
    (tmp_path / "$(touch x).txt").write_text("a")
    assert main.run(["put", str(tmp_path / "$(touch x).txt"), "/"]) == 0
    assert main.run(["put", str(tmp_path / "$(touch x).txt"), "/Projects"]) == 0
    assert main.run(["lock", "/Projects/$(touch x).txt"]) == 0
    out, err = watching.communicate(timeout=60)
    assert [json.loads(line)["done"] for line in out.splitlines()] == ["uploaded", "locked"]
    assert said.read_text() == (
        "ITEM_UPLOAD /Projects/$(touch x).txt\nLOCK_CREATE /Projects/$(touch x).txt\n"
    )
    assert "The command ended with 1" in err
    assert watching.returncode == 0
