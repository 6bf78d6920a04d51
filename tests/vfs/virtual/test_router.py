"""What is no row of the tree beside the tree: numbers, pages, moves from one to the other."""

import errno
import os
import stat
from collections.abc import Hashable, Sequence

import pytest

from cmsfs import errors
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT, Content, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import DirEntry
from cmsfs.vfs.virtual.node import FIRST, Views, VirtualFile, VirtualFolder, VirtualLink, VirtualNode
from cmsfs.vfs.virtual.router import HiddenFolder, Router
from tests.vfs.conftest import Drive

PAGE = 3


class Words(VirtualFile):
    def __init__(self, word: str) -> None:
        super().__init__(("word", word), mtime_ns=1)
        self.word = word
        self.size = len(word)

    async def open(self) -> bytes | Content:
        return self.word.encode()

    async def xattrs(self) -> dict[str, bytes]:
        return {"user.cms.word": self.word.encode()}


class Shelf(VirtualFolder):
    """Names in it are words; a word that is moved out becomes an empty file of the account."""

    def __init__(self, drive: Drive, words: Sequence[str]) -> None:
        super().__init__("shelf", mtime_ns=1)
        self.drive = drive
        self.words = list(words)
        self.fails: Exception | None = None

    async def child(self, name: str) -> VirtualNode:
        if self.fails:
            raise self.fails
        return await super().child(name)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        return [(word, Words(word)) for word in self.words[position : position + PAGE]]

    async def remove(self, name: str, *, folder: bool) -> None:
        self.words.remove(name)

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        if self.fails:
            raise self.fails
        self.words.remove(name)
        return Words(name).key, await self.drive.write_file(new_name, name.encode(), parent=parent)

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        await self.drive.fs.unlink(parent, name)
        self.words.append(new_name)


class Echo(Views):
    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        return VirtualLink(("echo", name), name.encode()) if name.endswith("@echo") else None


@pytest.fixture
def shelf(drive: Drive) -> Shelf:
    return Shelf(drive, [f"w{number}" for number in range(8)])


@pytest.fixture
def told() -> list[Change]:
    return []


@pytest.fixture
def shown(drive: Drive, shelf: Shelf, told: list[Change]) -> Router:
    hub = Hub()
    hub.subscribe(told.extend)
    hidden = [HiddenFolder(".shelf", shelf), HiddenFolder(".seen", Shelf(drive, []), listed=True)]
    return Router(drive.fs, drive.blocks, drive.shelf, hub, hidden=hidden, views=[Echo()])


async def _all(shown: Router, ino: Ino) -> list[DirEntry]:
    fh = await shown.opendir(ino)
    found: list[DirEntry] = []
    while lines := await shown.readdir(fh, found[-1].cookie if found else 0):
        found += lines
    shown.releasedir(fh)
    return found


async def test_hidden_folder_is_not_listed(shown: Router, drive: Drive):
    await drive.write_file("mine", b"x")
    assert [line.name for line in await _all(shown, ROOT)] == ["mine", ".seen"]
    found = await shown.lookup(ROOT, ".shelf")
    assert stat.S_ISDIR(found.mode)
    assert found.ino >= FIRST
    assert [line.name for line in await _all(shown, found.ino)] == [f"w{number}" for number in range(8)]


async def test_virtual_folder_cannot_be_renamed(shown: Router, drive: Drive):
    await drive.write_file("f", b"x")
    assert (await shown.lookup(ROOT, "f@echo")).ino >= FIRST
    for remove in (shown.rmdir, shown.unlink):
        with pytest.raises(PermissionError) as refused:
            await remove(ROOT, "f@echo")
        assert refused.value.errno == errno.EPERM
    with pytest.raises(PermissionError):
        await shown.rename(ROOT, "f@echo", ROOT, "g", 0)
    with pytest.raises(FileNotFoundError):
        await shown.rmdir(ROOT, "nothing")
    with pytest.raises(FileNotFoundError):
        await shown.rename(ROOT, "nothing", ROOT, "g", 0)


async def test_virtual_inode_is_stable_while_known(shown: Router):
    folder = await shown.lookup(ROOT, ".shelf")
    first = await shown.lookup(folder.ino, "w1")
    assert (await shown.lookup(folder.ino, "w1")).ino == first.ino
    assert {line.name: line.attributes.ino for line in await _all(shown, folder.ino)}["w1"] == first.ino
    shown.forget([(first.ino, 2)])
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
        shown.getattr(first.ino)


async def test_numbers_that_nobody_knows_are_let_go(shown: Router, drive: Drive):
    folder = await shown.lookup(ROOT, ".shelf")
    assert drive.fs.inodes.is_known(folder.ino)
    lines = await _all(shown, folder.ino)
    shown.forget([(folder.ino, 1)])
    for line in lines:
        assert not drive.fs.inodes.is_known(line.attributes.ino)
        with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
            shown.getattr(line.attributes.ino)
    assert not drive.fs.inodes.is_known(folder.ino)
    # The folder itself is fixed.
    assert shown.getattr(folder.ino).ino == folder.ino


