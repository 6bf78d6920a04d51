"""What file managers call the drive: the file at its root that says so, and one's own of that name."""

import errno
import os

import pytest

from cmsfs import config
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.virtual.volume_info import NAME
from daemon.desktop import drive_title
from tests.support.daemon_drive import Drive, Remote, Starting, fails

SERVER = {
    "profile": "server",
    "base_url": "https://cms.example.com:8443/2.0",
    "upload_url": "https://cms.example.com:8443/upload",
    "auth_url": "https://cms.example.com:8443/auth",
}


async def info(drive: Drive) -> dict[str, str]:
    """The values of the file, as GLib reads them."""
    shown = drive.agents.shown
    found = await shown.lookup(ROOT, NAME)
    opened = await shown.open(found.ino, os.O_RDONLY)
    text = bytes(await shown.read(opened.fh, 0, found.size + 1)).decode()
    await shown.release(opened.fh)
    head, *lines = text.splitlines()
    assert head == "[Volume Info]"
    return dict(line.split("=", 1) for line in lines)


async def names(drive: Drive) -> list[str]:
    shown = drive.agents.shown
    fh = await shown.opendir(ROOT)
    found = [line.name for line in await shown.readdir(fh, 0)]
    shown.releasedir(fh)
    return found


async def test_drive_is_called_by_its_login(starting: Starting, other: Remote) -> None:
    login = (await other.client.users.me()).login
    async with starting(profile="box") as drive:
        assert await info(drive) == {"Name": f"{login}, Box", "Icon": drive_title.icon()}
    async with starting(profile="box", account="work") as drive:
        assert (await info(drive))["Name"] == "work, Box"


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        ({"profile": "box"}, "ada@example.com, Box"),
        ({"profile": "box", "account": "work"}, "work, Box"),
        ({"profile": "box", "folder": "/Projects/Harbour"}, "Harbour, ada@example.com, Box"),
        (SERVER, "ada@example.com, cms.example.com"),
        ({"profile": "box", "read_only": True}, "ada@example.com, Box, read-only"),
    ],
)
def test_what_drives_are_called(settings: dict[str, object], title: str) -> None:
    assert drive_title.title(config.Settings.model_validate(settings), "ada@example.com") == title


async def test_volume_info_is_the_drives_own(drive: Drive, other: Remote) -> None:
    shown = drive.agents.shown
    assert (await info(drive))["Name"] == "Embedded service"
    assert await names(drive) == []
    found = await shown.lookup(ROOT, NAME)
    with fails(errno.EACCES):
        await shown.open(found.ino, os.O_WRONLY | os.O_TRUNC)
    with fails(errno.EPERM):
        await shown.unlink(ROOT, NAME)
    with fails(errno.EPERM):
        await shown.rename(ROOT, NAME, ROOT, "taken", 0)
    await drive.mkdir("d")
    with fails(errno.ENOENT):
        await shown.lookup(await drive.ino("d"), NAME)
    await drive.sync()
    assert await other.paths() == ["d/"]


async def test_own_volume_info_goes_first(drive: Drive, other: Remote) -> None:
    text = b"[Volume Info]\nName=The harbour\n"
    await other.file(NAME, text)
    await drive.poll()
    assert await info(drive) == {"Name": "The harbour"}
    assert await names(drive) == [NAME]
    await drive.write("draft", b"[Volume Info]\nName=The bridge\n")
    await drive.agents.shown.rename(ROOT, "draft", ROOT, NAME, 0)
    await drive.sync()
    assert await other.read(NAME) == b"[Volume Info]\nName=The bridge\n"
    await drive.agents.shown.unlink(ROOT, NAME)
    assert (await info(drive))["Name"] == "Embedded service"
    await drive.sync()
    assert await other.paths() == []
