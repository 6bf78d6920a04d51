"""The trash of the service as a folder of the drive, without a kernel: what is in it, out of it, into it."""

import errno
from collections.abc import AsyncIterator

import pytest
import trio

from cmsfs import config
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.virtual.node import FIRST
from daemon.content import trash
from tests.support.daemon_drive import Drive, Remote, Starting, fails
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.trash_bin import Bin


@pytest.fixture
def bin_(drive: Drive) -> Bin:
    return Bin(drive)


async def test_trash_lists_deleted_items_with_details(drive: Drive, other: Remote, bin_: Bin):
    docs = await other.folder("docs")
    await other.file("a.txt", b"one", docs)
    await other.client.web_links.create("https://example.com/", docs, name="Example")
    await other.folder("old", docs)
    for name, _ in (("docs/a.txt", 0), ("docs/Example.url", 0)):
        await drive.unlink(name)
    await drive.rmdir("docs/old")
    # Still on their way, which takes a moment; looking waits for them.
    assert sorted(await bin_.names()) == ["Example.url", "a.txt", "old"]
    told = await bin_.xattrs("a.txt")
    assert told["user.cms.original_path"] == "/docs/a.txt"
    assert told["user.cms.deleted_by"] == told["user.cms.owner"] == "Ada Tester <ada@example.com>"
    assert told["user.cms.purged_at"] > told["user.cms.trashed_at"]
    assert (told["user.cms.type"], told["user.cms.size"]) == ("file", "3")
    assert (await bin_.xattrs("Example.url"))["user.cms.url"] == "https://example.com/"
    assert (await bin_.xattrs("old"))["user.cms.type"] == "folder"


async def test_names_that_clash_are_told_apart_and_stay(drive: Drive, other: Remote, bin_: Bin):
    for text in (b"1", b"2", b"3"):
        await drive.write("x.txt", text)
        await drive.sync()
        await drive.unlink("x.txt")
        await drive.sync()
    first = await bin_.names()
    assert first[0] == "x.txt"
    assert len(set(first)) == 3
    assert all(name.startswith("x (20") and name.endswith(").txt") for name in first[1:2])
    # The one that has the plain name goes; the others are called what they were called.
    await bin_.purge("x.txt")
    assert sorted(await bin_.names()) == sorted(first[1:])


async def test_restore_by_move_keeps_file_id(drive: Drive, other: Remote, bin_: Bin):
    docs = await other.folder("docs")
    await other.folder("elsewhere")
    made = await other.file("a.txt", b"one", docs)
    await drive.unlink("docs/a.txt")
    assert await bin_.names() == ["a.txt"]
    await bin_.out("a.txt", "elsewhere/b.txt")
    assert await drive.names("elsewhere") == ["b.txt"]
    assert drive.node(await drive.ino("elsewhere/b.txt")).remote_id == made
    assert await drive.read("elsewhere/b.txt") == b"one"
    assert drive.ops() == []
    assert await bin_.names() == []
    assert "elsewhere/b.txt" in await other.paths()


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
async def test_restored_item_passes_its_old_folder_without_a_conflict(
    starting: Starting, other: Remote, network: Network, name: str
) -> None:
    """It is restored there, under its new name, and then moved; the drive has a new file of this name, not
    uploaded yet."""
    await other.folder("elsewhere")
    await other.client.items.delete("file", await other.file("a.txt", b"one"))
    async with starting(agents=("health", "fs")) as drive:
        bin_ = Bin(drive)
        assert await bin_.names() == ["a.txt"]
        await drive.write(name, b"two")
        restored, move = network.gate("PUT", "/files/", before=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bin_.out, "a.txt", f"elsewhere/{name}")
            with trio.fail_after(5):
                await restored.wait()
            await drive.poll()
            move.set()
    async with starting() as drive:
        await drive.sync()
        await drive.poll()
        assert await drive.names() == [name, "elsewhere"]
        assert await drive.read(name) == b"two"
        assert await drive.read(f"elsewhere/{name}") == b"one"
        assert await other.paths() == [name, "elsewhere/", f"elsewhere/{name}"]


