"""Administration from the shell: users, holds, retention, templates, exemptions, tokens."""

import json

import click
import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.auth import connect
from cmsfs.cli import main
from cmsfs.models.content import items, metadata, search

pytestmark = pytest.mark.usefixtures("sample")


@pytest.fixture
def run(capsys):
    """`run("users", "list")`: what it printed; `run.json(...)`: the document; `run.refused(...)`: why not."""

    class Run:
        def __call__(self, *arguments: str) -> str:
            assert main.run(arguments) == 0, capsys.readouterr().err
            return capsys.readouterr().out

        def json(self, *arguments: str):
            return json.loads(self(*arguments, "--json"))

        def refused(self, *arguments: str, code: int = 1) -> str:
            assert main.run(arguments) == code
            out, err = capsys.readouterr()
            assert out == ""
            return err

    return Run()


def _ask(work):
    """What `work(client)` gives, asked as the account."""

    async def ask():
        async with connect.open_backend(config.load()) as client:
            return await work(client)

    return trio.run(ask)


def test_user_list_has_a_header(run):
    lines = run("users", "list").splitlines()
    assert lines[0].split() == ["id", "name", "login", "role", "status", "space_used"]
    assert [line.split()[1] for line in lines[1:4]] == ["Ada", "Ben", "Cleo"]


def test_users_are_filtered_and_fields_selected(run):
    assert run("users", "list", "ben@", "--fields", "name,enterprise.name").splitlines() == [
        "name        enterprise.name",
        "Ben Sample  Example Enterprise",
    ]
    (found,) = run.json("users", "list", "ben@", "--fields", "login")
    assert found == {"login": "ben@example.com"}


def test_help_examples_parse(run):
    def shown(*words: str) -> list[str]:
        group = main.cli.get_command(click.Context(main.cli), words[0])
        assert isinstance(group, click.Group)
        (option,) = (one for one in group.commands[words[1]].params if one.name == "fields")
        fields = option.help.removesuffix(".").split(": ")[1]
        lines = run(*words, "--fields", fields).splitlines()
        heads = [line.split()[0] for line in lines] if words[1] == "show" else lines[0].split()
        assert heads == fields.split(",")
        return lines[1].split()

    shown("users", "list")
    shown("users", "show", "me")
    shown("holds", "list")
    shown("templates", "list")
    shown("exemptions", "show", shown("exemptions", "list")[0])
    policy = shown("retention", "list")[0]
    shown("retention", "show", shown("retention", "assignments", policy)[0])
    run("users", "create", "Dora", "--login", "dora@example.com", "--fields", "id,enterprise.name")


def test_a_limit_ends_a_list(run):
    assert len(run.json("users", "list", "--limit", "2")) == 2


def test_empty_list_has_text_and_json(run, capsys):
    assert main.run(["users", "list", "nobody"]) == 0
    assert capsys.readouterr() == ("", "There is no such user.\n")
    assert run.json("users", "list", "nobody") == []


def test_unknown_field_lists_available_fields(run):
    said = run.refused("users", "list", "--fields", "colour")
    assert said.startswith("cmsfs: There is no field 'colour'; available are address, ")


@pytest.mark.parametrize("name", ["me", "ada@example.com"])
def test_a_user_is_shown_by_what_people_know(run, name):
    assert run.json("users", "show", name)["name"] == "Ada Example"
    assert "login" in run("users", "show", name)


def test_an_unknown_login_is_one_sentence(run):
    assert run.refused("users", "show", "x@example.com") == "cmsfs: No user has the login x@example.com.\n"


def test_a_user_is_created_as_the_options_say(run):
    options = {
        "--login": "dora@example.com",
        "--role": "coadmin",
        "--job-title": "Carpenter",
        "--space-amount": "10GB",
        "--timezone": "Europe/Berlin",
    }
    said = run("users", "create", "Dora New", *(word for pair in options.items() for word in pair))
    assert said.startswith("Dora New has the id ")
    fields = "role,job_title,space_amount,timezone"
    made = run.json("users", "show", "dora@example.com", "--fields", fields)
    assert made["role"] == "coadmin"
    assert made["job_title"] == "Carpenter"
    assert made["space_amount"] == 10**10
    assert made["timezone"] == "Europe/Berlin"


def test_content_is_transferred(run):
    said = run("users", "transfer", "ben@example.com", "cleo@example.com")
    assert said.startswith("cleo@example.com has the folder \"Ben Sample's Files and Folders")
    assert run.json("users", "show", "ben@example.com")["space_used"] == 0
    assert "No user has the login" in run.refused("users", "transfer", "nobody@example.com", "me")


