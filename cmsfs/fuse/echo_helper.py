"""The helper process that goes through the mount for us: started when needed, killed when it hangs.

Rules: nobody waits for its end.  A process that waits in the kernel for our own answer dies only with that
answer; until it is reaped, its number is kept as a helper's, and cannot be given to another process.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import trio

from cmsfs.fuse import convert, echo_process
from cmsfs.fuse.echoes import Echoes, EchoTask
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# A task is four requests that are answered at once.
SECONDS = 10.0

_LONGEST_ANSWER = 1 << 22


class EchoHelper:
    """One process at a time; what is asked of it is answered, or it is ended and None comes back."""

    def __init__(self, echoes: Echoes, nursery: trio.Nursery) -> None:
        self._echoes = echoes
        self._nursery = nursery
        self._process: subprocess.Popen[bytes] | None = None
        self._line: trio.SocketStream | None = None

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    async def watched(self, device: int) -> set[Ino] | None:
        """The inodes of a device that somebody watches."""
        answer = await self._exchange([b"S", b"%d" % device])
        return None if answer is None else {int(word) for word in answer.split()}

    async def make(
        self, device: int, folder: tuple[bytes, Ino], other: tuple[bytes, Ino], tasks: Sequence[EchoTask]
    ) -> bool:
        """Have these made in a folder, and another one for moves; whether the helper has tried them all."""
        fields = [b"D", b"%d" % device, folder[0], b"%d" % folder[1], other[0], b"%d" % other[1]]
        for task in tasks:
            fields += [
                task.kind,
                convert.raw_name(task.name),
                convert.raw_name(task.new_name),
                b"%d" % task.size,
            ]
        self._echoes.begin(tasks)
        try:
            answer = await self._exchange(fields)
        finally:
            self._echoes.begin(())
        if answer is not None and any(word != b"0" for word in answer.split()):
            log.debug("watchers of a folder were not told of everything: %s", answer.decode())
        return answer is not None

    def end(self) -> None:
        """Kill it; the next question starts another."""
        process, line = self._process, self._line
        self._process = self._line = None
        if process is None or line is None:
            return
        # Not `Popen.kill`, which reaps what is dead: its number could be another's before we know.
        os.kill(process.pid, signal.SIGKILL)
        line.socket.close()
        self._nursery.start_soon(self._reap, process)

    async def _exchange(self, fields: Sequence[bytes]) -> bytes | None:
        message, got = b"\0".join(fields), bytearray()
        done = False
        try:
            with trio.move_on_after(SECONDS):
                line = self._line or await self._start()
                await line.send_all(len(message).to_bytes(4, "big") + message)
                while not got.endswith(b"\n") and len(got) < _LONGEST_ANSWER:
                    if not (more := await line.receive_some()):
                        break
                    got += more
                done = got.endswith(b"\n")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if not done:
                self.end()
        return bytes(got[:-1]) if done else None

    async def _start(self) -> trio.SocketStream:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = process = await threads.run_sync(_spawn, theirs.fileno())
            self._echoes.pids.add(process.pid)
            self._echoes.on_helper(process.pid)
            self._line = trio.SocketStream(trio.socket.from_stdlib_socket(ours.dup()))
        return self._line

    async def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Give the number back once the process is dead; not when it was asked to be."""
        try:
            dead = os.pidfd_open(process.pid)
            try:
                await trio.lowlevel.wait_readable(dead)
            finally:
                os.close(dead)
            self._echoes.pids.discard(process.pid)
            self._echoes.helper_died.pulse()
        finally:
            if process.poll() is None:
                process.returncode = -9  # it is nobody's to wait for


def _spawn(line: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", echo_process.__file__],
        stdin=line,
        stdout=line,
        stderr=subprocess.DEVNULL,
        cwd="/",  # there it holds no drive that somebody wants to unmount
        env={},
        start_new_session=True,
    )
