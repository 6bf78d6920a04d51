"""`FOLDER@TIME`: a folder as it was, out of what the service tells; what it does not tell is named."""

import os
import stat
from datetime import UTC, datetime

import pytest

from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.tree.attributes import Attributes
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


def now(other: Remote) -> str:
    """The service's time, as one writes it behind a folder's name."""
    return datetime.fromtimestamp(other.store.now() / 1e6, UTC).isoformat()


async def find(drive: Drive, path: str) -> Attributes:
    found = drive.agents.shown.getattr(ROOT)
    for name in path.split("/"):
        found = await drive.agents.shown.lookup(found.ino, name)
    return found


async def listing(drive: Drive, ino: Ino) -> dict[str, Attributes]:
    shown = drive.agents.shown
    fh = await shown.opendir(ino)
    found: dict[str, Attributes] = {}
    after = 0
    while lines := await shown.readdir(fh, after):
        found |= {one.name: one.attributes for one in lines}
        shown.counted([one.attributes.ino for one in lines])
        after = lines[-1].cookie
    shown.releasedir(fh)
    return found


async def read(drive: Drive, ino: Ino) -> bytes:
    shown = drive.agents.shown
    opened = await shown.open(ino, os.O_RDONLY)
    try:
        return bytes(await shown.read(opened.fh, 0, shown.getattr(ino).size + 1))
    finally:
        await shown.release(opened.fh)


async def tree(drive: Drive, path: str) -> dict[str, bytes | str]:
    """What is below a folder: the bytes of files, or why they cannot be read."""
    found: dict[str, bytes | str] = {}

    async def walk(ino: Ino, above: str) -> None:
        for name, one in (await listing(drive, ino)).items():
            if stat.S_ISDIR(one.mode):
                found[f"{above}{name}/"] = ""
                await walk(one.ino, f"{above}{name}/")
            else:
                said = await attempt(read(drive, one.ino))
                found[above + name] = await read(drive, one.ino) if said == "ok" else said
                assert said != "ok" or one.size == len(found[above + name]), name

    await walk((await find(drive, path)).ino, "")
    return found


async def not_known(drive: Drive, path: str) -> str:
    ino = (await find(drive, path)).ino
    return (await drive.agents.shown.getxattr(ino, "user.cms.not_known")).decode()


@pytest.fixture
async def plans(other: Remote) -> dict[str, str]:
    top = await other.folder("Plans")
    inner = await other.folder("inner", top)
    ids = {"top": top, "inner": inner}
    for name, place in {"a.txt": top, "b.txt": top, "c.bin": inner, "d.txt": inner}.items():
        ids[name] = await other.file(name, f"first {name}".encode(), place)
    return ids


FIRST = {"inner/": "", **{f"inner/{name}": f"first {name}".encode() for name in ("c.bin", "d.txt")}}
FIRST |= {name: f"first {name}".encode() for name in ("a.txt", "b.txt")}


