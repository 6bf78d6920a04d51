"""Both sides work on one tree at random, over a network that loses answers: they end with the same tree.

What is checked at the end: paths and bytes are equal on both sides, nothing is left to send, and every
text that somebody wrote last under some name is still there, unless somebody deleted or replaced it.
"""

import random
from typing import Any

import pytest
import trio

from cmsfs import config, errors
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

NAMES = ["a", "b", "c", "d"]


class Chaos:
    """One random story."""

    def __init__(self, seed: int, drive: Drive, other: Remote, network: Network) -> None:
        self.random = random.Random(seed)
        self.drive = drive
        self.other = other
        self.network = network
        self.feed = drive.agents.settings.feed
        self.written = 0
        self.story: list[str] = []

    async def ours(self) -> None:
        """A call of a program on the drive; what it is refused, it is refused."""
        place = self.random.choice(NAMES)
        if self.random.random() < 0.5:
            place = f"{self.random.choice(NAMES)}/{place}"
        target = self.random.choice(NAMES)
        self.written += 1
        drive = self.drive
        call = self.random.choice(["write"] * 3 + ["mkdir", "rename", "unlink", "rmdir", "save"])
        self.story.append(f"we {call} {place} {target} {self.written}")
        try:
            match call:
                case "write":
                    await drive.write(place, f"ours {self.written}".encode())
                case "mkdir":
                    await drive.mkdir(place)
                case "rename":
                    await drive.rename(place, target)
                case "unlink":
                    await drive.unlink(place)
                case "rmdir":
                    await drive.rmdir(place)
                case "save":
                    await drive.write("tmp", f"saved {self.written}".encode())
                    await drive.rename("tmp", place)
        except OSError:
            pass

    async def theirs(self) -> None:
        """A change of another program at the service."""
        found = await self.other.everything()
        folders = [item.id for item in found if item.type == "folder"]
        parent = self.random.choice(["0", *folders])
        self.written += 1
        name = self.random.choice(NAMES)
        item = self.random.choice(found) if found else None
        client = self.other.client
        call = self.random.choice(["file", "folder", "write", "rename", "move", "delete"])
        self.story.append(f"they {call} {item.id if item else ''} {name} in {parent} {self.written}")
        try:
            match call:
                case "file":
                    await self.other.file(name, f"theirs {self.written}".encode(), parent)
                case "folder":
                    await self.other.folder(name, parent)
                case "write" if item is not None and item.type == "file":
                    await self.other.write(item.id, f"theirs {self.written}".encode())
                case "rename" if item is not None and item.type == "file":
                    await client.items.update("file", item.id, name=name)
                case "move" if item is not None:
                    await client.items.update(item.type, item.id, parent_id=parent)
                case "delete" if item is not None and item.type == "file":
                    await client.items.delete("file", item.id)
                case "delete" if item is not None:
                    if self.feed == "search":
                        # What was moved into a folder that is deleted before the next poll is shown by
                        # neither search; events tell of both, and need no help.
                        await self.drive.poll()
                    await client.items.delete("folder", item.id, recursive=True)
        except errors.ApiError:
            pass

    async def step(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            await self.ours()
        elif chance < 0.7:
            await self.theirs()
        elif chance < 0.8:
            self.story.append("poll")
            await self.drive.poll()
        elif chance < 0.9:
            method, part = self.random.choice(
                [("POST", "/content"), ("POST", "/folders"), ("PUT", "/files/"), ("DELETE", "/")]
            )
            self.network.lose_answer(method, part)
        else:
            await trio.sleep(self.random.random() * 0.02)

    async def tree(self, path: str = "") -> dict[str, bytes]:
        """What the drive shows."""
        result: dict[str, bytes] = {}
        for name in await self.drive.names(path):
            below = f"{path}/{name}" if path else name
            node = self.drive.node(await self.drive.ino(below))
            if node.is_folder:
                result[f"{below}/"] = b""
                result |= await self.tree(below)
            else:
                result[below] = await self.drive.read(below)
        return result

    async def remote_tree(self) -> dict[str, bytes]:
        result: dict[str, bytes] = {}
        found = {item.id: item for item in await self.other.everything() if item.type == "folder"}

        def path(item: Any) -> str:
            above = found.get(item.parent.id)
            return f"{path(above)}/{item.name}" if above else item.name

        for item in await self.other.everything():
            if item.type == "folder":
                result[f"{path(item)}/"] = b""
            else:
                async with self.other.client.files.content(item.id) as chunks:
                    result[path(item)] = b"".join([chunk async for chunk in chunks])
        return result


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(more, marks=pytest.mark.long) for more in range(4, 12))]
)
async def test_both_sides_end_with_the_same_tree(
    drive: Drive, other: Remote, network: Network, seed: int
) -> None:
    chaos = Chaos(seed, drive, other, network)
    await drive.names()
    for _ in range(60):
        await chaos.step()
    network._lost.clear()
    for _ in range(4):
        await drive.sync()
        await drive.poll()
    assert drive.ops() == []
    assert await chaos.tree() == await chaos.remote_tree(), chaos.story
