"""Follows the drives of this user: which daemons run, their summaries, and recently transferred files.

Each daemon sends its summary whenever it changes, over one persistent connection; daemons are found by
listing the folder with their sockets.

Rule: a daemon that starts, exits, disconnects or has an older version is not an error.
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

# At most this many recent files are in the menu.
RECENT = 8

# The longest line that is read; a summary may contain many paths.
MAX_LINE_BYTES = 1024 * 1024


class DriveFollower:
    """The daemons' latest summaries; `changed` is pulsed with each message."""

    def __init__(self) -> None:
        self.changed = Signal()
        self.recent: dict[str, list[str]] = {}
        self._drives: dict[Path, control.DriveSummary] = {}

    @property
    def drives(self) -> Sequence[control.DriveSummary]:
        return [self._drives[path] for path in sorted(self._drives)]

    async def run(self) -> None:
        """Follow all daemons, forever."""
        followed: set[Path] = set()
        async with trio.open_nursery() as nursery:
            while True:
                for path in daemonctl.sockets():
                    if path not in followed:
                        followed.add(path)
                        nursery.start_soon(self._follow, path, followed)
                await trio.sleep(LOOK_SECONDS)

    async def ask(self, account: str, request: control.Request) -> None:
        """Send a request to a daemon; its effect shows in the next summary."""
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
                while len(data) < MAX_LINE_BYTES and (chunk := await stream.receive_some()):
                    data += chunk
                    *lines, rest = bytes(data).split(b"\n")
                    data = bytearray(rest)
                    for line in lines:
                        self._handle_summary(path, control.parse_answer(line))
        except (OSError, trio.BrokenResourceError, pydantic.ValidationError):
            pass
        finally:
            followed.discard(path)
            if self._drives.pop(path, None):
                self.changed.pulse()

    def _handle_summary(self, path: Path, answer: control.Answer) -> None:
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