@pytest.mark.parametrize("ours", ["new file", "new folder", "renamed"])
async def test_what_is_sent_to_the_old_place_of_a_restored_item_waits_until_that_has_passed(
    drive: Drive, other: Remote, network: Network, bin_: Bin, ours: str
) -> None:
    await other.folder("elsewhere")
    kind = "folder" if ours == "new folder" else "file"
    made = await (other.folder("a") if kind == "folder" else other.file("a", b"one"))
    await other.file("b", b"two")
    await other.client.items.delete(kind, made)
    await drive.read("b")
    restored, move = network.gate("PUT", f"/{kind}s/{made}", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bin_.out, "a", "elsewhere/a")
        with trio.fail_after(5):
            await restored.wait()
        match ours:
            case "new file":
                await drive.write("a", b"two")
            case "new folder":
                await drive.mkdir("a")
            case _:
                await drive.rename("b", "a")
        with trio.fail_after(5):
            # It was refused, and who has its name is asked.
            while not network.count("GET", f"/{kind}s/{made}"):
                await trio.lowlevel.checkpoint()
        move.set()
    await drive.sync()
    await drive.poll()
    assert drive.node(await drive.ino("elsewhere/a")).remote_id == made
    assert [path for path in await drive.names() if path != "b"] == ["a", "elsewhere"]
    assert [path.rstrip("/") for path in await other.paths() if path != "b"] == [
        "a",
        "elsewhere",
        "elsewhere/a",
    ]


