"""lock and unlock, against the embedded service."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("sample")


def test_a_file_is_locked_and_unlocked(cmsfs):
    done = cmsfs("lock", "/Welcome.md")
    assert (done.returncode, done.stdout) == (0, "/Welcome.md is locked for you.\n")
    found = json.loads(cmsfs("lock", "/Welcome.md", "--for", "1h30m", "--json").stdout)
    assert found["lock"]["expired_at"]
    assert "until" in cmsfs("lock", "/Welcome.md", "--for", "2h").stdout
    done = cmsfs("unlock", "/Welcome.md")
    assert (done.returncode, done.stdout) == (0, "/Welcome.md is not locked.\n")


def test_a_folder_is_locked_and_unlocked(cmsfs):
    assert cmsfs("lock", "/Reports").stdout == "/Reports is locked against being moved and deleted.\n"
    assert json.loads(cmsfs("lock", "/Reports", "--json").stdout)["lock"]["type"] == "folder_lock"
    assert cmsfs("unlock", "/Reports").stdout == "/Reports is not locked against being moved and deleted.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lock", "/"], 1, "only files and folders can be locked"),
        (["lock", "/Reports", "--for", "1h"], 2, "A folder's lock neither expires"),
        (["lock", "/nothing"], 1, "There is no /nothing on the service."),
        (["lock", "/Welcome.md", "--for", "soon"], 2, "not a duration"),
        (["unlock", "/nothing"], 1, "There is no /nothing on the service."),
    ],
)
def test_what_cannot_be_locked_is_said(cmsfs, arguments, code, said):
    done = cmsfs(*arguments)
    assert done.returncode == code
    assert said in done.stderr
