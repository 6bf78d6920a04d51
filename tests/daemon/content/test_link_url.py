"""The address of a web link as an attribute: setting it edits the link's file, and nothing else of it."""

import errno
import os

import pytest

from cmsfs.models import url_files
from cmsfs.replica.changes import ChangeKind
from cmsfs.vfs.tree import link_url
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt, share, told, value
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.shortcuts import TEXT, URL, WINDOWS, link

XDG = "user.xdg.origin.url"


async def made(drive: Drive, other: Remote, data: bytes = b"") -> int:
    """The web link `a.url` of the service on our drive; with `data`, as it was written here."""
    if data:
        await drive.write("a.url", data)
        await drive.sync()
    else:
        await other.client.web_links.create("https://old.example/", "0", name="a")
        await drive.poll()
    return int(await drive.ino("a.url"))


async def asked(drive: Drive, ino: int) -> list[str]:
    return [(await drive.fs.getxattr(ino, name)).decode() for name in (XDG, "user.cms.url")]


async def set_to(drive: Drive, ino: int, url: str | bytes) -> str:
    given = url.encode() if isinstance(url, str) else url
    return await attempt(drive.fs.setxattr(ino, XDG, given))


@pytest.mark.parametrize("url", [URL, "https://b/"])
async def test_setting_it_changes_the_same_web_link(drive: Drive, other: Remote, url: str) -> None:
    ino = await made(drive, other)
    before = await link(other, "a")
    assert await asked(drive, ino) == ["https://old.example/"] * 2
    assert await set_to(drive, ino, url) == "ok"
    # At once here, before it is sent.
    assert await asked(drive, ino) == [url] * 2
    assert await drive.read("a.url") == f"[InternetShortcut]\nURL={url}\n".encode()
    await drive.sync()
    after = await link(other, "a")
    assert (after.id, after.url) == (before.id, url)
    assert await asked(drive, ino) == [url] * 2
    assert drive.ops() == []


async def test_other_keys_of_url_file_are_kept(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other, WINDOWS + b"Comment=two\\nlines\r\n")
    assert await set_to(drive, ino, URL) == "ok"
    # Twice, so that the second one edits what is not sent.
    assert await set_to(drive, ino, "https://b.example/") == "ok"
    edited = b"[InternetShortcut]\r\nURL=https://b.example/\r\nComment=two\\nlines\r\n"
    assert await drive.read("a.url") == edited
    await drive.sync()
    found = await link(other, "a")
    assert (found.url, found.description) == ("https://b.example/", "two\nlines")
    assert await drive.read("a.url") == edited


async def test_description_edit_keeps_line_endings(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other, WINDOWS)
    assert await told(drive, "a.url", "description", "from the desktop") == "ok"
    await drive.sync()
    assert (await link(other, "a")).description == "from the desktop"
    assert await drive.read("a.url") == WINDOWS + b"Comment=from the desktop\r\n"
    assert drive.fs.getattr(ino).size == len(await drive.read("a.url"))
    assert await told(drive, "a.url", "description", None) == "ok"
    await drive.sync()
    assert await drive.read("a.url") == WINDOWS


async def test_without_the_service_it_waits_like_any_edit(
    drive: Drive, other: Remote, network: Network
) -> None:
    ino = await made(drive, other)
    network.is_down = True
    assert await set_to(drive, ino, URL) == "ok"
    assert await asked(drive, ino) == [URL] * 2
    assert await drive.read("a.url") == TEXT
    network.is_down = False
    await drive.sync()
    assert (await link(other, "a")).url == URL


@pytest.mark.parametrize(
    "bad", ["", "example.com", "ftp://example.com/", "javascript:alert(1)", "https://a/\nURL=b", b"\xff"]
)
async def test_non_web_url_is_refused(
    drive: Drive, other: Remote, expect_log: ExpectLog, bad: str | bytes
) -> None:
    ino = await made(drive, other)
    expect_log("a.url can only be a web URL")
    assert await set_to(drive, ino, bad) == "EINVAL"
    assert drive.ops() == []


