"""Rights: what others let this account do, as a program meets it."""

import os
import stat
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, get_args

import pytest
import trio

from cmsfs import config
from cmsfs.models.enterprise import collaborations
from cmsfs.replica.changes import ChangeKind
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt, share
from tests.support.network import Network
from tests.support.patience import crowding

Sharing = Callable[[str], Awaitable[None]]


@pytest.fixture
def shared(ben: Remote, user: int, drive: Drive) -> Sharing:
    """`await shared(role)`: a folder `s` of Ben's, with `f` and `d/g` in it, is on our drive."""

    async def make(role: str) -> None:
        folder = await ben.folder("s")
        await ben.file("f", b"in the folder", folder)
        await ben.file("g", b"deeper", await ben.folder("d", folder))
        await share(ben, "folder", folder, role, user)
        await drive.names()
        await drive.poll()
        await drive.names("s")
        await drive.names("s/d")

    return make


async def bits(drive: Drive, path: str) -> str:
    return stat.filemode(drive.fs.getattr(await drive.ino(path)).mode)


async def told(drive: Drive) -> None:
    """The service has said everything that it was asked about rights."""
    with trio.fail_after(30):
        while drive.agents.account.rights._asking:
            await trio.lowlevel.checkpoint()


async def opened(drive: Drive, path: str, flags: int) -> None:
    handle = await drive.fs.open(await drive.ino(path), flags)
    await drive.fs.release(handle.fh)


