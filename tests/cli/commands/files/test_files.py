"""get and put: against the embedded service and against one on the network."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cmsfs.cli import main


@pytest.fixture(params=["embedded", "network"])
def world(request: pytest.FixtureRequest) -> None:
    """The same commands, the service in this process or behind HTTP."""
    if request.param == "network":
        server = request.getfixturevalue("server")
        request.getfixturevalue("account")(server)
    else:
        request.getfixturevalue("sample")


@pytest.fixture
def here(sample: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _document(capsys: pytest.CaptureFixture[str]):
    return json.loads(capsys.readouterr().out)


def test_what_is_put_can_be_got(world, here, capsys):
    data = os.urandom(3 * 1024 * 1024 + 1)
    (here / "a.bin").write_bytes(data)
    assert main.run(["put", "a.bin", "/"]) == 0
    assert capsys.readouterr().out == "/a.bin: 3.1 MB\n"
    assert main.run(["get", "/a.bin", "b.bin"]) == 0
    assert (here / "b.bin").read_bytes() == data
    assert sorted(p.name for p in here.iterdir()) == ["a.bin", "b.bin"]


def test_an_empty_file_goes_both_ways(world, here):
    (here / "empty").touch()
    assert main.run(["put", "empty", "/none.txt"]) == 0
    assert main.run(["get", "/none.txt"]) == 0
    assert (here / "none.txt").read_bytes() == b""


def test_put_onto_file_makes_new_version(world, here, capsys):
    (here / "a.txt").write_text("one")
    assert main.run(["put", "--json", "a.txt", "/"]) == 0
    first = _document(capsys)
    (here / "a.txt").write_text("two")
    assert main.run(["put", "--json", "a.txt", "/A.TXT"]) == 0
    second = _document(capsys)
    assert second["id"] == first["id"]
    assert second["etag"] != first["etag"]
    assert second["sha1"] == hashlib.sha1(b"two").hexdigest()


def test_get_names_what_is_not_there(world, here, capsys):
    assert main.run(["get", "/no/such.txt"]) == 1
    assert capsys.readouterr().err == "cmsfs: There is no /no/such.txt on the service.\n"
    assert list(here.iterdir()) == []


def test_get_replaces_a_local_file_only_when_told(here, capsys):
    (here / "a.txt").write_text("remote")
    assert main.run(["put", "a.txt", "/"]) == 0
    (here / "a.txt").write_text("local")
    assert main.run(["get", "/a.txt"]) == 1
    assert "a.txt already exists; --force overwrites it." in capsys.readouterr().err
    assert (here / "a.txt").read_text() == "local"
    assert main.run(["get", "--force", "/a.txt"]) == 0
    assert (here / "a.txt").read_text() == "remote"


def test_get_into_a_folder_keeps_the_name(here):
    (here / "a.txt").write_text("x")
    (here / "sub").mkdir()
    assert main.run(["put", "a.txt", "/"]) == 0
    assert main.run(["get", "/a.txt", "sub"]) == 0
    assert (here / "sub" / "a.txt").read_text() == "x"


def test_get_into_missing_folder_is_an_error(here, capsys):
    (here / "a.txt").write_text("x")
    assert main.run(["put", "a.txt", "/"]) == 0
    assert main.run(["get", "/a.txt", "sub/b.txt"]) == 1
    assert capsys.readouterr().err == "cmsfs: There is no folder sub.\n"


def test_a_file_may_go_to_standard_output(here, cmsfs):
    (here / "a.txt").write_text("x\n")
    assert main.run(["put", "a.txt", "/"]) == 0
    done = cmsfs("get", "/a.txt", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")


def test_put_of_nothing_is_told(here, capsys):
    assert main.run(["put", "nope", "/"]) == 1
    assert capsys.readouterr().err == "cmsfs: nope does not exist.\n"
    assert main.run(["put", "/dev/null", "/"]) == 1
    assert capsys.readouterr().err == "cmsfs: /dev/null is not a file.\n"


def test_put_into_missing_folder_is_an_error(here, capsys):
    (here / "a.txt").write_text("x")
    for remote in ("/no/a.txt", "/no/"):
        assert main.run(["put", "a.txt", remote]) == 1
        assert "no /no on the service" in capsys.readouterr().err.replace("folder ", "")


@pytest.mark.parametrize("command", ["find NOT qwertzuiop", "get /big -"])
def test_broken_pipe_ends_quietly(here, command):
    (here / "big").write_bytes(bytes(4_000_000))
    assert main.run(["put", "big", "/"]) == 0
    done = subprocess.run(
        f"'{sys.executable}' -m cmsfs {command} | head -c 1",
        shell=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    # A machine that is busy is told so.
    assert done.stderr in (b"", b"Waiting for the service...\n")
