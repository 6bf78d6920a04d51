"""Prefetch: who walks is recognised, who does not is left alone, and little is fetched in vain."""

import os
import random
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Content
from daemon.fetch import hydrate, prefetch
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def make(other: Remote, drive: Drive, paths: list[str], size: int = 500) -> None:
    """Files of these paths at the service, known to the drive."""
    folders = {"": "0"}
    for path in paths:
        above, _, name = path.rpartition("/")
        parts = above.split("/") if above else []
        for depth in range(len(parts)):
            here = "/".join(parts[: depth + 1])
            if here not in folders:
                folders[here] = await other.folder(parts[depth], folders["/".join(parts[:depth])])
        await other.file(name, random.Random(path).randbytes(size), folders[above])
    await drive.names()
    await drive.poll()


def walked(drive: Drive, top: str = "", *, key: Any = None, files_first: bool = False) -> list[str]:
    """The files below a folder as a walk meets them: in the order of readdir, or sorted by `key`."""

    def below(ino: int, path: str) -> list[str]:
        found = tree.children(drive.db, ino, limit=10_000)
        if key is not None:
            found.sort(key=key)
        if files_first:
            found.sort(key=lambda node: node.is_folder)
        paths = []
        for node in found:
            here = f"{path}/{node.name}".lstrip("/")
            paths += below(node.ino, here) if node.is_folder else [here]
        return paths

    node = tree.find_child(drive.db, ROOT, top) if top else None
    return below(node.ino if node else ROOT, top)


@pytest.fixture
def settings() -> config.Settings:
    # Requests are counted: on a machine that stands still for seconds none may be given up and made again.
    return config.Settings(settle_seconds=0, network_seconds=120, shared="root")


class Reader:
    """Reads files and counts those that it had to wait for."""

    def __init__(self, drive: Drive, network: Network) -> None:
        self._drive = drive
        self._network = network
        self._before = network.count("GET", "/content")
        self.waited = 0
        self.read = 0

    async def __call__(self, path: str) -> None:
        node = self._drive.node(await self._drive.ino(path))
        self.waited += not self._drive.agents.hydrator._blocks.is_complete(node.sha1)
        assert await self._drive.read(path) == random.Random(path).randbytes(node.size)
        self.read += 1
        await wait_all_tasks_blocked(0.005)

    @property
    def fetched(self) -> int:
        return int(self._network.count("GET", "/content")) - self._before

    @property
    def in_vain(self) -> float:
        return (self.fetched - self.read) / self.fetched


@pytest.fixture
def reader(drive: Drive, network: Network) -> Reader:
    return Reader(drive, network)


FLAT = [f"f{number:03}" for number in range(60)]
NESTED = [f"d{number % 9 // 3}/e{number % 3}/f{number:03}" for number in range(90)]


@pytest.mark.parametrize("key", [None, lambda node: node.name], ids=["readdir", "by name"])
async def test_folder_walk_waits_for_first_files(
    drive: Drive, other: Remote, reader: Reader, key: Any
) -> None:
    await make(other, drive, random.Random(1).sample(FLAT, len(FLAT)))
    for path in walked(drive, key=key):
        await reader(path)
    assert reader.waited <= 4
    assert reader.fetched == len(FLAT)


@pytest.mark.parametrize("files_first", [False, True])
async def test_tree_walk_prefetches_next_folder(
    drive: Drive, other: Remote, reader: Reader, files_first: bool
) -> None:
    await make(other, drive, ["top1", *NESTED, "top2", "d0/between1", "d0/between2"])
    for path in walked(drive, files_first=files_first):
        await reader(path)
    assert reader.waited <= 10
    assert reader.fetched == reader.read


async def test_stopped_walk_wastes_little(drive: Drive, other: Remote, reader: Reader) -> None:
    await make(other, drive, FLAT)
    for path in walked(drive)[:30]:
        await reader(path)
    assert reader.in_vain <= 0.2


async def test_walk_prefetches_little_beside(drive: Drive, other: Remote, reader: Reader) -> None:
    await make(other, drive, [f"{folder}/f{number:03}" for folder in ("a", "b") for number in range(50)])
    first = walked(drive)[0].partition("/")[0]
    for path in walked(drive, first):
        await reader(path)
    assert 0 < reader.fetched - reader.read <= prefetch.BEYOND


async def test_a_walk_that_waits_prefetches_as_many_files_as_it_has_read(
    drive: Drive, other: Remote, network: Network
) -> None:
    await make(other, drive, FLAT)
    began = drive.agents.hydrator.began
    gates = [network.gate("GET", "/content") for _ in FLAT]
    before = network.count("GET", "/content")
    for number, path in enumerate(walked(drive)[:24], 1):
        # As a reader that comes before the bytes.
        began(await drive.ino(path))
        await wait_all_tasks_blocked(0.005)
        ahead = network.count("GET", "/content") - before - number + 3
        assert ahead <= max(prefetch.LEAST, number)
    assert ahead >= 20
    for _, go in gates:
        go.set()


