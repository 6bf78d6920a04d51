"""What is made and deleted leaves nothing behind, and gives its room back at once."""

import trio

from cmsfs.replica import tree
from cmsfs.sqlite import Connection
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

# More than a page of the journal.
MANY = 100


async def until_gone(drive: Drive, inos: list[int]) -> None:
    with trio.fail_after(20):
        while any(tree.find(drive.db, ino) is not None for ino in inos):
            await trio.lowlevel.checkpoint()


def forget(drive: Drive, inos: list[int]) -> None:
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino)) for ino in inos])


def files_of(drive: Drive) -> list[str]:
    return [path.name for path in drive.agents.state.drafts.root.iterdir() if path.suffix != ".json"]


async def test_files_that_come_and_go_leave_no_rows(drive: Drive, other: Remote) -> None:
    """Uploaded in between: each row is needed until the service has them in its trash."""
    inos = [await drive.write(f"f{number}", b"x%d" % number) for number in range(MANY)]
    await drive.sync()
    for number in range(MANY):
        await drive.unlink(f"f{number}")
    forget(drive, inos)
    await drive.sync()
    await until_gone(drive, inos)
    assert await other.paths() == []
    assert drive.ops() == []


async def test_never_uploaded_files_leave_nothing(drive: Drive, network: Network, other: Remote) -> None:
    await drive.names()
    network.is_down = True
    drive.agents.health.suspect()
    inos = [await drive.write(f"f{number}", b"y%d" % number) for number in range(3 * MANY)]
    for number in range(3 * MANY):
        await drive.unlink(f"f{number}")
    forget(drive, inos)
    await until_gone(drive, inos)
    with trio.fail_after(10):
        while files_of(drive):
            await drive.agents.commit.commit()
    assert drive.ops() == []


async def test_a_deletion_elsewhere_leaves_no_row(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"theirs")
    await drive.poll()
    await drive.names()
    ino = await drive.ino("f")
    forget(drive, [ino])
    await other.client.items.delete("file", number)
    await drive.poll()
    await until_gone(drive, [ino])


async def test_sealed_bytes_go_with_last_file(drive: Drive, network: Network, other: Remote) -> None:
    await drive.names()
    network.is_down = True
    drive.agents.health.suspect()
    data = b"sealed, never sent" * 1000
    inos = [await drive.write(name, data) for name in ("one", "two")]
    for ino in inos:
        draft = drive.agents.state.drafts.find(drive.node(ino).draft)
        assert await drive.agents.push._context.sealer.seal(draft) is not None
    await drive.agents.commit.commit()
    sha1 = drive.node(inos[0]).sha1
    path = drive.agents.state.blocks.path(sha1)
    await drive.unlink("one")
    forget(drive, inos[:1])
    await until_gone(drive, inos[:1])
    assert path.read_bytes() == data
    await drive.unlink("two")
    forget(drive, inos[1:])
    await until_gone(drive, inos[1:])
    with trio.fail_after(10):
        while path.exists():
            await trio.lowlevel.checkpoint()
    await drive.agents.state.blocks.flush()

    def rows(conn: Connection) -> int:
        return int(conn.execute("SELECT count(*) FROM content").fetchone()[0])

    assert await drive.db.query(rows) == 0
