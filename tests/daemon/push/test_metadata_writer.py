"""Metadata as extended attributes: read, set by the template's rules, removed."""

import os
from typing import Any, Literal

import pytest
import trio

from cmsfs.models.content import metadata
from cmsfs.models.content.metadata import Template
from cmsfs.replica.nodes import ROOT
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import PREFIX, listed, told, value
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

pytestmark = pytest.mark.administers


async def test_metadata_is_set_read_and_removed(drive: Drive, other: Remote, project: Template) -> None:
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


async def test_free_metadata_takes_any_field(drive: Drive, other: Remote) -> None:
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
    drive: Drive, other: Remote, project: Template, expect_log: ExpectLog, name: str, given: str, said: str
) -> None:
    number = await other.file("f", b"1")
    await drive.names()
    expect_log(said)
    assert await told(drive, "f", f"metadata.enterprise.{name}", given) == "EINVAL"
    assert await other.client.metadata.instances("file", number) == []


async def values(other: Remote, kind: Literal["file", "folder"], name: str) -> dict[str, Any]:
    (instance,) = await other.client.metadata.instances(kind, (await other.find(name)).id)
    return dict(instance.values)


async def test_metadata_of_new_item_follows_upload(drive: Drive, other: Remote, project: Template) -> None:
    where = "metadata.enterprise.project."
    await drive.write("f", b"new")
    await drive.mkdir("d")
    for name in ("f", "d"):
        assert await told(drive, name, where + "phase", "plan") == "ok"
        assert await told(drive, name, where + "lead", "Ada") == "ok"
        assert await told(drive, name, where + "lead", None) == "ok"
        assert await told(drive, name, where + "lead", None) == "ENODATA"
        assert await value(drive, name, where + "phase") == "plan"
        assert where + "phase" in await listed(drive, name)
    await drive.sync()
    assert await values(other, "file", "f") == await values(other, "folder", "d") == {"phase": "plan"}
    assert await value(drive, "f", where + "phase") == "plan"
    assert await told(drive, "f", where + "phase", "build") == "ok"
    assert await value(drive, "f", where + "phase") == "build"


async def test_open_copy_accepts_listed_metadata(drive: Drive, other: Remote, project: Template) -> None:
    fs, where = drive.fs, "metadata.enterprise.project."
    await other.file("f", b"bytes")
    await drive.names()
    for field, text in (("lead", "Ada"), ("budget", "12.5"), ("at", "y,x")):
        assert await told(drive, "f", where + field, text) == "ok"
    await told(drive, "f", "description", "What it is")
    await told(drive, "f", "tags", "a,b")
    await fs.setxattr(await drive.ino("f"), "user.colour", b"red")
    await drive.sync()
    given = {
        name: await fs.getxattr(await drive.ino("f"), name)
        for name in await fs.listxattr(await drive.ino("f"))
    }
    assert {PREFIX + where + "lead", PREFIX + "tags", PREFIX + "owner", "user.colour"} <= set(given)

    opened, made = await fs.create(ROOT, "copy", 0o644, os.O_WRONLY)
    await fs.write(opened.fh, 0, b"bytes")
    for name, one in given.items():
        await fs.setxattr(made.ino, name, one)
    await fs.release(opened.fh)
    await drive.sync()
    for name, one in given.items():
        assert await fs.getxattr(made.ino, name) == one, name
    assert await values(other, "file", "copy") == {"lead": "Ada", "budget": 12.5, "at": ["y", "x"]}
    copy = await other.find_file("copy")
    assert (copy.description, copy.tags) == ("What it is", ["a", "b"])
    assert set(await fs.listxattr(made.ino)) == set(given)


async def test_offline_metadata_is_validated_when_sent(
    drive: Drive, other: Remote, project: Template, network: Network, expect_log: ExpectLog
) -> None:
    await drive.names()
    network.is_down = True
    await drive.write("good", b"1")
    await drive.write("bad", b"2")
    for name, given in (("good", "plan"), ("bad", "over")):
        assert await told(drive, name, "metadata.enterprise.project.phase", given) == "ok"
    network.is_down = False
    expect_log("one of plan, build")
    with trio.fail_after(20):
        while [op[:2] for op in drive.ops()] != [("describe", "held")]:
            await trio.lowlevel.checkpoint()
    assert "one of plan, build" in await value(drive, "bad", "sync")
    assert await values(other, "file", "good") == {"phase": "plan"}


async def test_metadata_of_new_file_survives_replace(drive: Drive, other: Remote, project: Template) -> None:
    number = await other.file("f", b"old")
    await drive.names()
    await drive.write(".f.Xy12ab", b"new")
    assert await told(drive, ".f.Xy12ab", "metadata.enterprise.project.phase", "plan") == "ok"
    await drive.rename(".f.Xy12ab", "f")
    await drive.sync()
    assert (await other.find("f")).id == number
    assert await values(other, "file", "f") == {"phase": "plan"}


async def test_concurrent_metadata_change_is_not_overwritten(
    drive: Drive, other: Remote, project: Template, expect_log: ExpectLog, monkeypatch: pytest.MonkeyPatch
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
            "file", number, "project", [metadata.PatchStep.model_validate(step)]
        )
        return await patch(*arguments)

    monkeypatch.setattr(client, "patch", late)
    expect_log("someone else in the meantime")
    assert await told(drive, "f", "metadata.enterprise.project.lead", "Cleo") == "ESTALE"
    (instance,) = await other.client.metadata.instances("file", number)
    assert instance.values == {"lead": "Ben"}


async def test_the_root_has_no_metadata_and_no_description(drive: Drive) -> None:
    assert await told(drive, "", "metadata.global.properties.k", "v") == "ENOTSUP"
    assert await value(drive, "", "metadata") == "ENODATA"
    await drive.fs.setxattr(ROOT, "user.xdg.comment", b"here")
    await drive.sync()
    assert drive.ops() == []