async def test_rich_url_file_stays_a_file(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other, TEXT + b"\n" * (url_files.MAX_BYTES - len(TEXT)))
    whole = await drive.read("a.url")
    assert await set_to(drive, ino, f"{URL}/and/more") == "EFBIG"
    assert await drive.read("a.url") == whole
    await drive.sync()
    assert (await link(other, "a")).url == URL


@pytest.mark.parametrize("end", [b"", b"\n", b"\nComment=said"])
@pytest.mark.parametrize(
    "addresses", [(URL, "https://b/"), ("https://b/", URL), ("https://a/", "https://b/")]
)
def test_the_address_is_never_seen_cut(addresses: tuple[str, str], end: bytes) -> None:
    old, new = (b"[InternetShortcut]\nURL=" + one.encode() + end for one in addresses)
    seen = old
    for offset, data in link_url.steps(old, new):
        written = seen[:offset] + data + seen[offset + len(data) :]
        # A crash before it is recorded leaves the bytes with the length of before.
        for left in (written[: len(seen)], written):
            found = url_files.parse(left)
            assert found is not None
            assert found.shortcut.url in addresses
        seen = written
    assert seen[: len(new)] == new


async def test_kernel_is_notified_only_of_changes(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other)
    (change,) = await drive.fs.setxattr(ino, XDG, URL.encode())
    assert (change.what, change.ino) == (ChangeKind.CONTENT, ino)
    assert await drive.fs.setxattr(ino, XDG, URL.encode()) == []
    # The next to open it must not be shown the pages of the text before.
    opened = await drive.fs.open(ino, os.O_RDONLY)
    await drive.fs.release(opened.fh)
    assert not opened.keep_cache


@pytest.mark.parametrize("written", [b"", b"<html>a page</html>"])
async def test_url_file_being_downloaded_is_untouched(drive: Drive, other: Remote, written: bytes) -> None:
    ino = await made(drive, other)
    opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
    await drive.fs.write(opened.fh, 0, written)
    assert await set_to(drive, ino, URL) == "ok"
    assert await drive.fs.read(opened.fh, 0, 100) == written
    await drive.fs.write(opened.fh, 0, TEXT)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert (await link(other, "a")).url == URL


async def test_origin_url_of_ordinary_file_is_stored(drive: Drive, other: Remote) -> None:
    await other.file("f", b"bytes")
    await drive.names()
    ino = await drive.ino("f")
    assert await set_to(drive, ino, "no address at all") == "ok"
    assert await drive.fs.getxattr(ino, XDG) == b"no address at all"
    assert await value(drive, "f", "url") == "ENODATA"
    assert await drive.read("f") == b"bytes"
    assert drive.ops() == []
    await drive.fs.removexattr(ino, XDG)
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENODATA):
        await drive.fs.getxattr(ino, XDG)


async def test_link_url_xattr_cannot_be_removed(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other)
    await drive.fs.removexattr(ino, XDG)
    assert await asked(drive, ino) == ["https://old.example/"] * 2
    assert await told(drive, "a.url", "url", URL) == "ENOTSUP"
    assert XDG in await drive.fs.listxattr(ino)


async def test_an_open_one_is_on_what_was_set(drive: Drive, other: Remote) -> None:
    ino = await made(drive, other)
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert await set_to(drive, ino, URL) == "ok"
    # As after any write on this machine.
    assert await drive.fs.read(opened.fh, 0, 100) == TEXT
    await drive.fs.release(opened.fh)


async def test_the_right_to_change_it_is_needed(drive: Drive, ben: Remote, user: int) -> None:
    folder = await ben.folder("s")
    await ben.client.web_links.create("https://old.example/", folder, name="a")
    await share(ben, "folder", folder, "viewer", user)
    await drive.names()
    await drive.poll()
    await drive.names("s")
    ino = await drive.ino("s/a.url")
    assert await set_to(drive, ino, URL) == "EACCES"
    assert await asked(drive, ino) == ["https://old.example/"] * 2
