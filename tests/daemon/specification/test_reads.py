"""Contents come from what the service gives out: downloads of shared links, and representations that are the
file itself.  What it gives out nowhere is refused in words that help."""

import errno
import os
from collections.abc import Callable

import httpx
import pytest

from cmsfs.models.content import items
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, fails
from tests.support.network import Network
from tests.support.specified_service import SpecifiedService

KIB = 1024


async def share(other: Remote, name: str, **terms: str) -> None:
    wish = items.NewSharedLink.model_validate(terms) if terms else None
    await other.client.shared_links.share("file", (await other.find(name)).id, wish)


async def test_a_file_with_a_shared_link_is_read(
    drive: Drive, other: Remote, specified: SpecifiedService
) -> None:
    await other.file("a", b"some bytes")
    await share(other, "a")
    assert await drive.read("a") == b"some bytes"
    number = (await other.find("a")).id
    assert [path for _, path in specified.refused if f"/files/{number}/" in path] == []


async def test_a_part_of_a_large_file_is_read(drive: Drive, other: Remote) -> None:
    data = os.urandom(3 * KIB * KIB)
    await other.file("large", data)
    await share(other, "large")
    opened = await drive.fs.open(await drive.ino("large"), os.O_RDONLY)
    assert await drive.fs.read(opened.fh, 2 * KIB * KIB, 5 * KIB) == data[2 * KIB * KIB :][: 5 * KIB]
    await drive.fs.release(opened.fh)
    assert await drive.read("large") == data


async def test_without_a_link_there_are_no_bytes(
    drive: Drive, other: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    await other.file("a.bin", b"some bytes")
    caplog.set_level("INFO")
    with fails(errno.EOPNOTSUPP):
        await drive.read("a.bin")
    assert any("contents of files that have a shared link" in line for line in caplog.messages)
    assert await drive.names() == ["a.bin"]


async def test_a_link_that_is_made_later_helps(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.fetch.offered_content.FRESH_SECONDS", 0.0)
    await other.file("a.bin", b"some bytes")
    with fails(errno.EOPNOTSUPP):
        await drive.read("a.bin")
    await share(other, "a.bin")
    assert await drive.read("a.bin") == b"some bytes"


async def test_a_link_that_has_ended_takes_nothing_away(drive: Drive, other: Remote) -> None:
    data = os.urandom(5 * KIB * KIB)
    await other.file("a.bin", data)
    await share(other, "a.bin")
    opened = await drive.fs.open(await drive.ino("a.bin"), os.O_RDONLY)
    assert await drive.fs.read(opened.fh, 0, 5) == data[:5]
    await other.client.shared_links.unshare("file", (await other.find("a.bin")).id)
    with fails(errno.EOPNOTSUPP):
        await drive.fs.read(opened.fh, 4 * KIB * KIB, 100)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await drive.names() == ["a.bin"]


async def test_another_version_is_no_other_bytes(drive: Drive, other: Remote) -> None:
    await other.file("a", b"first")
    await share(other, "a")
    await drive.names()
    opened = await drive.fs.open(await drive.ino("a"), os.O_RDONLY)
    await other.write((await other.find("a")).id, b"second")
    with fails(errno.ESTALE):
        await drive.fs.read(opened.fh, 0, 100)
    await drive.fs.release(opened.fh)
    await drive.poll()
    assert await drive.read("a") == b"second"


def represented(data: bytes, states: list[str]) -> Callable[[httpx.Request], httpx.Response | None]:
    """A service that makes the text of files, which has these bytes, and takes its time."""

    def answer(request: httpx.Request) -> httpx.Response | None:
        path = request.url.path
        if not path.startswith("/2.0/internal_files/"):
            return None
        if "/content/" in path:
            return httpx.Response(200, stream=httpx.ByteStream(data))
        url = f"{errno_probe.URL}{path}"
        state = states.pop(0) if len(states) > 1 else states[0]
        body = {"info": {"url": url}, "content": {"url_template": f"{url}/content/{{+asset_path}}"}}
        return httpx.Response(200, json=body | {"status": {"state": state}})

    return answer


async def test_a_text_is_read_from_its_representation(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("a.txt", b"plain words")
    network.instead = represented(b"plain words", ["pending", "success"])
    assert await drive.read("a.txt") == b"plain words"


async def test_a_representation_with_other_bytes_is_not_the_file(
    drive: Drive, other: Remote, network: Network
) -> None:
    await other.file("a.txt", b"plain words")
    network.instead = represented(b"plain sword", ["success"])
    with fails(errno.EOPNOTSUPP):
        await drive.read("a.txt")


async def test_what_was_written_here_is_read_here(drive: Drive, other: Remote) -> None:
    await drive.write("a.bin", b"ours")
    await drive.sync()
    assert await drive.read("a.bin") == b"ours"
