"""Random changes of every kind at the service by two users: one in our account, one who shares with it.

`Churn` keeps track of the items it made, to have something to change; refused changes are ignored.  `Stream`
is a transport on which events are lost, duplicated and reordered.
"""

import json
import random
from typing import Any

import httpx

from cmsfs import errors
from cmsfs.client.enterprise.collaborations import CollaborationsApi
from tests.support.daemon_drive import Drive, Remote

NAMES = [f"{stem}{number}" for stem in ("a", "Ä", "report ", "x.txt-") for number in range(4)]

# The weight of each kind of change.
KINDS = {
    "create": 24,
    "folder": 12,
    "edit": 18,
    "rename": 10,
    "move": 8,
    "rename folder": 6,
    "move folder": 8,
    "delete": 8,
    "delete folder": 4,
    "purge": 4,
    "restore": 6,
    "link": 3,
    "copy": 3,
    "copy folder": 2,
    "share": 4,
    "unshare": 3,
    "edit shared": 4,
}


class Churn:
    """One random sequence of changes at the service."""

    def __init__(self, seed: int, other: Remote, ben: Remote) -> None:
        self.random = random.Random(seed)
        self.other = other
        self.ben = ben
        self.folders = ["0"]
        self.files: list[str] = []
        self.trash: list[tuple[str, str]] = []
        self.theirs: list[str] = []  # Ben's folders
        self.shares: list[str] = []  # collaborations on them
        self.shared_files: list[str] = []
        self.count = 0
        self.done: dict[str, int] = dict.fromkeys(KINDS, 0)

    async def changes(self, number: int) -> None:
        """Make so many changes; refused ones do not count."""
        wanted = sum(self.done.values()) + number
        while sum(self.done.values()) < wanted:
            kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
            self.count += 1
            try:
                await self._change(kind)
                self.done[kind] += 1
            except (errors.ApiError, IndexError):
                # The name is taken, the item is gone, a folder would contain itself; or there is no item yet.
                pass

    def _bytes(self) -> bytes:
        return f"text {self.count} ".encode() * self.random.randrange(4)

    def _name(self) -> str:
        return self.random.choice(NAMES)

    def _pop_random(self, some: list[Any]) -> Any:
        one = self.random.choice(some)
        some.remove(one)
        return one

    def _folder(self) -> str:
        return self.random.choice(self.folders)

    async def _change(self, kind: str) -> None:
        client, pick = self.other.client, self.random.choice
        match kind:
            case "create":
                self.files.append(await self.other.file(self._name(), self._bytes(), self._folder()))
            case "folder":
                self.folders.append(await self.other.folder(self._name(), self._folder()))
            case "edit":
                await self.other.write(pick(self.files), self._bytes())
            case "rename":
                await client.items.update("file", pick(self.files), name=self._name())
            case "move":
                await client.items.update(
                    "file", pick(self.files), parent_id=self._folder(), name=self._name()
                )
            case "rename folder":
                await client.items.update("folder", pick(self.folders[1:]), name=self._name())
            case "move folder":
                await client.items.update("folder", pick(self.folders[1:]), parent_id=self._folder())
            case "delete":
                await self._delete("file", pick(self.files))
            case "delete folder":
                await self._delete("folder", pick(self.folders[1:]))
            case "purge":
                await client.items.purge(*self._pop_random(self.trash))
            case "restore":
                await client.items.restore(*self._pop_random(self.trash))
            case "link":
                await client.web_links.create("https://example.com/", self._folder(), name=self._name())
            case "copy":
                copy = await client.files.copy(pick(self.files), parent_id=self._folder(), name=self._name())
                self.files.append(copy.id)
            case "copy folder":
                url = f"{client.folders._url}/{pick(self.folders[1:])}/copy"
                body = {"parent": {"id": "0"}, "name": f"copy {self.count}"}
                await client.folders._wire.tell("POST", url, body=body)
            case "share":
                await self._share()
            case "unshare":
                await self._collaborations().delete(self._pop_random(self.shares))
            case "edit shared":
                await self.ben.write(pick(self.shared_files), self._bytes())

    async def _delete(self, kind: str, number: str) -> None:
        if kind == "file":
            await self.other.client.items.delete("file", number)
        else:
            await self.other.client.items.delete("folder", number, recursive=True)
        self.trash.append((kind, number))

    def _collaborations(self) -> CollaborationsApi:
        return self.ben.client.collaborations

    async def _share(self) -> None:
        """Share one of Ben's folders, new or existing, with us."""
        if not self.theirs or self.random.random() < 0.6:
            top = await self.ben.folder(f"shared {self.count}")
            below = await self.ben.folder("below", top)
            self.shared_files.append(await self.ben.file("one", self._bytes(), top))
            self.shared_files.append(await self.ben.file("two", self._bytes(), below))
            self.theirs.append(top)
        folder = self.random.choice(self.theirs)
        made = await self._collaborations().create("folder", folder, "editor", user_id=str(self.other.user))
        self.shares.append(made.id)


async def remote_tree(other: Remote) -> dict[str, bytes]:
    """Return paths and bytes of all items that the account sees at the service; folders end in a slash."""
    found = await other.everything()
    folders = {item.id: item for item in found if item.type == "folder"}

    def path(item: Any) -> str:
        above = folders.get(item.parent.id) if item.parent is not None else None
        if above:
            return f"{path(above)}/{item.name}"
        is_mine = item.owned_by is not None and item.owned_by.id == str(other.user)
        return item.name if is_mine else f"Shared with me/{item.name}"

    result: dict[str, bytes] = {}
    for item in found:
        if item.type == "folder":
            result[f"{path(item)}/"] = b""
        elif item.type == "web_link":
            result[f"{path(item)}.url"] = b"link"
        else:
            result[path(item)] = await _content(other, item)
    if any(name.startswith("Shared with me/") for name in result):
        result["Shared with me/"] = b""
    return result


async def _content(other: Remote, item: Any) -> bytes:
    if not item.size:
        return b""
    async with other.client.files.content(item.id) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def local_tree(drive: Drive, path: str = "") -> dict[str, bytes]:
    """Return paths and bytes as programs see them on the drive."""
    result: dict[str, bytes] = {}
    for name in await drive.names(path):
        below = f"{path}/{name}" if path else name
        node = drive.node(await drive.ino(below))
        if node.is_folder:
            result[f"{below}/"] = b""
            result |= await local_tree(drive, below)
        elif name.endswith(".url"):
            result[below] = b"link"
        else:
            result[below] = await drive.read(below)
    return result


class Stream(httpx.AsyncBaseTransport):
    """A transport to the service that loses, duplicates and reorders events."""

    def __init__(self, inner: httpx.AsyncBaseTransport, seed: int, *, lost: float) -> None:
        self.inner = inner
        self._random = random.Random(seed)
        self._lost = lost
        self._repeats: list[Any] = []
        self.lost = self.twice = self.moved = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith("/events"):
            return response
        page = json.loads(await response.aread())
        page["entries"] = self._spoil_events(page["entries"])
        page["chunk_size"] = len(page["entries"])
        return httpx.Response(200, json=page)

    def _spoil_events(self, entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if self._random.random() < self._lost:
                self.lost += 1
                continue
            found.append(entry)
            if self._random.random() < 0.1:
                # Repeat it on one of the next pages.
                self.twice += 1
                self._repeats.append(entry)
        for place in range(1, len(found)):
            if self._random.random() < 0.1:
                self.moved += 1
                found[place - 1], found[place] = found[place], found[place - 1]
        if entries:
            found += self._repeats[:20]
            del self._repeats[:20]
        return found
