"""What is asked about single items: once, for a while, and never because attributes are listed."""

import errno
from typing import Any

import pytest

from cmsfs.models import metadata, retention
from cmsfs.replica.nodes import ROOT
from cmsfs.service import scopes

PREFIX = "user.cms."


@pytest.fixture(autouse=True)
async def may_administer(service: Any, user: int) -> None:
    """Tokens are good for administration too; whether the account may is a matter of its role."""
    every = " ".join(scopes.APPLICATION)
    await service.write(lambda conn: conn.execute("UPDATE app SET scopes = ?", (every,)))


async def value(drive: Any, path: str, name: str) -> str:
    """The value of an attribute, or the errno that there is in its place."""
    try:
        return (await drive.fs.getxattr(await drive.ino(path), PREFIX + name)).decode()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


async def attempt(call: Any) -> str:
    try:
        await call
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


async def told(drive: Any, path: str, name: str, given: str | None) -> str:
    ino = await drive.ino(path)
    if given is None:
        return await attempt(drive.fs.removexattr(ino, PREFIX + name))
    return await attempt(drive.fs.setxattr(ino, PREFIX + name, given.encode()))


async def listed(drive: Any, path: str) -> list[str]:
    return [name.removeprefix(PREFIX) for name in await drive.fs.listxattr(await drive.ino(path))]


@pytest.fixture
async def project(other: Any) -> metadata.Template:
    """A template with a field of each type."""
    option = metadata.Option
    wish = metadata.NewTemplate(
        scope="enterprise",
        template_key="project",
        display_name="Project",
        fields=[
            metadata.Field(type="string", key="lead", display_name="Lead"),
            metadata.Field(type="float", key="budget", display_name="Budget"),
            metadata.Field(type="date", key="due", display_name="Due"),
            metadata.Field(
                type="enum",
                key="phase",
                display_name="Phase",
                options=[option(key="plan"), option(key="build")],
            ),
            metadata.Field(
                type="multiSelect", key="at", display_name="At", options=[option(key="x"), option(key="y")]
            ),
        ],
    )
    return await other.client.metadata.create_template(wish)


# ---- fields of items ---------------------------------------------------------------------------


async def test_all_fields_of_an_item_cost_one_request_and_a_listing_none(drive: Any, other: Any) -> None:
    number = await other.file("f", b"12345")
    await other.client.shared_links.share("file", number)
    await drive.names()
    asked = drive.agents.health.requests
    assert (await value(drive, "f", "owner")).startswith("Ada Tester <")
    assert await listed(drive, "f") == ["sync", "owner"]
    assert asked["facts"] == 0
    assert (await value(drive, "f", "created_by")).startswith("Ada Tester <")
    assert "download" in (await value(drive, "f", "permissions")).split(",")
    assert (await value(drive, "f", "shared_link")).startswith("http")
    assert await value(drive, "f", "shared_link.access") == "open"
    assert await value(drive, "f", "watermark") == "0"
    assert await value(drive, "f", "nonsense") == "ENODATA"
    assert asked["facts"] == 1
    assert await listed(drive, "f") == ["sync", "owner", "shared_link"]


async def test_an_answer_holds_while_the_etag_is_the_same(drive: Any, other: Any) -> None:
    number = await other.file("f", b"12345")
    await drive.names()
    assert await value(drive, "f", "modified_by.id") == str(other.user)
    assert await value(drive, "f", "version_number") == "1"
    await other.write(number, b"67890")
    await drive.poll()
    assert await value(drive, "f", "version_number") == "2"
    assert drive.agents.health.requests["facts"] == 2


async def test_an_answer_holds_for_a_while_only(drive: Any, other: Any) -> None:
    number = await other.file("f", b"12345")
    await drive.names()
    assert await value(drive, "f", "shared_link") == "ENODATA"
    await other.client.shared_links.share("file", number)
    await drive.db.write(lambda conn: conn.execute("UPDATE fact SET learned_at = learned_at - 301"))
    assert (await value(drive, "f", "shared_link")).startswith("http")


async def test_without_the_service_what_is_known_is_told_and_all_else_is_refused(
    drive: Any, other: Any, network: Any
) -> None:
    await other.file("known", b"1")
    await other.file("new", b"2")
    await drive.names()
    before = await value(drive, "known", "permissions")
    network.is_down = True
    assert await attempt(drive.read("new")) != "ok"  # this is how the drive hears of it
    await drive.db.write(lambda conn: conn.execute("UPDATE fact SET learned_at = 0"))
    assert await value(drive, "known", "permissions") == before
    assert await value(drive, "new", "permissions") == "ENETDOWN"
    assert (await value(drive, "new", "owner")).startswith("Ada")
    assert await told(drive, "new", "metadata.global.properties.k", "v") == "ENETDOWN"


