"""The drives of this user, as their daemons tell: who is there, how each stands, what moved last.

A daemon says its summary when it has changed, over one connection that stays; looking for daemons is a
listing of the folder with their sockets.

Rule: a daemon that comes, goes, hangs up or is of an older version is no error.
"""

from collections.abc import Sequence
from pathlib import Path

import pydantic
import trio

from cmsfs import config
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control
from cmsfs.wakeup import Signal

LOOK_SECONDS = 5.0

# So many files are offered; a menu is not a list.
RECENT = 8

# A line with many paths in it.
MOST_LINE = 1024 * 1024


class DriveFollower:
    """What the daemons tell; `changed` is pulsed with each word."""

    def __init__(self) -> None:
        self.changed = Signal()
        self.recent: dict[str, list[str]] = {}
        self._drives: dict[Path, control.DriveSummary] = {}

    @property
    def drives(self) -> Sequence[control.DriveSummary]:
        return [self._drives[path] for path in sorted(self._drives)]

    async def run(self) -> None:
        """Follow whoever is there, for ever."""
        followed: set[Path] = set()
        async with trio.open_nursery() as nursery:
            while True:
                for path in daemonctl.sockets():
                    if path not in followed:
                        followed.add(path)
                        nursery.start_soon(self._follow, path, followed)
                await trio.sleep(LOOK_SECONDS)

    async def ask(self, account: str, request: control.Request) -> None:
        """Have a daemon do something; that it is done is seen in what it tells."""
        path = config.Paths(account).socket
        try:
            async with await _connect(path) as stream:
                await stream.send_all(control.encode(request))
                await stream.receive_some()
        except (OSError, trio.BrokenResourceError):
            pass

    async def _follow(self, path: Path, followed: set[Path]) -> None:
        try:
            async with await _connect(path) as stream:
                await stream.send_all(control.encode(control.Follow()))
                data = bytearray()
                while len(data) < MOST_LINE and (chunk := await stream.receive_some()):
                    data += chunk
                    *lines, rest = bytes(data).split(b"\n")
                    data = bytearray(rest)
                    for line in lines:
                        self._told(path, control.parse_answer(line))
        except (OSError, trio.BrokenResourceError, pydantic.ValidationError):
            pass
        finally:
            followed.discard(path)
            if self._drives.pop(path, None):
                self.changed.pulse()

    def _told(self, path: Path, answer: control.Answer) -> None:
        if not isinstance(answer, control.DriveSummary):
            return
        self._drives[path] = answer
        recent = self.recent.setdefault(answer.account, [])
        for name in answer.moving:
            if name in recent:
                recent.remove(name)
            recent.insert(0, name)
        del recent[RECENT:]
        self.changed.pulse()


async def _connect(path: Path) -> trio.SocketStream:
    connection = daemonctl.connection(path)
    connection.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(connection))
