"""`cmsfs link`: web links made at the embedded service."""

import json

import pytest

from cmsfs.ipc import control

pytestmark = pytest.mark.usefixtures("sample")

URL = "https://example.com/page?x=1#y"


def test_a_web_link_is_made_under_a_path(cmsfs):
    made = cmsfs("link", URL, "/Projects/site.url", "--description", "where it is", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert (told["path"], told["name"], told["url"]) == ("/Projects/site", "site", URL)
    found = cmsfs("get", "/Projects/site")
    assert f"is a web link to {URL}." in found.stderr


def test_link_in_folder_is_named_after_its_url(cmsfs):
    made = cmsfs("link", URL, "/Projects")
    assert made.stdout == f"/Projects/example.com page?x=1#y: {URL}\n"
    assert cmsfs("link", URL).stdout.startswith("/example.com page")


def test_another_address_takes_asking(cmsfs):
    first = json.loads(cmsfs("link", URL, "/site", "--json").stdout)
    refused = cmsfs("link", "https://other.example/", "/site.url")
    assert refused.returncode == 1
    assert refused.stderr == "cmsfs: /site.url is already a web link; --replace changes its URL.\n"
    done = cmsfs("link", "https://other.example/", "/site.url", "--replace", "--json")
    changed = json.loads(done.stdout)
    assert (changed["id"], changed["url"]) == (first["id"], "https://other.example/")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["javascript:alert(1)", "/x"], "javascript:alert(1) is not a web URL"),
        (["file:///etc/passwd"], "is not a web URL"),
        (["example.com"], "web links start with http:// or https://"),
        ([URL, "/nowhere/x"], "There is no /nowhere on the service."),
        ([URL, "/nowhere/"], "There is no folder /nowhere on the service."),
        ([URL, "/Welcome.md"], "/Welcome.md already exists and is not a web link."),
        ([URL, "/x", "--description", "d" * 257], "at most 256 characters"),
    ],
)
def test_failed_link_is_explained(cmsfs, arguments, words):
    done = cmsfs("link", *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_mounted_drive_learns_of_command_change(cmsfs, spoken_to, tmp_path):
    daemon = spoken_to(lambda request: [control.Done()])
    (tmp_path / "new.txt").write_text("new")
    for arguments in (
        ["link", URL, "/site"],
        ["put", str(tmp_path / "new.txt"), "/new.txt"],
        ["lock", "/new.txt"],
        ["unlock", "/new.txt"],
    ):
        daemon.requests.clear()
        done = cmsfs(*arguments)
        assert done.returncode == 0, done.stderr
        assert "poll" in [request.kind for request in daemon.requests], arguments


def test_unreachable_drive_does_not_fail_command(cmsfs, spoken_to):
    spoken_to(lambda request: [control.Failure(message="The service cannot be reached.")])
    assert cmsfs("link", URL, "/site").returncode == 0