async def test_what_lives_here_only_has_what_the_drive_knows(drive: Any) -> None:
    await drive.write(".~lock.f#", b"x")
    assert await value(drive, ".~lock.f#", "sync") == "local"
    assert await value(drive, ".~lock.f#", "cached") == "1"
    for name in ("id", "owner", "permissions", "metadata", "hold", "retention"):
        assert await value(drive, ".~lock.f#", name) == "ENODATA"
    ino = await drive.ino(".~lock.f#")
    await drive.fs.setxattr(ino, "user.xdg.comment", b"mine")
    assert await drive.fs.listxattr(ino) == ["user.xdg.comment"]
    assert drive.agents.health.requests["facts"] == 0


async def test_a_file_tells_how_much_of_it_is_here(drive: Any, other: Any) -> None:
    await other.file("f", b"x" * 300_000)
    await drive.names()
    assert await value(drive, "f", "cached") == "0"
    await drive.read("f")
    assert await value(drive, "f", "cached") == "300000"
    assert await value(drive, "", "cached") == "ENODATA"


# ---- description and tags ----------------------------------------------------------------------


async def test_description_and_tags_are_set_at_once_and_sent(drive: Any, other: Any) -> None:
    number = await other.file("f", b"1")
    await drive.names()
    ino = await drive.ino("f")
    assert await told(drive, "f", "description", "what it is") == "ok"
    await drive.fs.setxattr(ino, "user.xdg.tags", b"red, round,red")
    assert await value(drive, "f", "tags") == "red,round"
    assert await drive.fs.getxattr(ino, "user.xdg.comment") == b"what it is"
    assert {"description", "tags", "user.xdg.comment", "user.xdg.tags"} <= set(await listed(drive, "f"))
    await drive.sync()
    found = await other.client.facts.item("file", number)
    assert (found.description, found.tags) == ("what it is", ["red", "round"])
    assert await value(drive, "f", "description") == "what it is"
    assert await told(drive, "f", "description", None) == "ok"
    await drive.fs.removexattr(ino, "user.xdg.tags")
    assert await value(drive, "f", "description") == "ENODATA"
    await drive.sync()
    found = await other.client.facts.item("file", number)
    assert not found.description
    assert not found.tags  # type: ignore[union-attr]
    assert await told(drive, "f", "description", None) == "ENODATA"
    assert drive.ops() == []


async def test_description_and_tags_wait_for_a_new_file_and_for_the_network(
    drive: Any, other: Any, network: Any
) -> None:
    network.is_down = True
    await drive.write("f", b"new")
    assert await told(drive, "f", "description", "said of it") == "ok"
    assert await told(drive, "f", "tags", "red\nblue") == "ok"
    network.is_down = False
    await drive.sync()
    item = await other.client.facts.item("file", (await other.find("f")).id)
    assert (item.description, item.tags) == ("said of it", ["red", "blue"])


async def test_what_was_said_stays_with_the_item_through_a_save(drive: Any, other: Any) -> None:
    await drive.write("f", b"old")
    await drive.sync()
    assert await told(drive, "f", "tags", "kept") == "ok"
    await drive.write("f.new", b"newer")
    await drive.rename("f.new", "f")
    assert await value(drive, "f", "tags") == "kept"
    await drive.sync()
    item = await other.client.facts.item("file", (await other.find("f")).id)
    assert item.tags == ["kept"]
    assert await other.versions(item.id) == 2


async def test_tags_of_a_local_file_go_to_the_service_with_it(drive: Any, other: Any) -> None:
    await drive.write("f.part", b"download")
    await drive.fs.setxattr(await drive.ino("f.part"), "user.xdg.tags", b"red")
    await drive.rename("f.part", "f")
    await drive.sync()
    assert (await other.client.facts.item("file", (await other.find("f")).id)).tags == ["red"]
    assert await value(drive, "f", "tags") == "red"


async def test_folders_and_web_links_are_described_too(drive: Any, other: Any) -> None:
    folder = await other.folder("d")
    link = await other.client.web_links.create("https://example.com/", "0", name="link")
    await drive.names()
    assert await told(drive, "d", "tags", "a,b") == "ok"
    assert await told(drive, "link.url", "description", "where") == "ok"
    ino = await drive.ino("link.url")
    assert await drive.fs.getxattr(ino, "user.xdg.origin.url") == b"https://example.com/"
    # A link has no tags at the service: they stay a program's own.
    await drive.fs.setxattr(ino, "user.xdg.tags", b"here")
    await drive.sync()
    assert (await other.client.facts.item("folder", folder)).tags == ["a", "b"]
    assert (await other.client.facts.item("web_link", link.id)).description == "where"
    assert await drive.fs.getxattr(ino, "user.xdg.tags") == b"here"


