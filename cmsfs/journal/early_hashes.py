"""Hashes large drafts early: while they settle, so that their SHA-1 is known when their upload begins.

`FileWriter` names the drafts that a program has just closed or fsynced.  The agent (`run`) reads them one at
a time, beside the fsync and the programs; `Sealer` asks for the result, and hashes what has none.

Rule: a result is of one generation of one `Draft` object, which is kept in memory with it: loaded again from
its row, the draft would count its changes from zero.  Whoever uses a result compares, under the draft's lock.
"""

import hashlib
import logging
import os
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cmsfs.journal.draft import Draft
from cmsfs.runtime import threads
from cmsfs.wakeup import LockGuard, Signal

log = logging.getLogger(__name__)

# Smaller files are hashed within some 15 ms, which nobody notices before an upload.
LARGE = 16 * 1024 * 1024

# After each piece the thread looks whether its work has become pointless: about every 4 ms.
PIECE = 4 * 1024 * 1024

# Drafts that wait, and results, which programs that write without a pause could make arbitrarily many.
MOST = 64


@dataclass(slots=True)
class _Run:
    """Of one draft at one generation.  A thread changes `done`."""

    draft: Draft
    generation: int
    size: int
    # Bytes read so far.
    done: int = 0
    sha1: str | None = None

    @property
    def is_current(self) -> bool:
        return self.draft.generation == self.generation and not self.draft.dropped

    def hash(self, fd: int) -> None:
        """Hash the file, unless the draft changes meanwhile.  Runs in a thread."""
        digest = hashlib.sha1(usedforsecurity=False)
        while self.done < self.size:
            threads.check_cancelled()
            data = os.pread(fd, min(PIECE, self.size - self.done), self.done)
            if not (data and self.is_current):
                return
            digest.update(data)
            self.done += len(data)
        self.sha1 = digest.hexdigest()


class EarlyHashes:
    """The SHA-1 of large drafts that rest."""

    def __init__(self) -> None:
        # By number of the draft, those that rest the longest first.
        self._waiting: dict[int, Draft] = {}
        self._known: dict[int, _Run] = {}
        self._running: _Run | None = None
        self._wanted, self._ended = Signal(), Signal()
        # Bytes of each draft that were read here.
        self._read: WeakKeyDictionary[Draft, int] = WeakKeyDictionary()

    def rests(self, draft: Draft) -> None:
        """Hash the draft soon: a program has just closed or fsynced it.

        Not if twice its size has been read already: a file that grows between many fsyncs is hashed again
        each time it has doubled, and one that is changed in place twice.
        """
        if draft.size < LARGE or self._read.get(draft, 0) > draft.size or len(self._waiting) >= MOST:
            return
        self._waiting[draft.id] = draft
        self._wanted.set()

    async def of(self, draft: Draft, generation: int) -> str | None:
        """Return the SHA-1 of the draft at this generation, if it is known or just being found out."""
        # If it has not begun, the caller is as fast.
        self._waiting.pop(draft.id, None)
        while (run := self._running) is not None and _is_of(run, draft, generation):
            await self._ended.wait()
        known = self._known.get(draft.id)
        return known.sha1 if known is not None and _is_of(known, draft, generation) else None

    def forget(self, draft_id: int) -> None:
        """Forget a draft that is no more; a thread that reads it ends by itself."""
        self._waiting.pop(draft_id, None)
        self._known.pop(draft_id, None)

    async def run(self) -> None:
        """Hash what rests, until cancelled.

        Cancelled: the thread ends after its current piece, and its draft is given back.
        """
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._waiting:
                draft = self._waiting.pop(next(iter(self._waiting)))
                try:
                    await self._hash(draft)
                except OSError as error:
                    # Sealing reads it again and handles what it meets.
                    log.debug("draft %d could not be hashed early: %s", draft.id, error)

    async def _hash(self, draft: Draft) -> None:
        known = self._known.get(draft.id)
        async with LockGuard(draft.lock):
            if draft.sealed or draft.dropped or draft.holes():
                return
            if known is not None and _is_of(known, draft, draft.generation):
                return
            run = _Run(draft, draft.generation, draft.size)
            fd = draft.acquire()
        try:
            # Zeros at the end that the file does not have yet are added when it is sealed.
            if os.fstat(fd).st_size != run.size:
                return
            self._running = run
            await threads.run_sync(run.hash, fd)
        finally:
            self._running = None
            self._read[draft] = self._read.get(draft, 0) + run.done
            draft.release()
            if run.sha1 is not None and run.is_current:
                self._known[draft.id] = run
                while len(self._known) > MOST:
                    del self._known[next(iter(self._known))]
            self._ended.pulse()


def _is_of(run: _Run, draft: Draft, generation: int) -> bool:
    return run.draft is draft and run.generation == generation
