"""Web links: what is written into a `.url` file is one at the service, and nothing of it is lost."""

import errno
import os
from collections.abc import Callable

import pytest

from cmsfs import config
from cmsfs.models.content import items
from cmsfs.replica.nodes import NodeKind
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network
from tests.support.shortcuts import RICH, TEXT, URL, WINDOWS, link, meanwhile


async def save(drive: Drive, path: str, data: bytes) -> None:
    """As most editors and file managers save: a new file renamed over the old one."""
    await drive.write(f"{path}.tmp", data)
    await drive.rename(f"{path}.tmp", path)


async def trashed(other: Remote) -> list[tuple[str, str]]:
    found = [item async for item in other.client.trash.items()]
    return [(item.id, str(item.url)) for item in found if isinstance(item, items.WebLink)]


def kind(drive: Drive, ino: int) -> NodeKind:
    found: NodeKind = drive.node(ino).kind
    return found


async def test_a_shortcut_becomes_a_web_link(drive: Drive, other: Remote) -> None:
    ino = await drive.write("docs.url", TEXT)
    assert kind(drive, ino) is NodeKind.FILE
    await drive.sync()
    assert (await link(other, "docs")).url == URL
    assert await other.paths() == ["docs"]
    assert kind(drive, ino) is NodeKind.LINK
    assert await drive.ino("docs.url") == ino
    assert await drive.read("docs.url") == TEXT
    assert drive.ops() == []
    assert await drive.fs.getxattr(ino, "user.cms.sync") == b"synced"


async def test_the_description_goes_both_ways(drive: Drive, other: Remote) -> None:
    await drive.write("a.url", TEXT + b"Comment=two\\nlines\n")
    await drive.sync()
    made = await link(other, "a")
    assert made.description == "two\nlines"
    await other.client.web_links.update(made.id, description="another")
    await drive.poll()
    assert await drive.read("a.url") == TEXT + b"Comment=another\n"
    await drive.write("a.url", TEXT)
    await drive.sync()
    assert not (await link(other, "a")).description


@pytest.mark.parametrize("how", ["in place", "by rename"])
async def test_edit_changes_url_of_same_link(drive: Drive, other: Remote, how: str) -> None:
    made = await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    assert await drive.read("a.url") == b"[InternetShortcut]\nURL=https://old.example/\n"
    await (drive.write if how == "in place" else lambda *w: save(drive, *w))("a.url", TEXT)
    assert await drive.read("a.url") == TEXT
    await drive.sync()
    changed = await link(other, "a")
    assert (changed.id, changed.url) == (made.id, URL)
    assert await drive.read("a.url") == TEXT
    assert await other.paths() == ["a"]


async def test_a_few_bytes_of_it_can_be_written(drive: Drive, other: Remote) -> None:
    await other.client.web_links.create("https://old.example/", "0", name="a")
    await drive.poll()
    ino = await drive.ino("a.url")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.write(opened.fh, len(b"[InternetShortcut]\nURL=https://"), b"new")
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert (await link(other, "a")).url == "https://new.example/"


async def test_its_bytes_and_time_stay_what_was_written(
    drive: Drive, other: Remote, starting: Starting
) -> None:
    ino = await drive.write("a.url", WINDOWS)
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922 * 10**9))
    await drive.sync()
    made = await link(other, "a")
    # What others change of it is not what is in the file.
    await other.client.web_links.update(made.id, name="b")
    await drive.poll()
    assert await drive.read("b.url") == WINDOWS
    shown = drive.fs.getattr(ino)
    assert (shown.size, shown.mtime_ns) == (len(WINDOWS), 1_580_608_922 * 10**9)
    await other.client.web_links.update(made.id, url="https://other.example/")
    await drive.poll()
    assert await drive.read("b.url") == b"[InternetShortcut]\r\nURL=https://other.example/\r\n"
    assert drive.fs.getattr(ino).size == len(await drive.read("b.url"))
    assert drive.fs.getattr(ino).mtime_ns != 1_580_608_922 * 10**9