@pytest.mark.parametrize(
    ("name", "given"), [("description", b"x" * 257), ("description", b"\xff"), ("tags", b"t" * 9)]
)
async def test_what_cannot_be_said_is_refused_at_once(
    drive: Any, expect_log: Any, name: str, given: bytes
) -> None:
    await drive.write("f", b"1")
    if name == "tags":
        given = ",".join(f"t{number}" for number in range(101)).encode()
    expect_log("at most|UTF-8")
    assert await attempt(drive.fs.setxattr(await drive.ino("f"), PREFIX + name, given)) == "EINVAL"


async def test_what_the_drive_tells_cannot_be_set(drive: Any, other: Any) -> None:
    await other.file("f", b"1")
    await drive.names()
    for name in ("id", "etag", "permissions", "hold.id", "cached", "nonsense", "metadata"):
        assert await told(drive, "f", name, "1") == "ENOTSUP"
        assert await told(drive, "f", name, None) == "ENOTSUP"
    # What is listed is in copies, too: `rsync -X` sets and removes it.
    for name in ("owner", "sync", "shared_link"):
        before = await value(drive, "f", name)
        assert await told(drive, "f", name, "nobody") == "ok"
        assert await told(drive, "f", name, None) == "ok"
        assert await value(drive, "f", name) == before


# ---- metadata ----------------------------------------------------------------------------------


async def test_metadata_is_set_read_and_removed(drive: Any, other: Any, project: Any) -> None:
    number = await other.file("f", b"1")
    await drive.names()
    where = "metadata.enterprise.project."
    assert await value(drive, "f", where + "lead") == "ENODATA"
    for field, given in (("lead", "Ada"), ("budget", "12.5"), ("due", "2026-11-21"), ("at", "y,x")):
        assert await told(drive, "f", where + field, given) == "ok"
    assert await told(drive, "f", where + "budget", "480000") == "ok"
    assert await value(drive, "f", where + "budget") == "480000"
    assert await value(drive, "f", where + "at") == "y,x"
    assert await value(drive, "f", "metadata.enterprise_1.project.lead") == "Ada"
    (instance,) = await other.client.metadata.instances("file", number)
    assert instance.values == {
        "lead": "Ada",
        "budget": 480000,
        "due": "2026-11-21T00:00:00.000Z",
        "at": ["y", "x"],
    }
    assert where + "lead" in await listed(drive, "f")
    assert "enterprise.project.lead=Ada\n" in await value(drive, "f", "metadata")
    assert await told(drive, "f", where + "lead", None) == "ok"
    assert await told(drive, "f", where + "lead", None) == "ENODATA"
    assert await value(drive, "f", where + "lead") == "ENODATA"


async def test_free_metadata_takes_any_field(drive: Any, other: Any) -> None:
    folder = await other.folder("d")
    await drive.names()
    assert await told(drive, "d", "metadata.global.properties.colour", "rot") == "ok"
    (instance,) = await other.client.metadata.instances("folder", folder)
    assert instance.values == {"colour": "rot"}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("project.phase", "over", "one of plan, build"),
        ("project.budget", "much", "a number"),
        ("project.due", "soon", "a date"),
        ("project.at", "z", "some of x, y"),
        ("project.nothing", "1", "fields are at, budget, due, lead, phase"),
        ("nothing.at", "1", "no such template"),
    ],
)
async def test_what_the_template_does_not_allow_is_told(
    drive: Any, other: Any, project: Any, expect_log: Any, name: str, given: str, said: str
) -> None:
    number = await other.file("f", b"1")
    await drive.names()
    expect_log(said)
    assert await told(drive, "f", f"metadata.enterprise.{name}", given) == "EINVAL"
    assert await other.client.metadata.instances("file", number) == []


async def test_metadata_of_a_new_file_waits_until_the_service_has_it(
    drive: Any, other: Any, project: Any
) -> None:
    await drive.write("f", b"new")
    assert await told(drive, "f", "metadata.enterprise.project.phase", "plan") == "ok"
    (instance,) = await other.client.metadata.instances("file", (await other.find("f")).id)
    assert instance.values == {"phase": "plan"}


