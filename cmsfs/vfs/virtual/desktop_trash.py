"""The freedesktop trash, `.Trash-UID` with `info` and `files`, mapped to the service's trash.

To delete an item, a file manager writes a `.trashinfo` file into `info` and renames the item into `files`:
the drive moves it to the service's trash, at once.  Renaming it back out restores it.  Items deleted this way
are listed for as long as they are in the service's trash; the folder itself is not stored at the service.

Rule: emptying the desktop's trash deletes nothing permanently: users empty it to free local disk space, and
can still restore from the service's trash.  Emptied items are removed from this list and stay in `.trash`.
"""

import errno
import json
import logging
import stat
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from cmsfs import errors
from cmsfs.replica.nodes import KINDS, Ino, ItemKey
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import VirtualFile, VirtualFolder, VirtualNode
from cmsfs.vfs.virtual.trash import TrashFolder

log = logging.getLogger(__name__)

NOTE_SUFFIX = ".trashinfo"
# The maximum size of a `.trashinfo` file, which has a path and a date.
MAX_NOTE = 64 * 1024


@dataclass(slots=True)
class Record:
    """An item that a file manager has deleted, by its name in `files`."""

    note: str = ""
    kind: str = ""  # "" until the item itself was moved in
    id: str = ""
    size: int = 0
    mtime_ns: int = 0

    @property
    def key(self) -> ItemKey:
        return KINDS[self.kind], self.id

    @property
    def node_key(self) -> Hashable:
        return "desktop", *self.key


class RecordStore(Protocol):
    """Stores the records across restarts."""

    def load(self) -> str:
        """Return the text that was stored last; "" if there is none."""

    async def store(self, text: str) -> None: ...


class Records:
    """The records of items that file managers of this machine have deleted."""

    def __init__(self, shelf: RecordStore) -> None:
        self._shelf = shelf
        text = shelf.load()
        self.by_name: dict[str, Record] = {
            name: Record(**values) for name, values in (json.loads(text) if text else {}).items()
        }

    async def save(self) -> None:
        known = {name: asdict(one) for name, one in self.by_name.items() if one.kind}
        await self._shelf.store(json.dumps(known))

    async def forget(self, name: str) -> None:
        if self.by_name.pop(name, None) is not None:
            await self.save()


class _Note(VirtualFile):
    """A `.trashinfo` file: an item's original path and deletion time, as the file manager wrote it."""

    mode = 0o600
    is_writable = True

    def __init__(self, records: Records, name: str, record: Record) -> None:
        super().__init__(("desktop note", name))
        self._records = records
        self._record = record
        self.size = len(record.note.encode())

    async def open(self) -> bytes:
        return self._record.note.encode()

    async def write(self, offset: int, data: bytes) -> None:
        if offset + len(data) > MAX_NOTE:
            raise errno_map.oserror(errno.EFBIG)
        old = self._record.note.encode().ljust(offset, b"\0")
        await self._become(old[:offset] + data + old[offset + len(data) :])

    async def truncate(self, size: int) -> None:
        if size > MAX_NOTE:
            raise errno_map.oserror(errno.EFBIG)
        await self._become(self._record.note.encode()[:size].ljust(size, b"\0"))

    async def _become(self, data: bytes) -> None:
        # By definition the text is ASCII; invalid bytes are shown as replacement characters.
        self._record.note = data.decode(errors="replace")
        self.size = len(data)
        if self._record.kind:
            await self._records.save()


class _Notes(VirtualFolder):
    mode = 0o700

    def __init__(self, records: Records) -> None:
        super().__init__("desktop notes")
        self._records = records
        # Files that are being written, under temporary names.
        self._loose: dict[str, Record] = {}

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        known = self._records.by_name
        notes = [(f"{n}{NOTE_SUFFIX}", _Note(self._records, n, one)) for n, one in known.items() if one.note]
        return notes[position:]

    async def child(self, name: str) -> VirtualNode:
        if name in self._loose:
            return _Note(self._records, name, self._loose[name])
        record = self._records.by_name.get(name.removesuffix(NOTE_SUFFIX))
        if record is None or not name.endswith(NOTE_SUFFIX):
            raise errno_map.oserror(errno.ENOENT, name)
        return _Note(self._records, name.removesuffix(NOTE_SUFFIX), record)

    async def create(self, name: str) -> VirtualFile:
        if not name.endswith(NOTE_SUFFIX):
            return _Note(self._records, name, self._loose.setdefault(name, Record()))
        stem = name.removesuffix(NOTE_SUFFIX)
        return _Note(self._records, stem, self._records.by_name.setdefault(stem, Record()))

    async def rename(self, name: str, into: VirtualFolder, new_name: str, flags: int) -> None:
        if into is not self or name not in self._loose or not new_name.endswith(NOTE_SUFFIX):
            raise errno_map.oserror(errno.EPERM, name)
        record = self._records.by_name.setdefault(new_name.removesuffix(NOTE_SUFFIX), Record())
        record.note = self._loose.pop(name).note
        await self._records.save()

    async def remove(self, name: str, *, folder: bool) -> None:
        if self._loose.pop(name, None) is not None:
            return
        stem = name.removesuffix(NOTE_SUFFIX)
        record = self._records.by_name.get(stem)
        if record is None:
            return  # removed with its item
        record.note = ""
        if not record.kind:
            await self._records.forget(stem)
        else:
            await self._records.save()