async def test_the_reader_s_own_request_is_sent_first(drive: Drive, other: Remote, network: Network) -> None:
    folders = [f"d{number}" for number in range(8)]
    await make(other, drive, [f"{folder}/f{number}" for folder in folders for number in range(9)])
    for folder in folders:
        paths = walked(drive, folder)
        await drive.read(paths[0])
        await drive.read(paths[1])
        await wait_all_tasks_blocked(0.005)
        before = len(network.requests)
        await drive.read(paths[2])
        await wait_all_tasks_blocked(0.005)
        sent = [path for _, path in network.requests[before:]]
        assert len(sent) > 1
        assert f"/{drive.node(await drive.ino(paths[2])).remote_id}/content" in sent[0]


async def test_skipped_files_are_not_prefetched(drive: Drive, other: Remote, reader: Reader) -> None:
    names = [f"f{number:03}.{ending}" for number in range(40) for ending in ("jpg", "xml", "raw")]
    await make(other, drive, names)
    for path in walked(drive):
        if path.endswith(".jpg"):
            await reader(path)
    assert reader.waited <= 4
    assert reader.fetched == reader.read


async def test_reads_in_no_order_fetch_nothing_ahead(drive: Drive, other: Remote, reader: Reader) -> None:
    await make(other, drive, FLAT)
    paths = walked(drive)
    for step in range(0, len(paths) * 23, 23):  # far apart, and back again
        await reader(paths[step % len(paths)])
    assert reader.fetched == reader.read


async def test_one_file_after_another_at_random_is_rarely_taken_for_a_walk(
    drive: Drive, other: Remote
) -> None:
    """Of the few files of a folder, the next one is often near the last by chance."""
    await make(other, drive, FLAT[:40])
    inos = [await drive.ino(path) for path in FLAT[:40]]
    ahead: list[str] = []

    def note(content: Content, nbytes: int) -> None:
        ahead.append(content.sha1)

    for seed in range(50):
        prefetching = prefetch.Prefetch(drive.db, note)
        for ino in random.Random(seed).sample(inos, len(inos)):
            prefetching.began(ino)
    assert len(ahead) / 50 < 4  # with two steps as near as that for a walk: 36


async def test_two_programs_at_once_are_two_walks(drive: Drive, other: Remote, reader: Reader) -> None:
    await make(other, drive, FLAT)
    paths = walked(drive)
    for one, two in zip(paths[:20], paths[30:50], strict=True):
        await reader(one)
        await reader(two)
    assert reader.waited <= 8


async def test_a_wrong_guess_ends_what_is_still_queueing(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(other, drive, [f"f{number:03}" for number in range(90)])
    paths = walked(drive)
    for path in paths[:12]:
        await drive.read(path)
    await wait_all_tasks_blocked(0.01)
    monkeypatch.setattr(prefetch, "MOST", 56)
    monkeypatch.setattr(prefetch, "LEAST", 56)
    gates = [network.gate("GET", "/content") for _ in range(hydrate.PREFETCH_SMALL)]
    before = network.count("GET", "/content")
    began = drive.agents.hydrator.began
    began(await drive.ino(paths[12]))
    await wait_all_tasks_blocked(0.01)
    assert network.count("GET", "/content") == before + hydrate.PREFETCH_SMALL
    for path in (paths[89], paths[2]):  # no walk comes there
        began(await drive.ino(path))
    for _, go in gates:
        go.set()
    await wait_all_tasks_blocked(0.02)
    assert network.count("GET", "/content") == before + hydrate.PREFETCH_SMALL


async def test_what_is_written_here_is_nothing_to_fetch(drive: Drive, reader: Reader) -> None:
    for number in range(12):
        await drive.write(f"new{number:02}", os.urandom(100))
    for number in range(12):
        await drive.read(f"new{number:02}")
    assert reader.fetched == 0


async def test_large_files_begin_to_come_and_no_more(drive: Drive, other: Remote, network: Network) -> None:
    size = prefetch.HEAD_BYTES * 3
    for number in range(8):
        await other.file(f"film{number}", os.urandom(size))
    await drive.names()
    await drive.poll()
    paths = walked(drive)
    for path in paths[:4]:
        node = drive.node(await drive.ino(path))
        opened = await drive.fs.open(node.ino, os.O_RDONLY)
        await drive.fs.read(opened.fh, 0, 1000)
        await drive.fs.release(opened.fh)
        await wait_all_tasks_blocked(0.02)
    used = drive.agents.state.blocks.usage()
    assert 4 * prefetch.HEAD_BYTES < used <= 8 * prefetch.HEAD_BYTES
