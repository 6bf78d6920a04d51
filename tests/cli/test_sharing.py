"""link, against the embedded service."""

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
