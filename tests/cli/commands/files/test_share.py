"""share, against the embedded service."""

import json

import pytest

from cmsfs.cli import main

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


def test_terms_of_a_link_change_alone(sample, capsys, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    link = _shared(capsys, "--access", "open", "--password-file", str(secret), "--expires", "14d")
    assert (link["access"], link["is_password_enabled"]) == ("open", True)
    assert link["unshared_at"]
    link = _shared(capsys, "--no-download")
    assert (link["access"], link["is_password_enabled"]) == ("open", True)
    assert link["permissions"]["can_download"] is False
    assert _shared(capsys, "--download", "--edit")["permissions"]["can_edit"] is True
    assert _shared(capsys, "--no-edit", "--no-download")["permissions"]["can_edit"] is False
    link = _shared(capsys, "--download", "--no-password", "--no-expiry", "--access", "people")
    assert (link["access"], link["is_password_enabled"]) == ("collaborators", False)
    assert "unshared_at" not in link


def test_a_removed_link_is_gone(sample, capsys):
    first = _shared(capsys)["url"]
    assert main.run(["share", "/Welcome.md", "--remove"]) == 0
    assert capsys.readouterr().out == "/Welcome.md has no shared link.\n"
    assert _shared(capsys)["url"] != first


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/"], 1, "The whole drive cannot be shared by a link"),
        (["/Welcome.md", "--remove", "--access", "open"], 2, "--remove takes no terms."),
        (["/Welcome.md", "--expires", "1d", "--no-expiry"], 2, "mutually exclusive"),
        (["/Welcome.md", "--password-file", "/dev/null"], 1, "There is no password in /dev/null."),
        (["/Welcome.md", "--password-file", "/nowhere"], 1, "/nowhere cannot be read"),
    ],
)
def test_terms_that_make_no_sense_are_refused(sample, capsys, arguments, code, said):
    assert main.run(["share", *arguments]) == code
    assert said in capsys.readouterr().err


def test_readable_password_is_told(sample, capsys, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    secret.chmod(0o644)
    assert main.run(["share", "/Welcome.md", "--access", "open", "--password-file", str(secret)]) == 0
    said = capsys.readouterr()
    assert "chmod 600" in said.err
    assert "s3cret" not in said.out + said.err


def _shared(capsys: pytest.CaptureFixture[str], *options: str):
    assert main.run(["share", "/Welcome.md", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)