async def test_missed_name_is_remembered_per_folder(shown: Router, drive: Drive):
    folder = (await shown.mkdir(ROOT, "folder", 0o755)).ino
    await shown.create(folder, "there", 0o644, os.O_RDWR)
    await shown.lookup(folder, "there")
    assert not drive.fs.inodes.has_denied(folder)
    with pytest.raises(FileNotFoundError):
        await shown.lookup(folder, "absent")
    assert drive.fs.inodes.has_denied(folder)
    shown.forget([(folder, 1)])
    assert not drive.fs.inodes.has_denied(folder)
    # What a view shows is no row either, and gives way to one of that name.
    assert stat.S_ISLNK((await shown.lookup(ROOT, "what@echo")).mode)
    assert drive.fs.inodes.has_denied(ROOT)


async def test_what_is_shown_is_read_and_not_written(shown: Router):
    folder = await shown.lookup(ROOT, ".shelf")
    word = await shown.lookup(folder.ino, "w3")
    opened = await shown.open(word.ino, os.O_RDONLY)
    assert await shown.read(opened.fh, 1, 10) == b"3"
    await shown.release(opened.fh)
    assert await shown.getxattr(word.ino, "user.cms.word") == b"w3"
    assert await shown.listxattr(word.ino) == ["user.cms.word"]
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC):
        with pytest.raises(PermissionError):
            await shown.open(word.ino, flags)
    with pytest.raises(PermissionError):
        await shown.create(folder.ino, "new", 0o644, os.O_WRONLY)
    with pytest.raises(PermissionError):
        await shown.mkdir(folder.ino, "new", 0o755)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOTSUP):
        await shown.setxattr(word.ino, "user.cms.word", b"x")


async def test_restored_item_keeps_answering_its_old_inode(
    shown: Router, drive: Drive, shelf: Shelf, told: list[Change]
):
    folder = await shown.lookup(ROOT, ".shelf")
    word = await shown.lookup(folder.ino, "w2")
    await shown.rename(folder.ino, "w2", ROOT, "out.txt", 0)
    assert "w2" not in shelf.words
    assert shown.getattr(word.ino).ino == word.ino
    opened = await shown.open(word.ino, os.O_RDONLY)
    assert await shown.read(opened.fh, 0, 10) == b"w2"
    await shown.release(opened.fh)
    # The kernel hears that the name is another inode now.
    assert Change(ChangeKind.ENTRY, 0, ROOT, "out.txt") in told
    assert (await shown.lookup(ROOT, "out.txt")).ino < FIRST
    shelf.words.append("w2")
    assert (await shown.lookup(folder.ino, "w2")).ino != word.ino


async def test_item_moved_to_the_trash_leaves_the_tree(shown: Router, drive: Drive, shelf: Shelf):
    await drive.write_file("mine", b"x")
    folder = await shown.lookup(ROOT, ".shelf")
    await shown.rename(ROOT, "mine", folder.ino, "mine", 0)
    assert drive.names() == []
    assert "mine" in shelf.words


async def test_the_hidden_names_are_taken(shown: Router, drive: Drive):
    await drive.write_file("mine", b"x")
    with pytest.raises(PermissionError):
        await shown.mkdir(ROOT, ".shelf", 0o755)
    with pytest.raises(PermissionError):
        await shown.rename(ROOT, "mine", ROOT, ".shelf", 0)
    with pytest.raises(PermissionError):
        await shown.rmdir(ROOT, ".shelf")
    assert (await drive.fs.lookup(ROOT, "mine")).size == 1


async def test_a_view_answers_for_what_is_absent_only(shown: Router, drive: Drive):
    found = await shown.lookup(ROOT, "a@echo")
    assert await shown.readlink(found.ino) == b"a@echo"
    await drive.write_file("b@echo", b"x")
    assert stat.S_ISREG((await shown.lookup(ROOT, "b@echo")).mode)
    with pytest.raises(FileNotFoundError) as absent:
        await shown.lookup(ROOT, "nothing")
    assert not isinstance(absent.value, errno_map.TransientEnoent)


@pytest.mark.parametrize(
    ("raised", "number"),
    [
        (errors.Offline("no"), errno.ENETDOWN),
        (FileNotFoundError(errno.ENOENT, "no"), errno.ENOENT),
        (PermissionError(errno.EPERM, "no"), errno.EPERM),
    ],
)
async def test_what_fails_there_has_a_number(shown: Router, shelf: Shelf, raised: Exception, number: int):
    folder = await shown.lookup(ROOT, ".shelf")
    shelf.fails = raised
    with pytest.raises(OSError, check=lambda error: error.errno == number) as seen:
        await shown.lookup(folder.ino, "w1")
    # Nobody tells the kernel when it comes.
    assert number != errno.ENOENT or isinstance(seen.value, errno_map.TransientEnoent)
