"""Attributes come from searches; web links come back out of the trash; earlier versions are not offered."""

import errno

import pytest

from cmsfs.models.content import metadata
from cmsfs.replica.nodes import ROOT
from tests.support.daemon_drive import Drive, Remote, fails
from tests.support.log_watch import ExpectLog


async def value(drive: Drive, path: str, name: str) -> str:
    return (await drive.fs.getxattr(await drive.ino(path), f"user.cms.{name}")).decode()


async def test_what_is_said_of_an_item_shows(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"a")
    await other.client.items.describe("file", number, description="words", tags=["x", "y"])
    link = await other.client.shared_links.share("file", number)
    assert await value(drive, "a", "description") == "words"
    assert await value(drive, "a", "tags") == "x,y"
    assert await value(drive, "a", "shared_link") == link.url
    assert await value(drive, "a", "shared_link.downloads") == "0"


@pytest.mark.administers
async def test_metadata_shows(drive: Drive, other: Remote, project: metadata.Template) -> None:
    number = await other.file("a", b"a")
    key = project.template_key
    assert key is not None
    field = next(one.key for one in project.fields or () if one.type == "string")
    await other.client.metadata.put("file", number, key, {field: "said"}, "enterprise")
    found = await value(drive, "a", "metadata")
    assert f"{key}.{field}" in found
    assert "said" in found


@pytest.mark.administers
async def test_legal_holds_in_force_are_named(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"a")
    hold = await other.client.legal_holds.create("Case 7")
    await other.client.legal_holds.assign(hold.id, "file", number)
    await drive.names()
    assert await value(drive, "a", "hold") == "unknown; in force: Case 7"


async def test_a_web_link_comes_back(drive: Drive, other: Remote) -> None:
    made = await other.client.web_links.create("https://example.com/", "0", name="Example")
    await other.client.items.delete("web_link", made.id)
    trash = drive.agents.shown
    folder = await trash.lookup(ROOT, ".trash")
    await trash.lookup(folder.ino, "Example.url")
    await trash.rename(folder.ino, "Example.url", ROOT, "Example.url", 0)
    assert await drive.names() == ["Example.url"]
    assert await other.urls() == {"Example": "https://example.com/"}


async def test_moving_to_the_trash_is_refused(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("this service cannot delete items")
    await other.file("a", b"a")
    assert await drive.names() == ["a"]
    trash = drive.agents.shown
    folder = await trash.lookup(ROOT, ".trash")
    with fails(errno.EPERM):
        await trash.rename(ROOT, "a", folder.ino, "a", 0)
    await drive.sync()
    assert await drive.names() == await other.paths() == ["a"]


async def test_earlier_versions_are_not_offered(drive: Drive, other: Remote) -> None:
    await other.file("a", b"a")
    await drive.names()
    shown = drive.agents.shown
    with fails(errno.EOPNOTSUPP):
        folder = await shown.lookup(ROOT, "a@versions")
        fh = await shown.opendir(folder.ino)
        await shown.readdir(fh, 0)