def test_what_cannot_be_a_user_is_one_sentence(run):
    assert "login" in run.refused("users", "create", "Dora", code=2)
    assert "exists already" in run.refused("users", "create", "Ben", "--login", "ben@example.com")
    codes = ["--login", "d@example.com", "--tracking-code", "dept=wood"]
    assert "no tracking code 'dept'" in run.refused("users", "create", "D", *codes)
    assert "NAME=VALUE" in run.refused("users", "create", "D", "--tracking-code", "dept", code=2)
    assert "unlimited" in run.refused("users", "create", "D", "--space-amount", "much", code=2)


def test_hold_is_changed_by_name(run):
    assert "Harbour Bridge permits" in run("holds", "list", "harbour")
    changes = ["--description", "Closed", "--release-notes", "The court has decided."]
    changed = run.json("holds", "edit", "Harbour Bridge permits", *changes)
    assert changed["description"] == "Closed"
    assert changed["policy_name"] == "Harbour Bridge permits"
    assert (
        run("holds", "edit", changed["id"], "--name", "Bridge") == f"Bridge ({changed['id']}) is changed.\n"
    )
    assert run.json("holds", "list", "--fields", "policy_name") == [{"policy_name": "Bridge"}]


def test_empty_edit_is_refused(run):
    assert "--name, --description" in run.refused("holds", "edit", "Harbour Bridge permits", code=2)
    assert "called 'Nothing'" in run.refused("holds", "edit", "Nothing", "--name", "x")


def test_retention_is_found_from_its_policy_down(run):
    (policy,) = run.json("retention", "list", "--fields", "id,policy_name")
    assert policy["policy_name"] == "Yearly reports"
    (assignment,) = run.json("retention", "assignments", policy["id"], "--fields", "id")
    shown = run.json("retention", "show", assignment["id"])
    assert shown["retention_policy"]["policy_name"] == "Yearly reports"
    assert shown["assigned_to"]["type"] == "folder"
    assert "assigned_by.name" in run("retention", "show", assignment["id"])


def test_a_template_is_shown_with_its_fields(run):
    (found,) = run.json("templates", "list", "--fields", "templateKey")
    shown = run("templates", "show", found["templateKey"])
    assert "displayName" in shown
    for field in run.json("templates", "show", found["templateKey"])["fields"]:
        assert field["key"] in shown


async def _carriers(client) -> int:
    """How many items carry the sample's template."""
    wish = {"mdfilters": [{"scope": "enterprise", "templateKey": "project", "filters": {}}]}
    return (await client.search.page(search.Query.model_validate(wish))).total_count


def test_template_deletion_with_instances_needs_flag(run, capsys, monkeypatch):
    before = _ask(_carriers)
    assert before > 0
    monkeypatch.setattr("click.confirm", lambda *args, **options: False)
    said = run.refused("templates", "remove", "project")
    assert f"on {before} item" in said
    assert said.endswith("cmsfs: Nothing was deleted.\n")
    assert _ask(_carriers) == before
    removed = run.json("templates", "remove", "project", "--yes")
    assert removed == {"templateKey": "project", "scope": "enterprise", "instances": before}
    assert run.json("templates", "list") == []


def test_a_template_without_instances_says_none(run):
    wish = metadata.NewTemplate(scope="enterprise", display_name="Empty")
    _ask(lambda client: client.metadata.create_template(wish))
    assert run("templates", "remove", "empty", "--yes") == "Deleted empty and its values on 0 items.\n"


def test_an_exemption_is_shown(run):
    (found,) = run.json("exemptions", "list", "--fields", "id,user.name")
    assert found["user.name"] == "Cleo Specimen"
    assert run.json("exemptions", "show", found["id"])["user"]["login"] == "cleo@example.com"


def test_downscoped_token_is_limited(server, account, capsys):
    account(server)

    async def folder():
        async with connect.open_backend(config.load()) as client:
            return await client.folders.create("Shared", "0"), await client.folders.create("Other", "0")

    shared, other = trio.run(folder)
    assert main.run(["token", "downscope", "item_preview", "item_upload", "--resource", "/Shared"]) == 0
    token, err = capsys.readouterr()
    assert err == ""
    with httpx.Client(base_url=f"{server.url}/2.0") as http:
        http.headers["authorization"] = f"Bearer {token.strip()}"
        assert http.get(f"/folders/{shared.id}/items").status_code == 200
        assert http.get(f"/folders/{other.id}/items").status_code in (403, 404)
        assert http.delete(f"/folders/{shared.id}").status_code == 403
    assert main.run(["token", "downscope", "item_preview", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expires_in"] > 0


def test_a_token_for_what_cannot_be_is_refused(run):
    link = run.json("find", "--type", "link", "--limit", "1", "OR", "a", "the", "harbour", "website")
    assert "invalid_scope" in run.refused("token", "downscope", "everything", code=6)
    assert "mutually exclusive" in run.refused(
        "token", "downscope", "item_read", "--resource", "/", "--shared-link", "x", code=2
    )
    for found in link:
        said = run.refused("token", "downscope", "item_preview", "--resource", found["path"])
        assert "is a web link" in said
        assert items.WebLink.model_validate(found).id
