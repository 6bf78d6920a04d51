"""favorites, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_favorites_are_added_listed_and_removed(cmsfs):
    assert "There are no favorites" in cmsfs("favorites", "list").stdout
    done = cmsfs("favorites", "add", "/Welcome.md", "/Reports")
    assert done.stdout == "/Welcome.md is a favorite.\n/Reports is a favorite.\n"
    assert sorted(cmsfs("favorites", "list").stdout.split("\n")) == ["", "/Reports", "/Welcome.md"]
    assert cmsfs("favorites", "remove", "/Reports").stdout == "/Reports is not a favorite.\n"
    (left,) = json.loads(cmsfs("favorites", "list", "--json").stdout)
    assert (left["type"], left["path"]) == ("file", "/Welcome.md")
    assert cmsfs("favorites", "add", "/nothing").returncode == 1
