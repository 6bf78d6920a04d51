"""What the flags of `open` and the bits of a folder mean beyond reading and writing."""

import os
import stat

import pytest

from cmsfs.replica.nodes import ROOT
from cmsfs.vfs import permissions
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive


@pytest.mark.parametrize("way", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
async def test_o_trunc_truncates(drive: Drive, way: int) -> None:
    """The kernel sets its size to nothing, however the file is opened."""
    ino = await drive.remote_file(1, "f", b"some bytes")
    opened = await drive.fs.open(ino, way | os.O_TRUNC)
    await drive.fs.release(opened.fh)
    assert drive.fs.getattr(ino).size == 0
    assert await drive.read_file("f") == b""


async def test_who_may_not_write_does_not_cut(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    ino = await drive.remote_file(1, "f", b"some bytes")
    monkeypatch.setattr(drive.shelf, "on", lambda node: permissions.NodeRight.READ)
    with pytest.raises(PermissionError):
        await drive.fs.open(ino, os.O_RDONLY | os.O_TRUNC)
    assert await drive.read_file("f") == b"some bytes"


async def test_setgid_folders_inherit_group(drive: Drive) -> None:
    top = await drive.fs.mkdir(ROOT, "d", 0o755)
    await drive.fs.setattr(top.ino, SetAttr(mode=stat.S_IFDIR | 0o2755))
    inner = await drive.fs.mkdir(top.ino, "e", 0o700)
    assert stat.S_IMODE(inner.mode) == 0o2700
    ino = await drive.write_file("f", b"x", parent=top.ino)
    assert stat.S_IMODE(drive.fs.getattr(ino).mode) == 0o644


async def test_own_unsent_bytes_are_always_readable(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    ino = await drive.remote_file(1, "f", b"theirs")
    other = await drive.remote_file(2, "g", b"theirs")
    opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
    await drive.fs.write(opened.fh, 0, b"mine")
    await drive.fs.release(opened.fh)
    monkeypatch.setattr(drive.shelf, "on", lambda node: permissions.NONE)
    for is_sealed in (False, True):
        if is_sealed:
            await drive.seal(ino)
        assert stat.S_IMODE(drive.fs.getattr(ino).mode) == 0o444
        assert await drive.read_file("f") == b"mine"
        with pytest.raises(PermissionError):
            await drive.fs.open(ino, os.O_WRONLY)
    with pytest.raises(PermissionError):
        await drive.fs.open(other, os.O_RDONLY)