async def test_what_is_being_deleted_is_not_restored_before_that_is_answered(
    drive: Drive, other: Remote, bin_: Bin, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that has to be sent again would delete it again."""
    monkeypatch.setattr(trash, "SETTLE_SECONDS", 0.1)
    await other.file("f", b"one")
    sent, answered = network.gate("DELETE", "/files/")
    await drive.unlink("f")
    await sent.wait()
    assert await bin_.names() == ["f"]
    with fails(errno.EBUSY):
        await bin_.out("f", "g")
    assert await other.paths() == []
    answered.set()
    await drive.sync()
    await bin_.out("f", "g")
    assert await drive.names() == await other.paths() == ["g"]


async def test_what_is_purged_while_it_is_restored_is_gone(
    drive: Drive, other: Remote, bin_: Bin, network: Network, expect_log: ExpectLog
) -> None:
    """And nobody has told the drive so far."""
    expect_log("no longer in the trash")
    number = await other.file("f", b"one")
    await other.folder("d")
    await drive.unlink("f")
    await drive.sync()
    restored, answered = network.gate("POST", f"/files/{number}")

    async def restore() -> None:
        with fails(errno.ENOENT):
            await bin_.out("f", "d/f")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(restore)
        await restored.wait()
        await other.client.items.delete("file", number)
        await other.client.items.purge("file", number)
        answered.set()
    assert await drive.names("d") == []
    assert await drive.names() == ["d"]


async def test_folder_restore_includes_contents(drive: Drive, other: Remote, bin_: Bin):
    docs = await other.folder("docs")
    await other.file("a.txt", b"one", await other.folder("deep", docs))
    await drive.names("docs/deep")
    await bin_.take("docs", "docs")
    assert await drive.names() == []
    assert await bin_.names() == ["docs"]
    await bin_.out("docs", "docs")
    assert await drive.read("docs/deep/a.txt") == b"one"
    await drive.poll()
    assert await drive.read("docs/deep/a.txt") == b"one"


async def test_taken_original_name_allows_other_target(drive: Drive, other: Remote, bin_: Bin):
    await other.folder("elsewhere")
    await other.file("a.txt", b"one")
    await drive.unlink("a.txt")
    await drive.sync()
    await drive.write("a.txt", b"two")
    await drive.sync()
    with fails(errno.EEXIST):
        await bin_.out("a.txt", "a.txt")
    await bin_.out("a.txt", "elsewhere/a.txt")
    assert await drive.read("elsewhere/a.txt") == b"one"
    assert await drive.read("a.txt") == b"two"


async def test_restore_into_new_folder(drive: Drive, other: Remote, bin_: Bin):
    await other.file("a.txt", b"one")
    await drive.unlink("a.txt")
    await bin_.names()
    await drive.mkdir("new")
    await bin_.out("a.txt", "new/a.txt")
    assert await drive.read("new/a.txt") == b"one"


async def test_item_restored_or_purged_elsewhere_is_gone(
    drive: Drive, other: Remote, bin_: Bin, expect_log: ExpectLog
):
    for name in ("a", "b"):
        await other.client.items.delete("file", await other.file(name))
    assert sorted(await bin_.names()) == ["a", "b"]
    for item in [item async for item in other.client.trash.items()]:
        await (other.client.items.restore if item.name == "a" else other.client.items.purge)("file", item.id)
    expect_log("it is no longer in the trash")
    with fails(errno.ENOENT):
        await bin_.out("a", "x")
    with fails(errno.ENOENT):
        await bin_.purge("b")


async def test_poll_shows_what_was_purged_elsewhere(drive: Drive, other: Remote, bin_: Bin):
    file = await other.file("a")
    await other.client.items.delete("file", file)
    assert await bin_.names() == ["a"]
    await other.client.items.purge("file", file)
    await drive.agents.poll(full=False)
    assert await bin_.names() == []


async def test_cached_bytes_are_readable_in_trash(drive: Drive, other: Remote, bin_: Bin):
    await other.file("seen", b"one")
    await other.file("unseen", b"two")
    assert await drive.read("seen") == b"one"
    for name in ("seen", "unseen"):
        await drive.unlink(name)
    found = {name: (await bin_.shown.lookup(await bin_.ino(), name)).ino for name in ("seen", "unseen")}
    opened = await bin_.shown.open(found["seen"], 0)
    assert await bin_.shown.read(opened.fh, 0, 10) == b"one"
    await bin_.shown.release(opened.fh)
    with fails(errno.EACCES):
        await bin_.shown.open(found["unseen"], 0)


async def test_unsent_file_is_uploaded_before_trashing(drive: Drive, other: Remote, bin_: Bin):
    await drive.write("new.txt", b"only here")
    await bin_.take("new.txt", "new.txt")
    assert await drive.names() == []
    assert await bin_.names() == ["new.txt"]
    await bin_.out("new.txt", "back.txt")
    assert await other.read("back.txt") == b"only here"


async def test_folder_with_unsent_bytes_is_refused(
    drive: Drive, other: Remote, bin_: Bin, network: Network, expect_log: ExpectLog
):
    await other.folder("docs")
    await drive.write("docs/notes.tmp", b"a local one")
    expect_log("it contains local-only files")
    with fails(errno.EBUSY):
        await bin_.take("docs", "docs")
    assert await drive.read("docs/notes.tmp") == b"a local one"
    await drive.unlink("docs/notes.tmp")
    await drive.write("docs/new.txt", b"unsent")
    network.is_down = True
    drive.agents.health.suspect()
    while drive.agents.health.can_ask:
        await drive.agents.health.changed()
    with fails(errno.ENETDOWN):
        await bin_.take("docs", "docs")
    assert await drive.read("docs/new.txt") == b"unsent"
    network.is_down = False


async def test_item_moving_out_survives_folder_deletion(drive: Drive, other: Remote, bin_: Bin):
    await other.file("keep.txt", b"keep", await other.folder("docs"))
    await drive.rename("docs/keep.txt", "keep.txt")
    await bin_.take("docs", "docs")
    assert await drive.names() == ["keep.txt"]
    assert await other.paths() == ["keep.txt"]
    await drive.poll()
    assert await drive.read("keep.txt") == b"keep"


async def test_a_file_that_is_being_written_stays(
    drive: Drive, other: Remote, bin_: Bin, expect_log: ExpectLog, monkeypatch: pytest.MonkeyPatch
):
    await other.folder("docs")
    monkeypatch.setattr(trash, "SEND_SECONDS", 0.3)
    opened, _ = await drive.fs.create(await drive.ino("docs"), "open.txt", 0o644, 1)
    await drive.fs.write(opened.fh, 0, b"half")
    expect_log("it has pending uploads")
    with fails(errno.EBUSY):
        await bin_.take("docs", "docs")
    await drive.fs.release(opened.fh)
    assert await drive.read("docs/open.txt") == b"half"


async def test_without_a_network_it_says_so(drive: Drive, bin_: Bin, network: Network):
    network.is_down = True
    drive.agents.health.suspect()
    while drive.agents.health.can_ask:
        await drive.agents.health.changed()
    with fails(errno.ENETDOWN):
        await bin_.names()


class TestOfTheSpecification:
    """A service that has the specification's operations and no others."""

    @pytest.fixture
    def settings(self) -> config.Settings:
        return config.Settings(
            settle_seconds=0,
            network_seconds=5,
            profile="specification",
            base_url="http://x.test/2.0",
            upload_url="http://x.test/2.0",
            auth_url="http://x.test",
        )

    @pytest.fixture
    async def link(self, other: Remote) -> AsyncIterator[str]:
        docs = await other.folder("docs")
        await other.folder("elsewhere")
        made = await other.client.web_links.create("https://example.com/", docs, name="Example")
        await other.client.items.delete("web_link", made.id)
        yield made.id

    async def test_the_trash_is_found_by_search(self, drive: Drive, bin_: Bin, link: str):
        assert await bin_.names() == ["Example.url"]

    async def test_link_restores_under_new_name(self, drive: Drive, bin_: Bin, link: str):
        await bin_.out("Example.url", "docs/Better.url")
        assert await drive.names("docs") == ["Better.url"]

    async def test_elsewhere_is_refused_while_its_folder_is_there(
        self, drive: Drive, bin_: Bin, link: str, network: Network, expect_log: ExpectLog
    ):
        await drive.names("docs")
        expect_log("restores a web link to /docs only")
        with fails(errno.EPERM):
            await bin_.out("Example.url", "elsewhere/Example.url")
        assert not [path for method, path in network.requests if method == "POST" and "/web_links/" in path]

    async def test_restore_shows_in_unlisted_folder(
        self, drive: Drive, bin_: Bin, other: Remote, link: str, expect_log: ExpectLog
    ):
        # The tree does not know the folder yet: it is asked, and the answer says where the link is.
        await drive.names()
        made = await other.folder("late")
        late = await other.client.web_links.create("https://example.com/2", made, name="Late")
        await other.client.items.delete("web_link", late.id)
        expect_log("restores a web link to")
        with fails(errno.EPERM):
            await bin_.out("Late.url", "elsewhere/Late.url")
        await drive.poll()
        assert await drive.names("late") == ["Late.url"]

    async def test_restore_without_original_folder_uses_target(
        self, drive: Drive, bin_: Bin, other: Remote, link: str
    ):
        await other.client.items.delete("folder", (await other.find("docs")).id)
        await bin_.out("Example.url", "elsewhere/Example.url")
        assert await drive.names("elsewhere") == ["Example.url"]

    async def test_files_are_not_restored_or_purged_there(
        self, drive: Drive, bin_: Bin, other: Remote, expect_log: ExpectLog
    ):
        await other.client.items.delete("file", await other.file("a"))
        expect_log("web links only")
        expect_log("cannot delete permanently")
        with fails(errno.EOPNOTSUPP):
            await bin_.out("a", "a")
        with fails(errno.EOPNOTSUPP):
            await bin_.purge("a")


async def test_the_hidden_folder_is_not_listed(drive: Drive, bin_: Bin):
    fh = await bin_.shown.opendir(ROOT)
    assert await bin_.shown.readdir(fh, 0) == []
    bin_.shown.releasedir(fh)
    assert await bin_.ino() >= FIRST
