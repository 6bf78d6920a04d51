"""Manages the helper process that makes requests on the mount: started on demand, killed when it hangs.

Rules: never wait for it to exit, because a process that waits in the kernel for our own answer dies only
with that answer.  Until it is reaped, its PID stays registered as a helper's and cannot be reused by another
process.
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

# A task is four requests, each answered immediately.
TIMEOUT_SECONDS = 10.0

_MAX_ANSWER_BYTES = 1 << 22


class EchoHelper:
    """Runs one helper process at a time.  If it does not answer, it is killed and the call reports that."""

    def __init__(self, echoes: Echoes, nursery: trio.Nursery) -> None:
        self._echoes = echoes
        self._nursery = nursery
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: trio.SocketStream | None = None

    @property
    def pid(self) -> int | None:
        """The PID of the helper, if one is running."""
        return None if self._process is None else self._process.pid

    async def find_watched(self, device: int) -> set[Ino] | None:
        """Return the watched inodes of a device, or None if the helper did not answer."""
        answer = await self._exchange([b"S", b"%d" % device])
        return None if answer is None else {int(word) for word in answer.split()}

    async def run_tasks(
        self, device: int, folder: tuple[bytes, Ino], other: tuple[bytes, Ino], tasks: Sequence[EchoTask]
    ) -> bool:
        """Have the helper run these tasks in a folder (moves: to `other`); return whether it answered."""
        fields = [b"D", b"%d" % device, folder[0], b"%d" % folder[1], other[0], b"%d" % other[1]]
        for task in tasks:
            fields += [
                task.kind,
                convert.raw_name(task.name),
                convert.raw_name(task.new_name),
                b"%d" % task.size,
            ]
        self._echoes.set_tasks(tasks)
        try:
            answer = await self._exchange(fields)
        finally:
            self._echoes.set_tasks(())
        if answer is not None and any(word != b"0" for word in answer.split()):
            log.debug("some changes of a folder did not reach its watchers: %s", answer.decode())
        return answer is not None

    def kill(self) -> None:
        """Kill the helper; the next request starts a new one."""
        process, stream = self._process, self._stream
        self._process = self._stream = None
        if process is None or stream is None:
            return
        # Not `Popen.kill`, which reaps a dead process: its PID could be reused before we notice.
        os.kill(process.pid, signal.SIGKILL)
        stream.socket.close()
        self._nursery.start_soon(self._reap, process)

    async def _exchange(self, fields: Sequence[bytes]) -> bytes | None:
        message, got = b"\0".join(fields), bytearray()
        done = False
        try:
            with trio.move_on_after(TIMEOUT_SECONDS):
                stream = self._stream or await self._start()
                await stream.send_all(len(message).to_bytes(4, "big") + message)
                while not got.endswith(b"\n") and len(got) < _MAX_ANSWER_BYTES:
                    if not (more := await stream.receive_some()):
                        break
                    got += more
                done = got.endswith(b"\n")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if not done:
                self.kill()
        return bytes(got[:-1]) if done else None

    async def _start(self) -> trio.SocketStream:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = process = await threads.run_sync(_spawn, theirs.fileno())
            self._echoes.pids.add(process.pid)
            self._echoes.on_helper(process.pid)
            self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours.dup()))
        return self._stream

    async def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Unregister the PID once the process has died, not when it was killed."""
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
                process.returncode = -9  # keeps `Popen` from waiting for it


def _spawn(stream: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", echo_process.__file__],
        stdin=stream,
        stdout=stream,
        stderr=subprocess.DEVNULL,
        cwd="/",  # so that it keeps no drive busy that somebody wants to unmount
        env={},
        start_new_session=True,
    )