def promised() -> dict[str, list[str]]:
    """The table of SEMANTICS.md: for each role read, change, create, rename, delete, and the bits."""
    text = (resources.files("cmsfs.vfs") / "SEMANTICS.md").read_text(encoding="utf-8")
    section = text.partition("## Permissions of the service\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    found = {}
    for roles, *cells in rows:
        for role in roles.split(", "):
            found[role] = [cell.strip("`").replace("yes", "ok") for cell in cells[:-1]]
            found[role] += [part.strip("`") for part in cells[-1].split(", ")]
    return found


ROLES = promised()


def test_the_table_names_every_role() -> None:
    assert sorted(ROLES) == sorted(get_args(collaborations.Role))


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_is_mode_bits_and_errno(drive: Drive, shared: Sharing, role: str) -> None:
    await shared(role)
    read, write, create, rename, unlink, file_bits, folder_bits = ROLES[role]
    for folder, name in (("s", "f"), ("s/d", "g")):
        path = f"{folder}/{name}"
        assert await attempt(opened(drive, path, os.O_RDONLY)) == read
        assert await bits(drive, path) == f"-{file_bits}"
        assert await attempt(opened(drive, path, os.O_WRONLY)) == write
        assert await attempt(opened(drive, path, os.O_WRONLY | os.O_TRUNC)) == write
        assert await attempt(drive.write(f"{folder}/new", b"x")) == create
        assert await attempt(drive.mkdir(f"{folder}/newer")) == create
        assert await attempt(drive.rename(path, f"{folder}/h")) == rename
        assert await attempt(drive.unlink(f"{folder}/h" if rename == "ok" else path)) == unlink
    assert await bits(drive, "s/d") == f"d{folder_bits}"
    assert await bits(drive, "s") == f"d{folder_bits}"
    await drive.sync()
    assert drive.ops() == []


@pytest.mark.parametrize("role", ROLES)
async def test_role_denial_fails_the_call(drive: Drive, ben: Remote, shared: Sharing, role: str) -> None:
    await shared(role)
    folder = await ben.find("s")
    await ben.client.web_links.create("https://example.com/", folder.id, name="L")
    await drive.poll()
    await drive.names("s")
    await told(drive)
    read, write, _, rename, *_ = ROLES[role]
    fs = drive.fs

    async def touch(path: str) -> str:
        return await attempt(fs.setattr(await drive.ino(path), SetAttr(mtime_ns=1_600_000_000 * 10**9)))

    async def say(path: str, name: str, value: bytes) -> str:
        return await attempt(fs.setxattr(await drive.ino(path), name, value))

    assert await touch("s/f") == write
    assert await touch("s/d") == "ok"  # kept here
    for path in ("s/f", "s/d", "s/L.url"):
        assert await say(path, "user.cms.description", b"what it is") == rename, path
        assert await say(path, "user.xdg.comment", b"what it is!") == rename, path
        assert await attempt(fs.removexattr(await drive.ino(path), "user.xdg.comment")) in (rename, "ENODATA")
    for path in ("s/f", "s/d"):
        assert await say(path, "user.xdg.tags", b"red") == rename, path
    edited = b"[InternetShortcut]\nURL=https://example.com/2\n"
    assert await attempt(drive.write("s/L.url", edited)) == rename
    both = rename if read == "ok" else "EACCES"
    assert await say("s/L.url", "user.xdg.origin.url", b"https://example.com/3") == both
    # What is known of a single item by a search says the same.
    drive.agents.account.rights._asked_at.clear()
    await drive.names("s")
    await told(drive)
    assert await attempt(opened(drive, "s/L.url", os.O_WRONLY)) == rename
    await drive.sync()
    assert drive.ops() == []


async def test_what_one_owns_is_never_asked_about(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("f", b"mine", await other.folder("d"))
    await drive.names("d")
    await drive.read("d/f")
    await drive.write("d/new", b"x")
    assert drive.agents.health.requests["rights"] == 0


async def test_a_higher_role_further_below_counts(
    drive: Drive, ben: Remote, shared: Sharing, user: int
) -> None:
    await shared("viewer")
    deep = await ben.find("d")
    await share(ben, "folder", deep.id, "editor", user)
    await told(drive)
    drive.agents.account.rights._asked_at.clear()
    drive.agents.account.rights.said.clear()  # as after a restart
    await drive.names("s")
    await told(drive)
    assert await bits(drive, "s/f") == "-r--r--r--"
    assert await bits(drive, "s/d/g") == "-rw-r--r--"
    assert await attempt(drive.write("s/d/new", b"x")) == "ok"
    assert await attempt(drive.write("s/new", b"x")) == "EACCES"


async def test_raised_role_shows_eventually(drive: Drive, ben: Remote, shared: Sharing, user: int) -> None:
    await shared("viewer")
    assert await attempt(drive.write("s/new", b"x")) == "EACCES"
    (found,) = ben.store.read("SELECT id FROM collaboration")
    wire, url = ben.client.folders._wire, f"{errno_probe.URL}/2.0/collaborations/{found['id']}"
    await wire.ask(collaborations.Collaboration, "PUT", url, body={"role": "editor"})
    assert await attempt(drive.write("s/new", b"x")) == "EACCES"
    await told(drive)
    for asked in drive.agents.account.rights._asked_at:
        drive.agents.account.rights._asked_at[asked] -= 10_000
    assert await attempt(drive.write("s/new", b"x")) == "ok"
    assert await attempt(drive.unlink("s/f")) == "ok"
    assert await bits(drive, "s/d/g") == "-rw-r--r--"


async def test_open_sees_rights_sent_while_waiting(
    drive: Drive, ben: Remote, shared: Sharing, network: Network
) -> None:
    await shared("editor")
    await drive.write("s/f", b"the bytes")
    drive.agents.account.rights._asked_at.clear()
    folder = await ben.find("s")
    asked, go_on = network.gate("GET", f"/folders/{folder.id}")
    read: list[bytes] = []

    async def look() -> None:
        handle = await drive.fs.open(await drive.ino("s/f"), os.O_RDONLY)
        read.append(bytes(await drive.fs.read(handle.fh, 0, 100)))
        await drive.fs.release(handle.fh)

    async with trio.open_nursery() as reader:
        reader.start_soon(look)
        await asked.wait()
        await drive.sync()
        go_on.set()
    assert read == [b"the bytes"]


async def test_without_a_network_what_was_said_holds(drive: Drive, shared: Sharing, network: Network) -> None:
    await shared("viewer")
    network.is_down = True
    assert await attempt(drive.write("s/new", b"x")) == "EACCES"


async def test_restore_into_read_only_folder_is_refused(
    drive: Drive, other: Remote, shared: Callable[[str], Any]
) -> None:
    made = await other.client.web_links.create("https://example.com/", "0", name="L")
    await other.client.items.delete("web_link", made.id)
    await shared("viewer")
    shown = drive.agents.shown
    bin_ = (await shown.lookup(1, ".trash")).ino
    assert await attempt(shown.rename(bin_, "L.url", await drive.ino("s"), "L.url", 0)) == "EACCES"
    assert await attempt(shown.rename(bin_, "L.url", 1, "L.url", 0)) == "ok"


@pytest.fixture
def by_events() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events", shared="root")


class TestByEvents:
    """With a stream of events a role counts as soon as it is told."""

    @pytest.fixture
    def settings(self, by_events: config.Settings) -> config.Settings:
        return by_events

    async def change_role(self, ben: Remote, role: str) -> None:
        (found,) = ben.store.read("SELECT id FROM collaboration")
        wire, url = ben.client.folders._wire, f"{errno_probe.URL}/2.0/collaborations/{found['id']}"
        await wire.ask(collaborations.Collaboration, "PUT", url, body={"role": role})

    async def told(self, drive: Drive) -> None:
        await drive.poll()
        with trio.fail_after(5 * crowding()):
            while drive.agents.account.rights._asking:
                await trio.lowlevel.checkpoint()

    async def test_role_change_applies_at_once(self, drive: Drive, ben: Remote, shared: Sharing) -> None:
        await shared("viewer")
        assert await attempt(drive.write("s/new", b"x")) == "EACCES"
        await self.change_role(ben, "editor")
        drive.changes.clear()
        await self.told(drive)
        # The kernel, which holds mode bits for minutes, hears of it.
        inos = {change.ino for change in drive.changes if change.what is ChangeKind.ATTRIBUTES}
        assert {await drive.ino("s"), await drive.ino("s/d/g")} <= inos
        assert await bits(drive, "s/d/g") == "-rw-r--r--"
        assert await attempt(drive.write("s/new", b"x")) == "ok"
        await drive.sync()
        await self.change_role(ben, "viewer")
        await self.told(drive)
        assert await bits(drive, "s/d/g") == "-r--r--r--"
        assert await attempt(drive.write("s/newer", b"x")) == "EACCES"

    async def test_role_change_during_the_request(
        self, drive: Drive, ben: Remote, shared: Sharing, network: Network
    ) -> None:
        await shared("viewer")
        with trio.fail_after(5 * crowding()):
            while drive.agents.account.rights._asking:
                await trio.lowlevel.checkpoint()
        drive.agents.account.rights._asked_at.clear()
        carried_out, go = network.gate("GET", "fields=permissions")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.names, "s")
            with trio.fail_after(5 * crowding()):
                await carried_out.wait()
            await self.change_role(ben, "editor")
            await drive.poll()
            go.set()
        await self.told(drive)
        assert await attempt(drive.write("s/new", b"x")) == "ok"

    async def test_role_change_during_the_search_for_exceptions(
        self, drive: Drive, ben: Remote, shared: Sharing, network: Network
    ) -> None:
        carried_out, go = network.gate("GET", "fields=id%2Ctype%2Cpermissions")
        await shared("viewer")
        with trio.fail_after(5 * crowding()):
            await carried_out.wait()
        assert await attempt(drive.write("s/new", b"x")) == "EACCES"
        await self.change_role(ben, "editor")
        await drive.poll()
        assert await attempt(drive.write("s/new", b"x")) == "ok"
        go.set()
        await self.told(drive)
        assert await attempt(drive.write("s/d/g", b"ours")) == "ok"

    async def test_access_that_is_taken_and_given_again(
        self, drive: Drive, ben: Remote, shared: Sharing, user: int
    ) -> None:
        await shared("viewer")
        (found,) = ben.store.read("SELECT id FROM collaboration")
        await ben.client.collaborations.delete(str(found["id"]))
        await drive.poll()
        assert await drive.names() == []
        folder = await ben.find("s")
        await share(ben, "folder", folder.id, "editor", user)
        await drive.poll()
        assert await drive.names("s/d") == ["g"]
        assert await attempt(drive.write("s/d/g", b"ours")) == "ok"

    async def test_nobody_asks_about_rights_that_nobody_used(
        self, drive: Drive, ben: Remote, user: int
    ) -> None:
        await drive.names()
        await share(ben, "folder", await ben.folder("s"), "viewer", user)
        await self.told(drive)
        assert drive.agents.health.requests["rights"] == 0
