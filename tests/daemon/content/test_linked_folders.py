"""`.shared`: shared links in the drive's `.url` files, as folders; the account has no other right on them."""

import errno
import os

import pytest

from cmsfs.models.content import items
from cmsfs.replica.nodes import ROOT, Ino
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt


async def at(drive: Drive, path: str) -> Ino:
    found = ROOT
    for name in [".shared", *path.split("/")] if path else [".shared"]:
        found = (await drive.agents.shown.lookup(found, name)).ino
    return found


async def names(drive: Drive, path: str = "") -> list[str]:
    shown = drive.agents.shown
    fh = await shown.opendir(await at(drive, path))
    try:
        found: list[str] = []
        after = 0
        while lines := await shown.readdir(fh, after):
            found += [one.name for one in lines]
            after = lines[-1].cookie
        return found
    finally:
        shown.releasedir(fh)


async def read(drive: Drive, path: str) -> bytes:
    shown = drive.agents.shown
    ino = await at(drive, path)
    opened = await shown.open(ino, os.O_RDONLY)
    try:
        return bytes(await shown.read(opened.fh, 0, shown.getattr(ino).size + 1))
    finally:
        await shown.release(opened.fh)


@pytest.fixture
async def plans(ben: Remote) -> str:
    """A folder of Ben's with a folder, files and names that programs obey."""
    folder = await ben.folder("Plans")
    await ben.file("a.txt", b"what Ben wrote", folder)
    await ben.file("large.bin", bytes(range(256)) * 2000, await ben.folder("inner", folder))
    await ben.file("autorun.inf", b"", folder)
    return folder


async def link(ben: Remote, kind: str, item: str, **terms: object) -> str:
    wish = items.NewSharedLink.model_validate({"access": "open"} | terms)
    found = await (
        ben.client.shared_links.share("file", item, wish)
        if kind == "file"
        else ben.client.shared_links.share("folder", item, wish)
    )
    assert found.url is not None
    return found.url


async def test_a_linked_folder_is_read(drive: Drive, other: Remote, ben: Remote, plans: str) -> None:
    url = await link(ben, "folder", plans)
    alone = await link(ben, "file", await ben.file("alone.txt", b"by itself"))
    places = {"Ben's plans": url, "Alone": alone, "Elsewhere": "https://example.com/s/word"}
    for name, address in places.items():
        await other.client.web_links.create(address, "0", name=name)
    await other.client.web_links.create(url, await other.folder("below"), name="Ben's plans")
    assert ".shared" not in await drive.names()
    await drive.names("below")
    assert await names(drive) == ["Ben's plans", "Alone", "Ben's plans (2)"]
    found = await names(drive, "Ben's plans")
    assert found[:2] == ["inner", "a.txt"]
    assert (len(found), "autorun.inf" in found) == (3, False)
    assert await read(drive, "Ben's plans/a.txt") == b"what Ben wrote"
    assert await read(drive, "Ben's plans/inner/large.bin") == bytes(range(256)) * 2000
    assert await names(drive, "Alone") == ["alone.txt"]
    assert await read(drive, "Alone/alone.txt") == b"by itself"
    # Nothing of it is the account's, and nothing can be changed.
    assert await drive.names() == ["Alone.url", "Ben's plans.url", "Elsewhere.url", "below"]
    shown = drive.agents.shown
    assert await attempt(shown.mkdir(await at(drive, "Ben's plans"), "new", 0o755)) == "EPERM"
    assert await attempt(shown.unlink(await at(drive, "Ben's plans"), "a.txt")) == "EPERM"
    assert await attempt(shown.open(await at(drive, "Ben's plans/a.txt"), os.O_WRONLY)) == "EACCES"


@pytest.mark.parametrize(
    ("terms", "number"),
    [({"password": "secret"}, errno.EACCES), ({"access": "collaborators"}, errno.ENOENT)],
    ids=["password", "for a few"],
)
async def test_a_link_that_shows_nothing_is_an_error(
    drive: Drive, other: Remote, ben: Remote, plans: str, terms: dict[str, object], number: int
) -> None:
    await other.client.web_links.create(await link(ben, "folder", plans, **terms), "0", name="Plans")
    await drive.names()
    assert await names(drive) == ["Plans"]
    with pytest.raises(OSError) as told:
        await names(drive, "Plans")
    assert told.value.errno == number


async def test_bytes_that_a_link_does_not_give_are_refused(
    drive: Drive, other: Remote, ben: Remote, plans: str
) -> None:
    url = await link(ben, "folder", plans, permissions={"can_download": False})
    await other.client.web_links.create(url, "0", name="Plans")
    await drive.names()
    assert "a.txt" in await names(drive, "Plans")
    assert await attempt(read(drive, "Plans/a.txt")) == "EACCES"
