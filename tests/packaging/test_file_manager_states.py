"""What the extensions of file managers make of the daemon's answers; that module needs no file manager."""

import importlib.util
import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from cmsfs.cli.desktop import menu_entries
from cmsfs.ipc import control
from cmsfs.replica import naming
from cmsfs.vfs.virtual import versions

PACKAGING = Path(__file__).parents[2] / "packaging"
FOLDER = PACKAGING / "file_managers"


@pytest.fixture(scope="module")
def states() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cmsfs_states", FOLDER / "cmsfs_states.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def told(**fields: object) -> dict[str, object]:
    return {
        "kind": "path",
        "path": "/a",
        "type": "file",
        "sync": "synced",
        "size": 5,
        "cached_bytes": 5,
    } | fields


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "synced"),
        ({"cached_bytes": 0}, "online"),
        ({"cached_bytes": 0, "size": 0}, "synced"),
        ({"cached_bytes": 0, "type": "folder"}, "synced"),
        ({"pinned": "/", "cached_bytes": 0}, "pinned"),
        ({"sync": "waiting", "pinned": "/a"}, "syncing"),
        ({"sync": "uploading"}, "syncing"),
        ({"sync": "local", "pinned": "/"}, "local"),
        ({"conflict": True, "sync": "waiting"}, "conflict"),
        ({"sync": "held: no room", "conflict": True}, "held"),
        ({"kind": "failure"}, None),
    ],
)
def test_the_state_that_is_shown(states: ModuleType, fields: dict[str, object], state: str | None) -> None:
    assert states.state(told(**fields)) == state
    assert state is None or state in states.STATES


def test_each_state_but_one_has_an_emblem(states: ModuleType) -> None:
    assert {name for name, (emblem, _) in states.STATES.items() if not emblem} == {"local"}


def test_owner_is_shown_for_shared_items(states: ModuleType) -> None:
    assert states.owner(told(owner="Ben Tester")) == "Ben Tester"
    assert states.owner(told()) == ""
    assert states.owner(None) == ""


def test_a_favorite_is_marked_beside_its_state(states: ModuleType) -> None:
    assert states.is_favorite(told(favorite=True))
    assert not states.is_favorite(told()) and not states.is_favorite(None)
    assert states.shown(told(favorite=True)) == ("synced", True) != states.shown(told())


def test_each_mark_is_a_picture_of_its_own(states: ModuleType, tmp_path: Path) -> None:
    subprocess.run([sys.executable, PACKAGING / "share", tmp_path], check=True, timeout=60)
    emblems = tmp_path / "icons" / "hicolor" / "scalable" / "emblems"
    pictures = [(emblems / f"{name}.svg").read_text() for name, _ in states.STATES.values() if name]
    pictures.append((emblems / f"{states.FAVORITE}.svg").read_text())
    assert len(set(pictures)) == len(pictures) == len(states.STATES)


def test_it_knows_where_the_drive_shows_versions(states: ModuleType) -> None:
    assert states.versions_folder("/home/ada/cmsfs/a.txt") == "/home/ada/cmsfs/a.txt" + versions.SUFFIX


def actions(states: ModuleType, *answers: dict[str, object] | None) -> list[str]:
    return [action for action, _ in states.menu(answers)]


def test_the_menu_offers_what_makes_sense(states: ModuleType) -> None:
    shown = ["status", "share", "web"]
    assert actions(states, told()) == [*shown, "free", "pin", "link", "versions"]
    assert actions(states, told(cached_bytes=0)) == [*shown, "pin", "link", "versions"]
    assert actions(states, told(pinned="/a", cached_bytes=0)) == [*shown, "free", "link", "versions"]
    # Pinned through the folder above: it is let go there.
    assert actions(states, told(pinned="/")) == [*shown, "link", "versions"]
    assert actions(states, told(type="folder", cached_bytes=0)) == [*shown, "free", "pin", "link"]
    assert actions(states, told(cached_bytes=0), told(pinned="/a")) == ["free", "pin"]
    assert actions(states, told(conflict=True))[0] == "conflict"
    # Of what was not asked about yet.
    unasked: dict[str, object] = {"kind": "path", "path": "/a", "type": "file", "sync": ""}
    assert actions(states, unasked) == [*shown, "free", "pin", "link", "versions"]
    copy = naming.conflict_name("a.txt", "host", date(2026, 11, 23), taken=lambda name: False)
    assert actions(states, unasked | {"path": f"/{copy}"})[0] == "conflict"
    assert actions(states, told(sync="local")) == ["status", "pin"]
    assert actions(states, None) == []


def test_the_entries_are_those_of_the_command(states: ModuleType) -> None:
    known = {one.action: one.label for one in menu_entries.ENTRIES}
    offered = dict([*states.menu([told(conflict=True)]), *states.FOLDER_MENU])
    assert offered.items() <= known.items()
    # A version is restored on the page that "status" shows.
    assert known.keys() - offered.keys() == {"restore"}


def test_emblems_and_words_of_an_item(states: ModuleType) -> None:
    answer = told(owner="Ben Tester", favorite=True)
    assert states.emblems(answer) == ["emblem-cmsfs-synced", "emblem-shared", "emblem-cmsfs-favorite"]
    assert states.words(answer) == "Synced; shared by Ben Tester; favorite"
    assert states.emblems(told(sync="local")) == []
    assert states.emblems(None) == [] and states.words(None) == ""


def test_a_path_is_found_on_the_innermost_drive(states: ModuleType) -> None:
    mountinfo = (
        "36 25 0:50 / /home/ada/cmsfs rw - fuse.cmsfs cmsfs rw,user_id=1000\n"
        "37 25 0:51 / /home/ada/my\\040drive rw - fuse.cmsfs cmsfs rw\n"
        "38 36 0:52 / /home/ada/cmsfs/in rw - fuse.cmsfs cmsfs rw\n"
        "39 25 0:53 / /home/ada/other rw - ext4 /dev/vda rw\n"
    )
    drives = states.mountpoints(mountinfo)
    assert states.locate("/home/ada/cmsfs/a/b", drives) == ("/home/ada/cmsfs", "/a/b")
    assert states.locate("/home/ada/cmsfs/in/b", drives) == ("/home/ada/cmsfs/in", "/b")
    assert states.locate("/home/ada/my drive", drives) == ("/home/ada/my drive", "/")
    assert states.locate("/home/ada/cmsfs2/x", drives) is None
    assert states.locate("/home/ada/other/x", drives) is None


def test_it_speaks_the_language_of_the_socket(states: ModuleType) -> None:
    assert isinstance(control.parse_request(states.request("ping")), control.Ping)
    pong = control.Pong(pid=1, version="1", account="a", mountpoint="/m")
    assert states.answer(control.encode(pong).decode()) == json.loads(pong.model_dump_json())
    assert states.answer("nonsense") is None
    assert states.answer("[1]") is None