async def test_names_places_and_contents_are_those_of_the_moment(
    drive: Drive, other: Remote, plans: dict[str, str], network: Network, expect_log: ExpectLog
) -> None:
    at = now(other)
    items = other.client.items
    before = (await items.get("file", plans["a.txt"])).modified_at
    await other.write(plans["a.txt"], b"second, and longer")
    await items.update("file", plans["b.txt"], name="renamed", parent_id="0")
    await items.update("file", plans["a.txt"], name="b.txt")
    await other.file("a.txt", b"new since", plans["top"])
    await items.update("folder", plans["inner"], name="outer")
    between = now(other)
    await items.delete("folder", plans["inner"], recursive=True)
    await other.folder("inner", plans["top"])
    await drive.poll()
    assert "Plans@" + at not in await drive.names()
    found = await tree(drive, f"Plans@{at}")
    # Nobody gives out the bytes of what went to the trash with its folder, and they are not here.
    gone = {"inner/c.bin": "EACCES", "inner/d.txt": "EACCES"}
    expect_log(r"as of .* cannot be read: it is in the trash")
    assert found == FIRST | gone
    assert (await find(drive, f"Plans@{at}/a.txt")).mtime_ns == int(before.timestamp() * 1e6) * 1000
    assert set(await tree(drive, f"Plans@{between}")) == {
        "outer/",
        "outer/c.bin",
        "outer/d.txt",
        "a.txt",
        "b.txt",
    }
    # By the name that it had there; where one is; and not where there was none.
    assert set(await tree(drive, f"Plans/inner@{at}")) == {"c.bin", "d.txt"}
    shown = drive.agents.shown
    assert set(await listing(drive, (await shown.lookup(ROOT, f"@{at}")).ino)) == {"Plans"}
    for absent in ("Plans@2020-01-01", "Plans@2999-01-01", "Plans@soon", f"nothing@{at}", "Plans@99999999w"):
        assert await attempt(shown.lookup(ROOT, absent)) == "ENOENT"
    # What is known is known without the service.
    network.is_down = True
    assert await tree(drive, f"Plans@{at}") == FIRST | dict.fromkeys(gone, "ENETDOWN")
    assert await attempt(shown.lookup(ROOT, "Plans@1h")) == "ENETDOWN"


async def test_the_past_is_not_changed(drive: Drive, other: Remote, plans: dict[str, str]) -> None:
    at = now(other)
    await drive.poll()
    shown, past = drive.agents.shown, f"Plans@{at}"
    top, file = (await find(drive, past)).ino, (await find(drive, f"{past}/a.txt")).ino
    await drive.write("mine", b"1")
    refused = [
        shown.mkdir(top, "new", 0o755),
        shown.create(top, "new", 0o644, os.O_WRONLY),
        shown.mknod(top, "new", 0o644),
        shown.symlink(top, "new", b"target"),
        shown.unlink(top, "a.txt"),
        shown.rmdir(top, "inner"),
        shown.rename(top, "a.txt", top, "b.txt", 0),
        shown.rename(top, "a.txt", ROOT, "a.txt", 0),
        shown.rename(ROOT, "mine", top, "mine", 0),
        shown.open(file, os.O_WRONLY),
        shown.setxattr(file, "user.cms.tags", b"x"),
    ]
    assert {await attempt(one) for one in refused} == {"EROFS"}
    assert await attempt(shown.rmdir(ROOT, past)) == "EPERM"
    # What is really called so goes first.
    await drive.mkdir("Plans@1h")
    assert (await shown.lookup(ROOT, "Plans@1h")).ino == await drive.ino("Plans@1h")


async def test_what_is_not_told_is_named(
    drive: Drive, other: Remote, plans: dict[str, str], expect_log: ExpectLog
) -> None:
    await other.write(plans["a.txt"], b"second")
    at = now(other)
    await other.write(plans["a.txt"], b"third")
    await other.client.items.update("file", plans["b.txt"], name="renamed")
    # Neither the events of that time nor the versions are kept any more.
    a = int(plans["a.txt"])
    await other.store.write(lambda conn: conn.execute("DELETE FROM event") and None)
    forget = "DELETE FROM version WHERE file = ?1 AND id < (SELECT max(id) FROM version WHERE file = ?1)"
    await other.store.write(lambda conn: conn.execute(forget, (a,)) and None)
    await drive.poll()
    past = f"Plans@{at}"
    assert "entries" in await not_known(drive, past)
    # It was saved by that name, but may have been renamed since.
    assert await not_known(drive, f"{past}/renamed") == "name,place"
    assert "content" in await not_known(drive, f"{past}/a.txt")
    expect_log(r"a.txt as of .* cannot be read: the service does not tell what it said then")
    refused = await attempt(drive.agents.shown.open((await find(drive, f"{past}/a.txt")).ino, os.O_RDONLY))
    assert refused == "ENODATA"
    # Nothing was changed there since.
    assert await attempt(not_known(drive, f"{past}/inner/c.bin")) == "ENODATA"
