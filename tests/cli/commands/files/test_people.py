"""people and invite, against the embedded service."""

import json

import pytest

from cmsfs.cli import main

pytestmark = pytest.mark.usefixtures("sample")

FOLDER = "/Projects/Harbour Bridge"


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_invited_people_are_listed_and_removed(capsys):
    assert _said(capsys, "people", FOLDER) == f"Nobody but Ada Example collaborates on {FOLDER}.\n"
    assert _said(capsys, "invite", FOLDER, "ben@example.com", "new@elsewhere.example") == (
        "Ben Sample <ben@example.com>: viewer\nnew@elsewhere.example: viewer; it waits for an answer\n"
    )
    listed = _said(capsys, "people", FOLDER)
    assert [line.split()[-2:] for line in listed.splitlines()] == [
        ["<ben@example.com>", "viewer"],
        ["viewer", "invited"],
    ]
    assert "by Harbour Bridge" in _said(capsys, "people", f"{FOLDER}/Plan.md")
    left = _said(capsys, "people", FOLDER, "--remove", "BEN@example.com", "--json")
    assert [one["invite_email"] for one in json.loads(left)] == ["new@elsewhere.example"]


def test_second_invitation_changes_the_role(capsys):
    first = json.loads(_said(capsys, "invite", FOLDER, "ben@example.com", "--json"))
    again = json.loads(
        _said(capsys, "invite", FOLDER, "2002", "--role", "co-owner", "--expires", "2d", "--json")
    )
    assert [one["id"] for one in first] == [one["id"] for one in again]
    assert again[0]["role"] == "co-owner"
    assert again[0]["expires_at"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["invite", "/", "ben@example.com"], 1, "The whole drive has no collaborators"),
        (
            ["invite", "/Links/Tide table", "ben@example.com"],
            1,
            "files and folders have people.",
        ),
        (["invite", "/Welcome.md", "99999"], 1, "There is nobody to invite as 99999."),
        (["invite", "/Welcome.md", "ben@example.com", "--role", "king"], 2, "'king' is not one of"),
        (["invite", "/Welcome.md"], 2, "Missing argument"),
        (["people", "/Welcome.md", "--remove", "ben@example.com"], 1, "does not collaborate on /Welcome.md."),
    ],
)
def test_what_cannot_be_shared_is_said(capsys, arguments, code, said):
    assert main.run(arguments) == code
    assert said in capsys.readouterr().err


def test_inherited_role_is_ended_above(capsys):
    _said(capsys, "invite", FOLDER, "ben@example.com")
    assert main.run(["people", f"{FOLDER}/Plan.md", "--remove", "ben@example.com"]) == 1
    assert "by the folder Harbour Bridge above; end it there." in capsys.readouterr().err