FILES = {
    "rich.url": RICH,
    "script.url": b"[InternetShortcut]\nURL=javascript:alert(1)\n",
    "local.url": b"[InternetShortcut]\nURL=file:///etc/passwd\n",
    "large.url": TEXT + b"\n" * 1_000_000,
    "none.url": b"no shortcut",
    "empty.url": b"",
    "upper.URL": TEXT,
    ".url": TEXT,
    "twice.url.url": TEXT,
    "page.txt": TEXT,
}


async def test_file_with_other_content_stays_a_file(drive: Drive, other: Remote) -> None:
    for name, data in FILES.items():
        await drive.write(name, data)
    await drive.sync()
    assert await other.paths() == sorted(FILES)
    for name, data in FILES.items():
        assert await other.read(name) == data


async def test_file_keeps_its_description(drive: Drive, other: Remote) -> None:
    described = await drive.write("described.url", TEXT)
    await drive.fs.setxattr(described, "user.xdg.comment", b"from the desktop")
    tagged = await drive.write("tagged.url", TEXT)
    await drive.fs.setxattr(tagged, "user.xdg.tags", b"red")
    await drive.sync()
    assert (await link(other, "described")).description == "from the desktop"
    assert await drive.read("described.url") == TEXT + b"Comment=from the desktop\n"
    assert await drive.fs.getxattr(described, "user.xdg.origin.url") == URL.encode()
    assert (await other.find_file("tagged.url")).tags == ["red"]


async def test_a_file_of_the_service_stays_one(drive: Drive, other: Remote) -> None:
    await drive.write("a.url", RICH)
    await drive.sync()
    await drive.write("a.url", TEXT)
    await drive.sync()
    assert await other.read("a.url") == TEXT
    assert await other.versions((await other.find("a.url")).id) == 2


class TestNever:
    @pytest.fixture
    def settings(self) -> config.Settings:
        return config.Settings(settle_seconds=0, network_seconds=5, web_links="never")

    async def test_a_setting_keeps_all_of_them_files(self, drive: Drive, other: Remote) -> None:
        await drive.write("a.url", TEXT)
        await drive.sync()
        assert await other.read("a.url") == TEXT


class TestAll:
    @pytest.fixture
    def settings(self) -> config.Settings:
        return config.Settings(settle_seconds=0, network_seconds=5, web_links="all")

    async def test_setting_converts_plain_url_files(self, drive: Drive, other: Remote) -> None:
        await drive.write("a.url", RICH)
        await drive.write("b.url", b"none")
        long = TEXT + b"Comment=" + b"x" * 300 + b"\n"
        await drive.write("c.url", long)
        await drive.sync()
        assert await other.paths() == ["a", "b.url", "c"]
        assert await drive.read("c.url") == long
        assert (await link(other, "a")).url == "https://example.com/"
        assert await drive.read("a.url") == RICH


# ---- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["the folder", "the web link"])
async def test_web_link_beside_folder_of_its_name(drive: Drive, other: Remote, first: str) -> None:
    if first == "the folder":
        await drive.mkdir("notes")
        await drive.sync()
    await drive.write("notes.url", TEXT)
    await drive.sync()
    if first == "the web link":
        await drive.mkdir("notes")
        await drive.sync()
    assert await other.paths() == ["notes.url", "notes/"]
    assert (await link(other, "notes.url")).url == URL
    assert await drive.names() == ["notes", "notes.url"]
    assert drive.ops() == []


async def test_a_web_link_is_renamed_and_moved(drive: Drive, other: Remote) -> None:
    ino = await drive.write("a.url", TEXT)
    await drive.mkdir("d")
    await drive.mkdir("b")
    await drive.sync()
    made = (await link(other, "a")).id
    await drive.rename("a.url", "b.url")
    await drive.sync()
    assert (await link(other, "b.url")).id == made
    await drive.rename("b.url", "d/c.url")
    await drive.sync()
    assert await other.paths() == ["b/", "d/", "d/c"]
    assert (await link(other, "c")).id == made
    assert await drive.ino("d/c.url") == ino


