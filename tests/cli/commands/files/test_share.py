"""share, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_a_shared_link_is_made_once(cmsfs, tmp_path):
    first = cmsfs("share", "/Welcome.md")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("http")
    assert cmsfs("share", "/Welcome.md").stdout == first.stdout
    found = json.loads(cmsfs("share", "/Welcome.md", "--json").stdout)
    assert found["url"] == first.stdout.strip()
    assert found["access"]
    missing = cmsfs("share", "/nothing")
    assert (missing.returncode, missing.stderr) == (1, "cmsfs: There is no /nothing on the service.\n")
