"""The folder of the trash: what each refusal is, what stays called what, the list of the desktop."""

import errno
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cmsfs import errors
from cmsfs.models.content import items
from cmsfs.replica.nodes import ROOT, Ino, ItemKey, NodeKind, Remote, remote_from_item
from cmsfs.vfs.virtual import trash
from cmsfs.vfs.virtual.desktop_trash import DesktopTrash
from cmsfs.vfs.virtual.node import VirtualFile, VirtualFolder
from tests.vfs.conftest import Drive


class Service:
    """The trash as a list; `fails` is what every change ends with."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.items: list[Remote] = []
        self.asked = 0
        self.purged: list[str] = []
        self.fails: Exception | None = None

    def add(self, name: str, number: int = 7) -> Remote:
        item = items.File.model_validate(
            {"id": str(number), "name": name, "size": 3, "trashed_at": "2026-11-21T10:15:03+00:00"}
        )
        self.items.append(remote_from_item(item))
        return self.items[-1]

    def pages(self) -> "Service":
        self.asked += 1
        self._left = [self.items[:2], self.items[2:]]
        return self

    async def next(self) -> Sequence[Remote]:
        while self._left:
            if page := self._left.pop(0):
                return page
        return []

    async def settle(self) -> bool:
        return False

    def original_path(self, item: Remote) -> str:
        return f"/{item.name}"

    async def restore(self, item: Remote, parent: Ino, name: str) -> Ino:
        await self._change(item)
        return await self.drive.write_file(name, b"back", parent=parent)

    async def purge(self, item: Remote) -> None:
        await self._change(item)
        self.purged.append(item.id)

    async def put(self, parent: Ino, name: str) -> ItemKey:
        await self.drive.fs.unlink(parent, name)
        return self.add(name, 100 + len(self.items)).key

    async def _change(self, item: Remote) -> None:
        if self.fails:
            raise self.fails
        self.items.remove(item)


class Kept:
    def __init__(self) -> None:
        self.text = ""

    def load(self) -> str:
        return self.text

    async def store(self, text: str) -> None:
        self.text = text


@pytest.fixture
def service(drive: Drive) -> Service:
    return Service(drive)


@pytest.fixture
def folder(drive: Drive, service: Service) -> trash.TrashFolder:
    return trash.TrashFolder(service, drive.blocks)


async def names(folder: VirtualFolder) -> list[str]:
    await folder.opened()
    found: list[str] = []
    while lines := await folder.entries(len(found)):
        found += [name for name, _ in lines]
    return found


@pytest.mark.parametrize(
    ("raised", "number"),
    [
        (errors.NotFound(404, "not_trashed", "it is not in the trash"), errno.ENOENT),
        (errors.Conflict(409, "item_name_in_use", "the name is taken"), errno.EEXIST),
        (errors.Forbidden(403, "access_denied_insufficient_permissions", "no right to it"), errno.EACCES),
        (errors.Forbidden(403, "forbidden_by_policy", "A legal hold protects this"), errno.EPERM),
    ],
)
async def test_each_refusal_has_its_number_and_a_line(
    folder: trash.TrashFolder, service: Service, expect_log: Callable[[str], None], raised: Any, number: int
):
    service.add("a.txt")
    service.fails = raised
    expect_log("be restored|cannot be restored")
    with pytest.raises(OSError, check=lambda error: error.errno == number):
        await folder.move_out("a.txt", ROOT, "a.txt", 0)
    expect_log("be permanently deleted")
    with pytest.raises(OSError, check=lambda error: error.errno == number):
        await folder.remove("a.txt", folder=False)
    assert service.purged == []


async def test_a_name_stays_while_others_come_and_go(folder: trash.TrashFolder, service: Service):
    service.add("a.txt", 1)
    assert await names(folder) == ["a.txt"]
    service.items.insert(0, service.add("a.txt", 2))
    service.items.pop()
    folder.changed()
    first = await names(folder)
    assert first[1] == "a.txt"
    assert first[0].startswith("a (2026-11-21 ")
    del service.items[1]
    folder.changed()
    assert await names(folder) == first[:1]


async def test_a_wrong_kind_of_removal_purges_nothing(folder: trash.TrashFolder, service: Service):
    service.add("a.txt")
    with pytest.raises(NotADirectoryError):
        await folder.remove("a.txt", folder=True)
    assert service.purged == []


async def test_programs_that_look_at_many_names_ask_once(folder: trash.TrashFolder, service: Service):
    for number in range(10):
        service.add(f"f{number}", number)
    for number in range(10):
        await folder.child(f"f{number}")
    assert service.asked == 1


async def test_trash_of_file_manager_restores(folder: trash.TrashFolder, service: Service, drive: Drive):
    kept = Kept()
    desktop = DesktopTrash(folder, kept)
    notes, files = await desktop.child("info"), await desktop.child("files")
    assert isinstance(notes, VirtualFolder)
    assert isinstance(files, VirtualFolder)
    await drive.write_file("x", b"1")
    await notes.create("x.trashinfo")
    # As GLib writes it.
    note = await notes.create("x.trashinfo.A1B2C3")
    await note.write(0, b"[Trash Info]\nPath=x\n")
    await notes.rename("x.trashinfo.A1B2C3", notes, "x.trashinfo", 0)
    await files.take_in(ROOT, "x", "x", 0)
    assert await names(files) == ["x"]
    assert await names(folder) == ["x"]
    # Another start of the drive knows it, with its note.
    again = await DesktopTrash(folder, kept).child("info")
    assert isinstance(again, VirtualFolder)
    found = await again.child("x.trashinfo")
    assert isinstance(found, VirtualFile)
    assert await found.open() == b"[Trash Info]\nPath=x\n"
    await files.move_out("x", ROOT, "x", 0)
    await notes.remove("x.trashinfo", folder=False)
    assert drive.names() == ["x"]
    assert await names(files) == await names(notes) == []


async def test_emptying_the_trash_of_the_desktop_purges_nothing(
    folder: trash.TrashFolder, service: Service, drive: Drive
):
    desktop = DesktopTrash(folder, Kept())
    files, expunged = await desktop.child("files"), await desktop.child("expunged")
    assert isinstance(files, VirtualFolder)
    assert isinstance(expunged, VirtualFolder)
    for name in ("x", "y"):
        await drive.write_file(name, b"1")
        await files.take_in(ROOT, name, name, 0)
    await files.rename("x", expunged, "123", 0)
    await expunged.remove("123", folder=False)
    await files.remove("y", folder=False)
    assert await names(files) == []
    assert sorted(await names(folder)) == ["x", "y"]
    assert service.purged == []


async def test_desktop_trash_follows_remote_changes(
    folder: trash.TrashFolder, service: Service, drive: Drive
):
    files = await DesktopTrash(folder, Kept()).child("files")
    assert isinstance(files, VirtualFolder)
    await drive.write_file("x", b"1")
    await files.take_in(ROOT, "x", "x", 0)
    service.items.clear()
    folder.changed()
    assert await names(files) == []


def test_trashed_link_has_its_drive_name() -> None:
    link = remote_from_item(items.WebLink(id="1", name="Example", url="https://example.com/"))
    assert link.kind is NodeKind.LINK
    assert trash.drive_name(link, ROOT, "Example.url") == ("Example", "Example.url")
    assert trash.drive_name(link, ROOT, "New.url") == ("New", "New.url")
    # A program that leaves the ending out gets it all the same.
    assert trash.drive_name(link, ROOT, "New") == ("New", "New.url")
    odd = remote_from_item(items.WebLink(id="1", name="x.url", url="https://example.com/"))
    assert trash.drive_name(odd, ROOT, "x.url") == ("x.url", "x.url")


@pytest.mark.parametrize(("own", "wished"), [(".search", ".search"), ("a", "a@versions")])
def test_nothing_is_restored_under_a_name_of_the_drive(own: str, wished: str) -> None:
    item = remote_from_item(items.Folder(id="1", name=own))
    with pytest.raises(PermissionError):
        trash.drive_name(item, ROOT, wished)
