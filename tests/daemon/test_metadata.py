"""Metadata as extended attributes: read, set by the template's rules, removed."""

from typing import Any

import pytest

from cmsfs.models import metadata
from cmsfs.replica.nodes import ROOT
from tests.daemon.asking import listed, told, value

pytestmark = pytest.mark.administers


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
    assert "enterprise.project.lead=Ada" in (await value(drive, "f", "metadata")).splitlines()
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
