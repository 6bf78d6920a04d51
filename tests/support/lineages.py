"""A matrix of test files: each is held open in one way, changed remotely in one way, and then used in one
way.

One drive runs a whole table: each file has its own folder, and every step is done for all files.  The oracle
knows the bytes that each handle must show, and the contents of each file that must survive somewhere.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Connection
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

HELD = ("read", "write", "append", "draft", "sealed", "uploading", "offline")
USES = ("read on", "write", "append", "truncate", "fsync", "close", "rename")

# Remote changes: of the bytes, of the place, and removals.
BYTES = ("longer", "shorter", "as long", "restored version", "backup")
PLACES = ("rename", "move")
GONE = ("trash", "purge", "folder into the trash", "rights")
REMOTE_CHANGES = (*BYTES, *PLACES, *GONE)

_UNSENT = ("draft", "sealed", "uploading")


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@dataclass
class Cell:
    """One file: how it is held open, what is done next, and the bytes that its handle must show (`model`)."""

    number: int
    held: str
    then: str
    base: bytes
    item: str = ""
    folder: str = ""
    share: str = ""
    ino: Ino = 0
    opened: Any = None
    model: bytearray = field(default_factory=bytearray)
    wrote: bool = False
    saw_theirs: bool = False  # the program had read the remote bytes before it wrote

    @property
    def name(self) -> str:
        return f"c{self.number}"

    @property
    def theirs(self) -> bytes:
        return f"theirs {self.number} ".encode()

    def __str__(self) -> str:
        return f"{self.name}: held to {self.held}, then {self.then}"


class Table:
    """All cells of one kind of remote change, on one drive."""

    def __init__(self, drive: Drive, other: Remote, network: Network, elsewhere: str) -> None:
        self.drive = drive
        self.other = other
        self.network = network
        self.elsewhere = elsewhere
        self.cells = [
            Cell(number, held, then, b"old %d; " % number * 8)
            for number, (held, then) in enumerate((held, then) for held in HELD for then in USES)
        ]
        self._gates: list[trio.Event] = []

    # ---- the steps ----

    async def make(self, owner: Any, shared: Callable[[str], Awaitable[str]] | None = None) -> None:
        """Create the files at the service and download all of them."""
        for cell in self.cells:
            cell.folder = await owner.folder(cell.name)
            if self.elsewhere in ("restored version", "backup"):
                cell.item = await owner.file("f", cell.theirs, cell.folder)
                await owner.write(cell.item, cell.base)
            else:
                cell.item = await owner.file("f", cell.base, cell.folder)
            if shared is not None:
                cell.share = await shared(cell.folder)
        self.owner = owner
        await self.poll()
        for cell in self.cells:
            await self.drive.names(self.path(cell))
            cell.ino = await self.drive.ino(f"{self.path(cell)}/f")
            assert await self.drive.read(f"{self.path(cell)}/f") == cell.base
            cell.model[:] = cell.base

    def path(self, cell: Cell) -> str:
        return f"Shared with me/{cell.name}" if cell.share else cell.name

    async def hold(self) -> None:
        for cell in self.cells:
            if cell.held in _UNSENT:
                cell.opened = await self.drive.fs.open(cell.ino, os.O_RDWR)
                await self.write(cell, 0, b"HELD")
            if cell.held in ("sealed", "uploading"):
                await self.close(cell)
                await self._seal(cell)
            if cell.held == "uploading":
                await self._begin_upload(cell)
            flags = {"read": os.O_RDONLY, "append": os.O_WRONLY | os.O_APPEND}.get(cell.held, os.O_RDWR)
            if cell.opened is None:
                cell.opened = await self.drive.fs.open(cell.ino, flags)

    async def _seal(self, cell: Cell) -> None:
        node = self.drive.node(cell.ino)
        draft = self.drive.agents.state.drafts.find(node.draft)
        assert await self.drive.agents.push._context.sealer.seal(draft) is not None

    async def _begin_upload(self, cell: Cell) -> None:
        arrived, go = self.network.gate("POST", f"/files/{cell.item}/content", before=True)
        now = "UPDATE op SET not_before = 0 WHERE ino = ?"
        await self.drive.db.write(lambda conn: conn.execute(now, (cell.ino,)))
        self.drive.agents.push.wake()
        with trio.fail_after(20):
            await arrived.wait()
        self._gates.append(go)

    async def change(self) -> None:
        """Change every file remotely; the offline ones are used before the drive learns of the change."""
        for cell in self.cells:
            await self._change(cell)
        self.network.is_down = True
        for cell in self.cells:
            if cell.held == "offline":
                await self.use(cell)
        self.network.is_down = False
        for go in self._gates:
            go.set()
        await self.poll()

    async def _change(self, cell: Cell) -> None:
        client = self.owner.client
        match self.elsewhere:
            case "longer":
                await self.owner.write(cell.item, cell.theirs * 20)
            case "shorter":
                await self.owner.write(cell.item, cell.theirs)
            case "as long":
                await self.owner.write(cell.item, cell.theirs.ljust(len(cell.base), b"!"))
            case "restored version":
                (past,) = await client.versions.past(cell.item)
                await client.versions.promote(cell.item, past.id)
            case "backup":
                await self._restore_backup(cell)
            case "rename":
                await client.items.update("file", cell.item, name="g")
            case "move":
                await client.items.update("file", cell.item, parent_id="0", name=f"moved {cell.number}")
            case "trash":
                await client.items.delete("file", cell.item)
            case "purge":
                await client.items.delete("file", cell.item)
                await client.items.purge("file", cell.item)
            case "folder into the trash":
                await client.items.delete("folder", cell.folder, recursive=True)
            case "rights":
                await client.collaborations.delete(cell.share)

    async def _restore_backup(self, cell: Cell) -> None:
        """Simulate a restored backup: the service has only the version before the one the drive knows."""
        number, before = int(cell.item), sha1(cell.theirs)

        def txn(conn: Connection) -> None:
            row = conn.execute(
                "SELECT id, size FROM version WHERE file = ? AND sha1 = ?", (number, before)
            ).fetchone()
            conn.execute(
                "UPDATE item SET etag = 0, sha1 = ?, size = ?, version = ?, version_number = 1 WHERE id = ?",
                (before, row["size"], row["id"], number),
            )
            conn.execute("DELETE FROM version WHERE file = ? AND id <> ?", (number, row["id"]))

        await self.other.store.write(txn)

    async def use_all(self) -> None:
        """Use every file in its way, then check and close all handles."""
        for cell in self.cells:
            if cell.held != "offline":
                await self.use(cell)
        for cell in self.cells:
            await self.check_handle(cell)
            await self.close(cell)

    async def use(self, cell: Cell) -> None:
        if cell.held == "read" and cell.then in ("write", "append", "truncate", "fsync"):
            await self._open_anew(cell)
            if cell.opened is None:
                return
        match cell.then:
            case "write":
                await self.write(cell, 3, b"WRITTEN")
            case "append":
                await self.write(cell, self.drive.fs.getattr(cell.ino).size, b"APPENDED %d" % cell.number)
            case "truncate":
                del cell.model[5:]
                cell.wrote = True
                await self.drive.fs.setattr(cell.ino, SetAttr(size=5), cell.opened.fh)
            case "fsync":
                await self.write(cell, 0, b"SAFE")
                await self.drive.fs.fsync(cell.opened.fh)
            case "close":
                await self.close(cell)
            case "rename":
                await self._rename(cell)

    async def _open_anew(self, cell: Cell) -> None:
        """Close the handle and open the file again by name, for writing."""
        await self.check_handle(cell)
        await self.close(cell)
        try:
            cell.ino = await self.drive.ino(f"{self.path(cell)}/f")
        except FileNotFoundError:
            return
        cell.opened = await self.drive.fs.open(cell.ino, os.O_RDWR)
        cell.model[:] = await self.drive.fs.read(cell.opened.fh, 0, 10_000)
        cell.saw_theirs = cell.model == self._their_bytes(cell)

    async def _rename(self, cell: Cell) -> None:
        try:
            await self.drive.rename(f"{self.path(cell)}/f", f"{self.path(cell)}/renamed")
        except FileNotFoundError:
            assert self.elsewhere in (*PLACES, *GONE)

    async def write(self, cell: Cell, offset: int, data: bytes) -> None:
        cell.model[offset : offset + len(data)] = data
        cell.wrote = True
        await self.drive.fs.write(cell.opened.fh, offset, data)

    async def check_handle(self, cell: Cell) -> None:
        """Check that the handle shows exactly the bytes and size of its own lineage."""
        if cell.opened is not None:
            assert await self.drive.fs.read(cell.opened.fh, 0, 10_000) == cell.model, str(cell)
            assert self.drive.fs.getattr(cell.ino).size == len(cell.model), str(cell)

    async def close(self, cell: Cell) -> None:
        if cell.opened is not None:
            await self.drive.fs.flush(cell.opened.fh)
            await self.drive.fs.release(cell.opened.fh)
            cell.opened = None

    async def poll(self) -> None:
        with trio.fail_after(60):
            await self.drive.agents.poll(full=True)

    async def sync_both(self) -> None:
        """Sync in both directions."""
        for _ in range(3):
            with trio.fail_after(60):
                await self.drive.agents.sync()
            await self.poll()

    # ---- the oracle ----

    async def check(self) -> None:
        kept = self._kept()
        for cell in self.cells:
            if cell.wrote:
                assert sha1(bytes(cell.model)) in kept, f"{cell}: what was written is nowhere"
            self._check_item(cell)
        await self._check_same()

    def _kept(self) -> set[str]:
        """Return the SHA-1s of all files, versions, copies, recovered files and held uploads."""
        rows = self.other.store.read("SELECT sha1 FROM version UNION SELECT sha1 FROM item WHERE kind = 1")
        found = {row["sha1"] for row in rows}
        for path in config.Paths("default").recovered.iterdir():
            if path.is_file():
                found.add(sha1(path.read_bytes()))
        held = self.drive.db.rows(
            "SELECT n.sha1 FROM op JOIN node AS n ON n.ino = op.ino WHERE op.kind = 'upload'"
            " AND op.state = 'held' AND n.draft IS NULL"
        )
        return found | {row["sha1"] for row in held}

    def _check_item(self, cell: Cell) -> None:
        rows = self.other.store.read("SELECT sha1 FROM item WHERE id = ?", int(cell.item))
        now = rows[0]["sha1"] if rows else None
        if self.elsewhere in BYTES:
            ours = cell.saw_theirs and cell.wrote
            expected = bytes(cell.model) if ours else self._their_bytes(cell)
            assert now == sha1(expected), f"{cell}: the item has not the bytes that it should have"
        elif self.elsewhere in PLACES:
            assert now == sha1(bytes(cell.model)), f"{cell}: the item has not our bytes"
        files = [path for path in self._paths() if f"{cell.name}/" in path]
        copies = [path for path in files if CONFLICT_MARK in path]
        beside = self.elsewhere in BYTES and cell.wrote and not cell.saw_theirs
        if beside and cell.then == "rename":
            assert len(files) == 2, f"{cell}: {files}"  # ours already has its own name
        else:
            assert len(copies) == beside, f"{cell}: {files}"

    def _their_bytes(self, cell: Cell) -> bytes:
        return {
            "longer": cell.theirs * 20,
            "as long": cell.theirs.ljust(len(cell.base), b"!"),
        }.get(self.elsewhere, cell.theirs)

    def _paths(self) -> list[str]:
        rows = self.drive.db.rows("SELECT ino FROM node WHERE parent IS NOT NULL AND kind = 'file'")
        return sorted(tree.path(self.drive.db, row["ino"]) for row in rows)

    async def _check_same(self) -> None:
        """Check that the drive shows the same paths as the service, except for held operations."""
        there = {path for path in await self.other.paths() if not path.endswith("/")}
        here = {path.removeprefix("/").removeprefix("Shared with me/") for path in self._paths()}
        held = {
            path.removeprefix("/").removeprefix("Shared with me/")
            for kind, state, path in self.drive.ops()
            if state == "held"
        }
        assert sorted(here - held) == sorted(there - held), (here - held, there - held, self.drive.ops())
        assert [op for op in self.drive.ops() if op[1] != "held"] == []
