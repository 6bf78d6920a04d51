"""get and put of folders, against the embedded service."""

import json
from pathlib import Path

import pytest

from cmsfs.cli import main

pytestmark = pytest.mark.usefixtures("sample")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to put, from where one stands."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for path, text in {"a.txt": "a", "sub/b.txt": "bb", "sub/deep/c.txt": "", "build/x.o": "object"}.items():
        file = here / "tree" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (here / "tree" / "link").symlink_to("a.txt")
    return here / "tree"


def _files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


def test_what_is_put_comes_back(tree, capsys):
    assert main.run(["put", "tree", "/"]) == 0
    said = capsys.readouterr()
    assert said.out == "/tree: 4 files, 9 B\n"
    assert said.err == "link is not a regular file and was left out.\n"
    assert main.run(["get", "/tree", "copy"]) == 0
    assert capsys.readouterr().out == "copy: 4 files, 9 B\n"
    assert _files(Path("copy")) == _files(tree)


def test_second_time_only_differences_go(tree, capsys):
    (tree / "link").unlink()
    assert main.run(["put", "tree", "/"]) == 0
    (tree / "a.txt").write_text("changed")
    (tree / "new.txt").write_text("new")
    capsys.readouterr()
    assert main.run(["put", "tree", "/", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["files"], said["unchanged"]) == (2, 3)
    assert main.run(["get", "/tree", "."]) == 0
    assert capsys.readouterr().out.endswith("tree: 0 files, 0 B, 5 unchanged\n")


def test_patterns_leave_out(tree, capsys):
    (tree / "link").unlink()
    assert main.run(["put", "tree", "/put", "--exclude", "*.o", "--exclude", "sub/deep"]) == 0
    assert main.run(["get", "/put", "got", "--exclude", "b.txt"]) == 0
    assert _files(Path("got")) == {"a.txt": "a"}
    assert sorted(one.name for one in Path("got").iterdir()) == ["a.txt", "build", "sub"]


def test_a_failure_does_not_end_the_rest(tree, capsys):
    (tree / "bad\nname").write_text("x")
    assert main.run(["put", "tree", "/"]) == 1
    said = capsys.readouterr()
    assert said.out == "/tree: 4 files, 9 B\n"
    assert "item_name_invalid" in said.err
    assert said.err.endswith("cmsfs: 1 item could not be uploaded.\n")
    (tree / "bad\nname").unlink()
    (tree / "a.txt").write_text("mine")
    assert main.run(["get", "/tree", "."]) == 1
    assert "a.txt already exists; --force overwrites it." in capsys.readouterr().err
    assert (tree / "a.txt").read_text() == "mine"
    assert main.run(["get", "/tree", ".", "--force"]) == 0
    assert (tree / "a.txt").read_text() == "a"


def test_whole_drive_comes_with_its_web_links(tree, capsys):
    assert main.run(["get", "/", "all"]) == 0
    assert Path("all/Links/Tide table.url").read_text().startswith("[InternetShortcut]\nURL=http")
    assert main.run(["get", "/", "all"]) == 0
    assert "all: 0 files" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["get", "/"], 2, "Name a local folder for the whole drive"),
        (["get", "/Projects", "-"], 1, "A folder cannot be written to standard output."),
        (["get", "/Projects", "none/copy"], 1, "There is no folder none."),
        (["get", "/Projects", "tree/a.txt"], 1, "already exists and is not a folder."),
        (["put", "tree", "/Welcome.md"], 1, "/Welcome.md already exists and is not a folder."),
        (["put", "tree", "/no/such"], 1, "There is no /no on the service."),
    ],
)
def test_folders_that_cannot_go_are_said(tree, capsys, arguments, code, said):
    assert main.run(arguments) == code
    assert said in capsys.readouterr().err
