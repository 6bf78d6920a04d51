"""What the kernel asks by number alone, when a program comes with a file handle that it was once given."""

import errno

import pytest

from cmsfs.replica.nodes import ROOT
from tests.vfs.conftest import Drive


async def test_forgotten_inode_is_found_by_number(drive: Drive) -> None:
    folder = await drive.fs.mkdir(ROOT, "d", 0o755)
    ino = await drive.write_file("f", b"abc", parent=folder.ino)
    drive.fs.forget([(ino, 1), (folder.ino, 1)])
    assert drive.fs.inodes.lookups(ino) == 0
    found = await drive.fs.lookup(ino, ".")
    assert (found.ino, found.size) == (ino, 3)
    above = await drive.fs.lookup(folder.ino, "..")
    assert above.ino == ROOT
    assert (await drive.fs.lookup(folder.ino, ".")).ino == folder.ino
    drive.fs.forget([(ino, 1), (folder.ino, 1)])
    assert drive.fs.inodes.totals() == (0, 0)


async def test_what_was_deleted_is_stale(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abc")
    await drive.fs.unlink(ROOT, "f")
    for number in (ino, 10**6):
        with pytest.raises(OSError) as stale:
            await drive.fs.lookup(number, ".")
        assert stale.value.errno == errno.ESTALE
    assert drive.fs.inodes.totals() == (0, 0)
