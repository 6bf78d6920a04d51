"""The files by which file managers show `cmsfs menu`: every entry, and a command that there is."""

import configparser
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest

from cmsfs.cli.desktop.menu_entries import ENTRIES, TITLE
from cmsfs.cli.support import command_table

FILES = dict(runpy.run_path(str(Path(__file__).parents[2] / "packaging" / "menus.py"))["files"]())


def read(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(FILES[name])
    return parser


def of(folder: str) -> list[str]:
    return [name for name in FILES if name.startswith(folder)]


def commands(kind: str) -> dict[str, str]:
    """The label of every command, in the menus of one kind."""
    found = {}
    for name in of(kind):
        parser = read(name)
        for section in parser.sections():
            if line := parser[section].get("Exec"):
                label = parser[section].get("Name") or parser["Desktop Entry"]["Name"]
                found[line] = label
    return found


@pytest.mark.parametrize("kind", ["kio/servicemenus", "file-manager/actions"])
def test_file_managers_show_every_menu_entry(kind: str) -> None:
    assert "menu" in command_table.COMMANDS
    wanted = {f"cmsfs menu {one.action} {'%F' if one.many else '%f'}": one.label for one in ENTRIES}
    assert commands(kind) == wanted


def test_menus_name_what_is_there() -> None:
    for name in of("kio/servicemenus"):
        parser = read(name)
        entry = parser["Desktop Entry"]
        actions = [section.removeprefix("Desktop Action ") for section in parser.sections()[1:]]
        assert entry["Actions"] == "".join(f"{one};" for one in actions)
        assert (entry["X-KDE-Submenu"], entry["X-KDE-Protocols"]) == (TITLE, "file")
    menu = read("file-manager/actions/cmsfs.desktop")["Desktop Entry"]
    assert [f"file-manager/actions/{one}.desktop" for one in menu["ItemsList"].split(";") if one] == of(
        "file-manager/actions/cmsfs-"
    )


def test_pcmanfm_shows_the_menu_on_drives_alone(tmp_path: Path) -> None:
    condition = read("file-manager/actions/cmsfs.desktop")["Desktop Entry"]["ShowIfTrue"]
    # Only what a file manager gives as one word may be in a shell's line.
    assert [word for word in shlex.split(condition) if "%" in word] == ["%f"]
    trap = tmp_path / "$(touch trap)'`touch trap`"
    trap.write_text("")
    line = condition.replace("%f", shlex.quote(str(trap)))
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert [one.name for one in tmp_path.iterdir()] == [trap.name]