class _Thing(VirtualNode):
    mode = 0o700

    def __init__(self, record: Record) -> None:
        super().__init__(record.node_key, mtime_ns=record.mtime_ns)


class _File(_Thing, VirtualFile):
    kind = stat.S_IFREG

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self.size = record.size


class _Folder(_Thing, VirtualFolder):
    kind = stat.S_IFDIR


def _thing(record: Record) -> VirtualNode:
    return _Folder(record) if record.kind == "folder" else _File(record)


class _Expunged(VirtualFolder):
    """The folder to which desktops move items before deleting them: these are no longer listed."""

    mode = 0o700

    async def child(self, name: str) -> VirtualNode:
        raise errno_map.oserror(errno.ENOENT, name)

    async def remove(self, name: str, *, folder: bool) -> None:
        """Do nothing: the item is no longer listed."""


class _Files(VirtualFolder):
    mode = 0o700

    def __init__(self, trash: TrashFolder, records: Records) -> None:
        super().__init__("desktop files")
        self._trash = trash
        self._records = records

    async def opened(self) -> None:
        """Remove items from the list that were restored or removed elsewhere; unchanged while offline."""
        try:
            gone = [
                n for n, one in self._records.by_name.items() if one.kind and not await self._is_there(one)
            ]
        except (errors.CmsfsError, OSError) as error:
            log.info("showing the last known state of the desktop's trash: %s", error)
            return
        for name in gone:
            await self._records.forget(name)

    async def _is_there(self, record: Record) -> bool:
        return await self._trash.find_key(record.key) is not None

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        there = [(name, _thing(one)) for name, one in self._records.by_name.items() if one.kind]
        return there[position:]

    async def child(self, name: str) -> VirtualNode:
        return _thing(self._get(name))

    def _get(self, name: str) -> Record:
        record = self._records.by_name.get(name)
        if record is None or not record.kind:
            raise errno_map.oserror(errno.ENOENT, name)
        return record

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        record = self._records.by_name.setdefault(new_name, Record())
        if record.kind:
            raise errno_map.oserror(errno.EEXIST, new_name)
        if (key := await self._trash.put(parent, name, name)) is None:
            await self._records.forget(new_name)
            return
        kind, item_id = key
        record.kind, record.id, record.mtime_ns = kind.value, item_id, clock.time_ns()
        if (item := await self._trash.find_key((kind, item_id))) is not None:
            record.size, record.mtime_ns = item.size, item.mtime_ns
        await self._records.save()

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        record = self._get(name)
        item = await self._trash.find_key(record.key)
        if item is None:
            await self._records.forget(name)
            raise errno_map.oserror(errno.ENOENT, name)
        ino = await self._trash.restore(item, parent, new_name, flags)
        await self._records.forget(name)
        return record.node_key, ino

    async def rename(self, name: str, into: VirtualFolder, new_name: str, flags: int) -> None:
        self._get(name)
        if not isinstance(into, _Expunged):
            raise errno_map.oserror(errno.EPERM, name)
        await self.remove(name, folder=False)

    async def remove(self, name: str, *, folder: bool) -> None:
        self._get(name)
        await self._records.forget(name)
        log.info(
            "an item was removed from the desktop's trash; the service's trash still has it, see `.trash`"
        )


class DesktopTrash(VirtualFolder):
    """The folder `.Trash-UID`."""

    mode = 0o700

    def __init__(self, trash: TrashFolder, shelf: RecordStore) -> None:
        super().__init__("desktop trash")
        records = Records(shelf)
        self._parts: dict[str, VirtualFolder] = {
            "info": _Notes(records),
            "files": _Files(trash, records),
            "expunged": _Expunged("desktop expunged"),
        }

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        return list(self._parts.items())[position:]

    async def child(self, name: str) -> VirtualNode:
        if name not in self._parts:
            raise errno_map.oserror(errno.ENOENT, name)
        return self._parts[name]