async def test_link_under_file_name_is_a_copy(drive: Drive) -> None:
    await drive.write("a.url", TEXT)
    await drive.sync()
    for name in ("a", "a.txt", "a.URL", "a.url~", "a.url.url"):
        with pytest.raises(OSError, match="cross-device") as refused:
            await drive.rename("a.url", name)
        assert refused.value.errno == errno.EXDEV
    assert await drive.names() == ["a.url"]


async def test_rename_during_link_creation(drive: Drive, other: Remote, network: Network) -> None:
    await drive.write("a.url", TEXT)
    async with meanwhile(network, "POST", before=False):
        await drive.rename("a.url", "a.txt")
    await drive.sync()
    assert await other.paths() == ["a.txt"]
    assert await other.read("a.txt") == TEXT


async def test_link_copy_is_new_and_deletable(drive: Drive, other: Remote) -> None:
    await drive.write("a.url", TEXT)
    await drive.sync()
    await drive.write("b.url", await drive.read("a.url"))
    await drive.sync()
    assert (await link(other, "b")).url == URL
    gone = (await link(other, "a")).id
    await drive.unlink("a.url")
    await drive.sync()
    assert await other.paths() == ["b"]
    assert await trashed(other) == [(gone, URL)]


@pytest.mark.parametrize("how", ["deleted", "renamed", "moved"])
async def test_web_link_gets_its_name_when_the_file_has_left(drive: Drive, other: Remote, how: str) -> None:
    await drive.mkdir("d")
    await drive.write("d/a.url", RICH)
    await drive.sync()
    folder = (await other.find("d")).id
    made = await other.client.web_links.create(URL, folder, name="a")
    await drive.poll()
    beside = f"a (link {made.id}).url"
    assert await drive.names("d") == [beside, "a.url"]
    if how == "deleted":
        await drive.unlink("d/a.url")
    else:
        await drive.rename("d/a.url", "d/b.url" if how == "renamed" else "a.url")
    # Programs replace a file by removing and writing it anew: its name is not another's before it is sent.
    assert beside in await drive.names("d")
    await drive.sync()
    assert await drive.names("d") == (["a.url", "b.url"] if how == "renamed" else ["a.url"])
    assert await drive.read("d/a.url") == TEXT


# ---- what becomes of one ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["in place", "by rename"])
async def test_link_file_with_other_content_is_file(drive: Drive, other: Remote, how: str) -> None:
    await drive.write("a.url", TEXT)
    await drive.sync()
    gone = (await link(other, "a")).id
    await (drive.write if how == "in place" else lambda *w: save(drive, *w))("a.url", RICH)
    await drive.sync()
    assert await other.paths() == ["a.url"]
    assert await other.read("a.url") == RICH
    assert await drive.read("a.url") == RICH
    assert await trashed(other) == [(gone, URL)]
    assert drive.ops() == []


async def test_emptied_link_is_held(drive: Drive, other: Remote, expect_log: Callable[[str], None]) -> None:
    expect_log("the service rejected a change")
    await drive.write("a.url", TEXT)
    await drive.sync()
    ino = await drive.ino("a.url")
    await drive.fs.setattr(ino, SetAttr(size=0))
    await drive.sync()
    assert (await link(other, "a")).url == URL
    assert b"emptied" in await drive.fs.getxattr(ino, "user.cms.sync")
    await drive.write("a.url", WINDOWS)
    await drive.sync()
    assert (await link(other, "a")).url == "https://example.com/"


async def test_giving_up_an_emptied_one_brings_it_back(
    drive: Drive, other: Remote, expect_log: Callable[[str], None]
) -> None:
    expect_log("the service rejected a change")
    await drive.write("a.url", WINDOWS)
    await drive.sync()
    ino = await drive.ino("a.url")
    await drive.fs.setattr(ino, SetAttr(size=0))
    await drive.sync()
    await drive.agents.discard("/a.url")
    assert await drive.read("a.url") == WINDOWS
    assert drive.fs.getattr(ino).size == len(WINDOWS)
    assert drive.ops() == []
