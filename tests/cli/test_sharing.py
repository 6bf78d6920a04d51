"""link and versions, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_a_link_is_made_once(cmsfs, tmp_path):
    first = cmsfs("link", "/Welcome.md")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("http")
    assert cmsfs("link", "/Welcome.md").stdout == first.stdout
    found = json.loads(cmsfs("link", "/Welcome.md", "--json").stdout)
    assert found["url"] == first.stdout.strip()
    assert found["access"]
    missing = cmsfs("link", "/nothing")
    assert (missing.returncode, missing.stderr) == (1, "cmsfs: There is no /nothing on the service.\n")


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
