"""`cmsfs search`, of the embedded service and of one on the network; and the searches that are kept."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cmsfs import config
from cmsfs.cli import main
from cmsfs.ipc import control, searching


@pytest.fixture(params=["embedded", "network"])
def world(request: pytest.FixtureRequest) -> None:
    """The same commands, the service in this process or behind HTTP."""
    if request.param == "network":
        server = request.getfixturevalue("server")
        request.getfixturevalue("account")(server)
    else:
        request.getfixturevalue("sample")


Found = Callable[..., list[str]]


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Found:
    """`found(*arguments)`: what a search prints, which must succeed."""

    def run(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert main.run(["search", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_paths_are_printed(world: None, found: Found, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "zanzibar.txt").write_text("x")
    assert main.run(["put", str(tmp_path / "zanzibar.txt"), "/"]) == 0
    assert found("zanzibar") == ["/zanzibar.txt"]
    assert found("zanzibar", "type:file", "in:/", "owner:me") == ["/zanzibar.txt"]
    assert found("zanzibar", "--type", "folder") == []
    assert found("zanzibar", "--in", "/", "size:2..") == []
    (line,) = found("-l", "zanzibar")
    assert line.split()[0] == "file" and line.endswith("/zanzibar.txt")
    (item,) = json.loads("\n".join(found("--json", "zanzibar")))
    assert item["path"] == "/zanzibar.txt"


def test_the_limit_is_held_and_told(world: None, capsys: pytest.CaptureFixture[str]):
    assert main.run(["search", "--limit", "2", "NOT", "qwertzuiop"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "more matches; --limit shows more." in err


def test_conditions_on_metadata(world: None, found: Found):
    plan = "/Projects/Harbour Bridge/Plan.md"
    assert found("metadata:project where budget > 400000 AND (phase = 'build' OR lead LIKE 'B%')") == [plan]
    assert found("metadata:project where due > '2026-12-31'", "in:/Projects") == []


def test_find_is_another_word_for_it(sample: None, capsys: pytest.CaptureFixture[str]):
    assert main.run(["find", "qwertzuiop"]) == 0
    assert capsys.readouterr() == ("", "No matches.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([""], 2, "There is nothing to search for."),
        ([], 2, "There is nothing to search for."),
        (["size:big"], 2, "size: takes sizes such as 500, 10K"),
        (["in:/Nowhere"], 1, "There is no /Nowhere on the service."),
        (["owner:nobody@nowhere.test"], 1, "There is no user nobody@nowhere.test;"),
        (["metadata:nothing"], 1, "There is no metadata template nothing."),
        (["metadata:nothing where a = 1"], 1, "There is no metadata template nothing."),
        (["x", "--save", "a", "--saved"], 2, "are mutually exclusive"),
        (["x", "--save", ".hidden"], 2, "cannot name a search"),
        (["x", "--save", "a/b"], 2, "cannot name a search"),
        (["--forget", "nothing"], 1, "There is no saved search 'nothing'."),
        (["--run", "nothing"], 1, "There is no saved search 'nothing';"),
        (["x", "--run", "nothing"], 2, "takes no QUERY"),
        (["--run", "a", "--forget", "a"], 2, "are mutually exclusive"),
    ],
)
def test_what_does_not_hold_is_one_sentence(
    sample: None, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
):
    assert main.run(["search", *arguments]) == code
    assert said in capsys.readouterr().err


def test_searches_are_kept_listed_and_forgotten(sample: None, found: Found):
    found("budget", "in:Legal Stuff", "type:file", "--save", "Budget of this year")
    found("NOT x", "--save", "other")
    found("other words", "--save", "other")
    assert found("--saved") == [
        'Budget of this year  budget in:"Legal Stuff" type:file',
        "other                other words",
    ]
    found("--forget", "other")
    assert json.loads("\n".join(found("--saved", "--json"))) == {
        "Budget of this year": 'budget in:"Legal Stuff" type:file'
    }


def test_what_is_kept_is_searched_for(world: None, found: Found, tmp_path: Path):
    for name in ("zanzibar.txt", "zanzibar.csv"):
        (tmp_path / name).write_text("x")
        assert main.run(["put", str(tmp_path / name), "/"]) == 0
    found("zanzibar", "in:/", "ext:txt,csv", "--save", "The island")
    assert sorted(found("--run", "The island")) == ["/zanzibar.csv", "/zanzibar.txt"]
    assert len(found("--run", "The island", "--limit", "1")) == 1
    assert found("--run", "The island", "--type", "folder") == []
    (first, _) = json.loads("\n".join(found("--run", "The island", "--json")))
    assert first["path"] in ("/zanzibar.csv", "/zanzibar.txt")
    # By hand, with a filter first: the words behind it are none of the filter's.
    config.Paths("default").searches.write_text("[default]\nby-hand = 'ext:txt zanzibar'\n")
    assert found("--run", "by-hand") == ["/zanzibar.txt"]


def test_what_a_person_wrote_into_the_file_stays(sample: None, found: Found):
    kept = config.Paths("default").searches
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text('# mine\n[other]\na = "b"\n\n[default]\nc = "d" # why\n')
    found("x y", "--save", "e")
    assert found("--saved") == ["c  d", "e  x y"]
    assert kept.read_text() == '# mine\n[other]\na = "b"\n\n[default]\nc = "d" # why\ne = "x y"\n'


@pytest.mark.parametrize("text", ["not toml", "[default]\na = 1\n"])
def test_a_file_that_cannot_be_read_is_named(sample: None, capsys: pytest.CaptureFixture[str], text: str):
    kept = config.Paths("default").searches
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text)
    for arguments in (["--saved"], ["x", "--save", "y"], ["--forget", "y"]):
        assert main.run(["search", *arguments]) == 2
        assert str(kept) in capsys.readouterr().err
    assert kept.read_text() == text


def test_a_running_drive_is_asked(spoken_to, found: Found, capsys: pytest.CaptureFixture[str]):
    moment = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
    match = searching.FoundItem(type="file", path="/Legal/a b.txt", size=2048, modified_at=moment)
    partial = "names on this machine; the service was not asked"
    asked = []

    def answers(request: control.SearchDrive) -> list[searching.FoundItems]:
        asked.append(request)
        return [searching.FoundItems(entries=[match], total=3, partial=partial)]

    spoken_to(answers)
    assert found("budget", "--in", "/Legal Stuff", "--limit", "1") == ["/Legal/a b.txt"]
    assert asked == [control.SearchDrive(query='budget in:"/Legal Stuff"', limit=1)]
    assert main.run(["search", "-l", "budget"]) == 0
    out, err = capsys.readouterr()
    assert out.split()[:3] == ["file", "2.0", "kB"]
    assert out.endswith("  /Legal/a b.txt\n")
    assert f"Without the service: {partial}." in err
