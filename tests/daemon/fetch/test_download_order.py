"""What a reader does next comes before the rest of its download; time passes only where a test lets it."""

import time

import httpx
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daemon.fetch.single_flight import SENT_SECONDS
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network
from tests.support.patience import crowding


class Watched:
    """Small files, and what happens to their contents: `asked` at the network, and the download `ended`."""

    def __init__(self, drive: Drive, network: Network) -> None:
        self.events: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}
        drive.agents.hydrator.fetched = lambda sha1, nbytes: self.events.append(("ended", self._names[sha1]))
        network.instead = self._note

    async def add(self, drive: Drive, other: Remote, *names: str) -> None:
        for name in names:
            file = await other.file(name, name.encode())
            self._names[f"/files/{file}/content"] = name
        await drive.poll()
        for name in names:
            self._names[drive.node(await drive.ino(name)).sha1] = name

    def _note(self, request: httpx.Request) -> None:
        for path, name in self._names.items():
            if request.url.path.endswith(path):
                self.events.append(("asked", name))

    async def until(self, event: tuple[str, str]) -> None:
        patience = time.monotonic() + 10 * crowding()
        while event not in self.events and time.monotonic() < patience:
            await trio.lowlevel.checkpoint()


@pytest.fixture
async def watched(drive: Drive, other: Remote, network: Network) -> Watched:
    watched = Watched(drive, network)
    await watched.add(drive, other, "a", "b")
    return watched


async def test_next_request_of_a_reader_comes_before_the_rest_of_its_download(
    drive: Drive, watched: Watched, mock_clock: MockClock
) -> None:
    assert await drive.read("a") == b"a"
    # All has happened that could before the program makes its next call.
    await wait_all_tasks_blocked()
    assert await drive.read("b") == b"b"
    assert watched.events[:2] == [("asked", "a"), ("asked", "b")]
    assert ("ended", "a") not in watched.events
    mock_clock.jump(SENT_SECONDS)
    await watched.until(("ended", "a"))
    assert ("ended", "a") in watched.events


async def test_download_beside_another_ends_at_once(
    drive: Drive, watched: Watched, network: Network, nursery: trio.Nursery, mock_clock: MockClock
) -> None:
    arrived, go = network.gate("GET", "/content")
    nursery.start_soon(drive.read, "a")
    await arrived.wait()
    assert await drive.read("b") == b"b"
    await watched.until(("ended", "b"))
    assert watched.events == [("asked", "a"), ("asked", "b"), ("ended", "b")]
    go.set()
