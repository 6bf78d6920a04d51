"""Calls into the kernel that answer no request: cache invalidations.

pyfuse3 keeps one session in module globals, and a call on a session that was closed uses freed memory.
`mount` says when the session is live; `notifier` calls through here, from its thread.

Rule: never call from the event loop.  A notification waits in the kernel for requests that only the loop
can answer.
"""

import contextlib
import threading
from collections.abc import Callable

import pyfuse3
import trio

from cmsfs.replica.nodes import Ino

# So long is an invalidation waited for that an open file would meet: it waits for reads of that file at most.
MEET_SECONDS = 1.0


class KernelSession:
    """The one session of this process, safe to call into at any time; without a mount a call does nothing."""

    def __init__(self) -> None:
        # Held during a call, which may block in the kernel: only `closing` waits for it, with a deadline.
        self._calling = threading.Lock()
        self._live = False
        # The inode of the invalidation under way.
        self._invalidating: Ino | None = None
        # Handlers that wait for its end.
        self._waiting: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []

    def opened(self) -> None:
        """The session exists from now on."""
        self._live = True

    def closing(self, *, timeout: float) -> bool:
        """No further call begins; whether the one under way has ended within `timeout`."""
        self._live = False
        if not self._calling.acquire(timeout=timeout):
            return False
        self._calling.release()
        return True

    def invalidate_inode(
        self, ino: Ino, *, attributes_only: bool, unless: Callable[[Ino], bool] | None = None
    ) -> bool:
        """Forget the attributes of an inode, and its pages too unless `attributes_only`.

        Not if `unless` says so at the last moment (then False): whoever makes it say so, and then finds
        nothing under way (`met`), is safe from this call.
        """
        with self._calling:
            self._invalidating = ino
            try:
                if unless and unless(ino):
                    return False
                if self._live:
                    pyfuse3.invalidate_inode(ino, attr_only=attributes_only)
                return True
            finally:
                self._invalidating = None
                waiting, self._waiting = self._waiting, []
                for token, ended in waiting:
                    with contextlib.suppress(trio.RunFinishedError):
                        token.run_sync_soon(ended.set)

    async def met(self, ino: Ino) -> None:
        """Return when no invalidation of this inode is under way: for a handler, before its answer.

        An answer about the size of a file that the kernel asked for before an invalidation, and got after it,
        is thrown away, and the read that asked ends at the old size.
        """
        if self._invalidating != ino:
            return
        ended = trio.Event()
        self._waiting.append((trio.lowlevel.current_trio_token(), ended))
        if self._invalidating == ino:
            with trio.move_on_after(MEET_SECONDS):
                await ended.wait()

    def doubt_attributes(self, ino: Ino) -> None:
        """Have the kernel ask for the attributes of an inode when it needs them next: for a handler, before
        its answer, where the notifier may come too late.

        Never waits: not for the kernel, and not for a call of the notifier, which may wait for the handler.
        """
        if self._live:
            with contextlib.suppress(OSError):
                pyfuse3.invalidate_inode(ino, attr_only=True)

    def invalidate_entry(self, parent: Ino, name: bytes, *, deleted: Ino = 0) -> None:
        """Forget what a name stands for; those who watch inode `deleted` are told that it is gone."""
        with self._calling:
            if self._live:
                pyfuse3.invalidate_entry(parent, name, deleted)


session = KernelSession()
