"""favorites, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_favorites_are_added_listed_and_removed(cmsfs):
    done = cmsfs("favorites", "add", "/Welcome.md", "/Reports")
    assert done.stdout == "/Welcome.md is a favorite.\n/Reports is a favorite.\n"
    found = json.loads(cmsfs("favorites", "list", "--json").stdout)
    assert sorted((one["type"], one["path"]) for one in found) == [
        ("file", "/Welcome.md"),
        ("folder", "/Reports"),
    ]
    assert cmsfs("favorites", "remove", "/Reports").stdout == "/Reports is not a favorite.\n"
    assert cmsfs("favorites", "list").stdout == "/Welcome.md\n"