async def test_a_value_that_somebody_changes_meanwhile_is_not_written_over(
    drive: Any, other: Any, project: Any, expect_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await other.file("f", b"1")
    await other.client.metadata.put("file", number, "project", {"lead": "Ada"})
    await drive.names()
    assert await value(drive, "f", "metadata.enterprise.project.lead") == "Ada"
    client = drive.agents.client.metadata
    patch = client.patch

    async def late(*arguments: Any) -> Any:
        # Between our look and our change.
        step = {"op": "replace", "path": "/lead", "value": "Ben"}
        await other.client.metadata.patch(
            "file", number, "project", [metadata.Operation.model_validate(step)]
        )
        return await patch(*arguments)

    monkeypatch.setattr(client, "patch", late)
    expect_log("somebody else")
    assert await told(drive, "f", "metadata.enterprise.project.lead", "Cleo") == "ESTALE"
    (instance,) = await other.client.metadata.instances("file", number)
    assert instance.values == {"lead": "Ben"}


async def test_the_root_has_no_metadata_and_no_description(drive: Any) -> None:
    assert await told(drive, "", "metadata.global.properties.k", "v") == "ENOTSUP"
    assert await value(drive, "", "metadata") == "ENODATA"
    await drive.fs.setxattr(ROOT, "user.xdg.comment", b"here")
    await drive.sync()
    assert drive.ops() == []


# ---- holds and retention -----------------------------------------------------------------------


async def test_holds_and_retention_are_inherited_from_folders(drive: Any, other: Any) -> None:
    folder = await other.folder("d")
    number = await other.file("f", b"1", await other.folder("e", folder))
    await other.file("free", b"1")
    hold = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(hold.id, "folder", folder)
    second = await other.client.legal_holds.create("Audit")
    await other.client.legal_holds.assign(second.id, "file", number)
    policy = await other.client.retention.create(
        retention.NewRetentionPolicy(
            policy_name="Ten years",
            policy_type="finite",
            disposition_action="remove_retention",
            retention_length=3650,
        )
    )
    await other.client.retention.assign(policy.id, retention.AssignTo(type="folder", id=folder))
    await drive.names()
    for path in ("d", "d/e"):
        await drive.names(path)
    assert await value(drive, "d/e/f", "hold") == "Audit; Case 42"
    assert await value(drive, "d/e/f", "hold.assigned_to") == "/d/e/f; /d"
    assert await value(drive, "d/e/f", "hold.status") == "active; active"
    assert await value(drive, "d/e", "hold") == "Case 42"
    assert await value(drive, "d", "retention") == "Ten years"
    assert await value(drive, "d/e/f", "retention.length") == "3650 days"
    assert await value(drive, "d/e/f", "retention.action") == "remove_retention"
    assert await value(drive, "d/e/f", "retention.assigned_to") == "/d"
    assert (await value(drive, "d/e/f", "retention.until")).startswith("20")
    assert await value(drive, "free", "hold") == "ENODATA"
    assert await value(drive, "free", "retention") == "ENODATA"
    assert drive.agents.health.requests["policies"] == 1
    assert {"hold", "retention", "retention.until"} <= set(await listed(drive, "d/e/f"))


async def test_who_may_not_read_policies_sees_that(drive: Any, other: Any) -> None:
    folder = await other.folder("d")
    number = await other.file("f", b"1", folder)
    hold = await other.client.legal_holds.create("Case 42")
    await other.client.legal_holds.assign(hold.id, "file", number)
    await other.store.write(lambda conn: conn.execute("UPDATE user SET role = 'user'"))
    await drive.names("d")
    assert await value(drive, "d/f", "hold") == "unknown"
    assert await value(drive, "d/f", "retention") == "unknown"
    assert await value(drive, "d/f", "retention.until") == "unknown"
    assert await listed(drive, "d/f") == ["sync", "owner"]
    assert drive.agents.health.requests["policies"] == 1


async def test_retention_by_metadata_covers_what_has_the_values(drive: Any, other: Any, project: Any) -> None:
    for name, phase in (("f", "build"), ("g", "plan")):
        number = await other.file(name, b"1")
        await other.client.metadata.put("file", number, "project", {"phase": phase})
    await other.file("h", b"1")
    policy = await other.client.retention.create(
        retention.NewRetentionPolicy(
            policy_name="Built", policy_type="indefinite", disposition_action="remove_retention"
        )
    )
    phase = next(field for field in project.fields if field.key == "phase")
    option = next(option for option in phase.options if option.key == "build")
    body = {
        "policy_id": policy.id,
        "assign_to": {"type": "metadata_template", "id": project.id},
        "filter_fields": [{"field": phase.id, "value": option.id}],
    }
    room = other.client.retention
    await room._wire.ask(retention.Assignment, "POST", room._assignments, body=body)
    await drive.names()
    assert await value(drive, "f", "retention") == "Built"
    assert await value(drive, "f", "retention.until") == "indefinite"
    assert await value(drive, "g", "retention") == "ENODATA"
    assert await value(drive, "h", "retention") == "ENODATA"
