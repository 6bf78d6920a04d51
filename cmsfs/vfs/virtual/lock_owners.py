"""Virtual lock files of documents that other users have locked, for office applications to show who edits.

Beside a document that another user has locked at the service, the drive has LibreOffice's `.~lock.NAME#` and
the owner file `~$NAME` of Microsoft Office, each in its program's format, with the name of the lock's owner.
They are not listed, disappear with the lock, and cannot be written or removed.

Rule: a lock file that a program has created locally has precedence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from cmsfs.replica.nodes import Ino, Node
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualNode

_WORD = (".doc", ".docm", ".docx", ".dot", ".dotm", ".dotx", ".rtf")


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The owner of a lock, and its creation time, in seconds since the epoch."""

    name: str
    login: str
    since: float


class LockOwners(Views):
    """Finds the lock files.

    `is_lock_file` checks a name, `document` returns the file that a lock file belongs to, `holder` the other
    user who has locked a file now.
    """

    comes_and_goes = True

    def __init__(
        self,
        is_lock_file: Callable[[str], bool],
        document: Callable[[Ino, str], Node | None],
        holder: Callable[[Ino], LockHolder | None],
    ) -> None:
        self._is_lock_file = is_lock_file
        self._document = document
        self._holder = holder

    def covers(self, name: str) -> bool:
        return self._is_lock_file(name)

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        node = self._document(parent, name)
        if node is None or (holder := self._holder(node.ino)) is None:
            return None
        data = libreoffice(holder) if name.startswith(".") else office(holder, node.name)
        return LockOwnerFile(node.ino, name, data, holder)


class LockOwnerFile(VirtualFile):
    """A virtual lock file."""

    def __init__(self, ino: Ino, name: str, data: bytes, holder: LockHolder) -> None:
        super().__init__(("lock", ino, name), mtime_ns=int(holder.since * 1e9))
        self._data = data
        self.size = len(data)

    async def open(self) -> bytes:
        return self._data


def libreoffice(holder: LockHolder) -> bytes:
    """Return LibreOffice's format: name, login, host, local time and profile, terminated by `;`."""
    time = f"{datetime.fromtimestamp(holder.since):%d.%m.%Y %H:%M}"
    fields = [_line(one) for one in (holder.name, holder.login, "", time, "")]
    return (",".join(fields) + ";").encode()


def _line(text: str) -> str:
    for char in "\\,;":
        text = text.replace(char, f"\\{char}")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def office(holder: LockHolder, document: str) -> bytes:
    """Return Microsoft Office's format: the name with its length, in bytes and in UTF-16.  Word pads it with
    zeros to 162 bytes, the others with spaces to 165."""
    is_word = document.lower().endswith(_WORD)
    room, short, long = (53, b"\0", b"\0\0") if is_word else (54, b" ", b" \0")
    name = _line(holder.name).replace("\\", "").encode("cp1252", "replace")[:room]
    wide = name.decode("cp1252", "replace")
    first = bytes([len(name)]) + name + short * (room - len(name))
    second = len(wide).to_bytes(2, "little") + wide.encode("utf-16-le") + long * (room - len(wide))
    return first + second
