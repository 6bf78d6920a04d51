"""versions, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_versions_begin_with_the_current_one(cmsfs, tmp_path):
    file = tmp_path / "v.txt"
    for text in ("one", "three"):
        file.write_text(text)
        assert cmsfs("put", file, "/").returncode == 0
    found = json.loads(cmsfs("versions", "/v.txt", "--json").stdout)
    assert [version["size"] for version in found] == [5, 3]
    lines = cmsfs("versions", "/v.txt").stdout.splitlines()
    assert lines[0].endswith("current")
    assert cmsfs("versions", "/").returncode == 1


def test_an_old_version_is_fetched_and_brought_back(cmsfs, tmp_path):
    file = tmp_path / "v.txt"
    for text in ("one", "three"):
        file.write_text(text)
        assert cmsfs("put", file, "/").returncode == 0
    current, old = (one["id"] for one in json.loads(cmsfs("versions", "/v.txt", "--json").stdout))
    assert cmsfs("versions", "/v.txt", "--get", old).stdout == "one"
    fetched = tmp_path / "old.txt"
    assert cmsfs("versions", "/v.txt", "--get", old, "--output", fetched).returncode == 0
    assert fetched.read_text() == "one"
    again = cmsfs("versions", "/v.txt", "--get", old, "--output", fetched)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    done = cmsfs("versions", "/v.txt", "--restore", old)
    assert done.returncode == 0, done.stderr
    found = json.loads(cmsfs("versions", "/v.txt", "--json").stdout)
    assert [one["size"] for one in found] == [3, 5, 3]
    assert found[1]["id"] == current


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--restore", "999"], 1, "has no version 999"),
        (["--get", "999"], 1, "has no version 999"),
        (["--output", "x"], 2, "--output requires --get"),
        (["--get", "1", "--json"], 2, "cannot be combined"),
    ],
)
def test_what_cannot_be_done_is_said(cmsfs, arguments, code, said):
    done = cmsfs("versions", "/Welcome.md", *arguments)
    assert done.returncode == code
    assert said in done.stderr


def test_the_current_version_is_not_brought_back(cmsfs):
    current = json.loads(cmsfs("versions", "/Welcome.md", "--json").stdout)[0]["id"]
    done = cmsfs("versions", "/Welcome.md", "--restore", current)
    assert (done.returncode, "already the current version" in done.stderr) == (1, True)
