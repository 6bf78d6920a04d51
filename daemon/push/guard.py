"""The guard: where a program spoils many files, nothing more is sent until a person has said what it was.

`vfs.heuristics.mass_changes` notices; what looks encrypted is compared with what it was before here.  The
journal keeps every change meanwhile, and changes of others come as ever.

Rule: what was noticed is a row before anything else is sent, so that a restart does not forget it.
"""

import functools
import json
import logging
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from sqlite3 import Connection

import trio

from cmsfs import config
from cmsfs.cache.blocks import BlockCache
from cmsfs.ipc import attention
from cmsfs.journal import entropy, queue
from cmsfs.journal.sealing import Sealed
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import KINDS, Ino, ItemKey, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.heuristics.mass_changes import WINDOW_SECONDS, MassChange, MassChanges
from cmsfs.wakeup import Signal
from daemon.core.supervisor import Starts
from daemon.push import former_paths

log = logging.getLogger(__name__)

# Who was allowed to go on is not asked about again for so long.
ALLOWED_SECONDS = 3600.0

# A file that is called so, and of which no earlier bytes are here, was encrypted before, as far as is known.
_RANDOM = frozenset(
    (
        *(".gpg", ".pgp", ".age", ".enc", ".aes", ".kdbx", ".kdb", ".key", ".p12", ".pfx", ".der", ".crypt"),
        *(
            ".hc",
            ".vc",
            ".tc",
            ".luks",
            ".img",
            ".bin",
            ".dat",
            ".db",
            ".raw",
            ".vault",
            ".c9r",
            ".cryptomator",
        ),
    )
)


class Guard:
    """Whether changes are held, why, and what a person says to that."""

    def __init__(self, settings: config.Settings, db: Database, blocks: BlockCache, nursery: Starts) -> None:
        self.changes = MassChanges(settings.guard_files, settings.guard_deletions, settings.guard_ignores)
        self.changes.alarm = self._noticed
        self._db = db
        self._blocks = blocks
        self._nursery = nursery
        self._released = Signal()
        # Files whose changes were held when a person let them go: who wrote them may be forgotten by then.
        self._let_go: set[Ino] = set()
        # How many rows of traces are stored; whether a task stores more.
        self._stored = 0
        self._is_storing = False
        self.traces = self.changes.traces
        self.traces.told = self._traced
        text = kv_store.get(db, kv_store.GUARD)
        self.notice = attention.GuardNotice.model_validate_json(text) if text is not None else None
        if self.notice is not None:
            stored = kv_store.all_of(db, kv_store.GUARD_TRACES)
            self.traces.take_up([one.name for one in self.notice.programs], _read_traces(stored))
            self._stored = len(stored)
            log.warning("%s Nothing is uploaded or deleted until then.", self.question)

    @property
    def is_holding(self) -> bool:
        """Whether nothing is to be sent."""
        return self.notice is not None

    @property
    def question(self) -> str:
        """What a person is asked, in two sentences; "" for nothing."""
        if self.notice is None:
            return ""
        return f"{self.notice.sentence} Look at it with `cmsfs guard`."

    async def let_go(self) -> None:
        """Return when changes may be sent."""
        while self.notice is not None:
            await self._released.wait()

    def suspicious(self, sealed: Sealed) -> None:
        """Contents that look encrypted, or nothing at all, were written to a file."""
        node = tree.find(self._db, sealed.ino)
        if node is None or node.remote_id is None or node.base_sha1 in (None, sealed.sha1):
            return  # new here, or nothing new
        if node.ino in self._let_go:
            self._let_go.discard(node.ino)
        elif not sealed.size:
            self.changes.emptied(node.ino)
        elif not self._was_random(node):
            self.changes.encrypted(node.ino)

    def _was_random(self, node: Node) -> bool:
        """Whether a file looked as encrypted before; of what is not here, by its name."""
        assert node.base_sha1 is not None
        path = self._blocks.checked_file(node.base_sha1)
        if path is None:
            return PurePosixPath(node.name).suffix.lower() in _RANDOM
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return entropy.looks_encrypted(os.pread(fd, entropy.HEAD, 0))
        finally:
            os.close(fd)

    def _noticed(self, found: MassChange) -> None:
        before = self.notice
        notice = attention.GuardNotice(
            since=datetime.fromtimestamp(found.since, UTC),
            spoiled=found.spoiled,
            deleted=found.deleted,
            suffix=found.suffix,
            folder=self._folder(found.some),
            programs=[
                attention.GuardProgram(name=caller.name, pid=caller.pid, files=files)
                for caller, files in found.programs
            ],
        )
        # What began it may be older than what was counted.
        since = clock.monotonic() - (clock.time() - found.since) - WINDOW_SECONDS
        self.traces.follow([caller.name for caller, _ in found.programs], since=since)
        self.notice = notice if before is None else _together(before, notice)
        if before is None:
            log.warning("%s Nothing more is uploaded or deleted until then.", self.question)
        self._nursery.start_soon(self._store)

    def _folder(self, some: Iterable[Ino]) -> str:
        """The folder that all of these are below."""
        found = [node for ino in some if (node := tree.find(self._db, ino)) is not None]
        # Of what has left the service as well it is not known where it was.
        nodes = [node for node in found if (node.parent, node.base_parent) != (None, None)] or found
        paths = [former_paths.of(self._db, node) for node in nodes]
        above = {
            path if node.is_folder else path.rpartition("/")[0] or "/"
            for node, path in zip(nodes, paths, strict=True)
        }
        return os.path.commonpath(above) if above else "/"

    async def _store(self) -> None:
        def txn(conn: Connection) -> None:
            if self.notice is None:
                kv_store.drop(conn, kv_store.GUARD)
                kv_store.drop_all(conn, kv_store.GUARD_TRACES)
            else:
                kv_store.put(conn, kv_store.GUARD, self.notice.model_dump_json())

        # Also at an orderly stop: the next start has to hold, too.
        with trio.CancelScope(shield=True):
            await self._db.write(txn)

    def _traced(self) -> None:
        if not self._is_storing and self.notice is not None:
            self._is_storing = True
            self._nursery.start_soon(self._store_traces)

    async def _store_traces(self) -> None:
        """Store what came since the last time, until nothing has."""
        try:
            while self.notice is not None and self.traces.fresh:
                new = [[ino, *(key or ())] for ino, key in self.traces.fresh.items()]
                self.traces.fresh.clear()
                place, self._stored = f"{kv_store.GUARD_TRACES}{self._stored:09}", self._stored + 1
                text = json.dumps(new)
                # Also at an orderly stop: the next start would not know what these were.
                with trio.CancelScope(shield=True):
                    await self._db.write(functools.partial(kv_store.put, key=place, value=text))
        finally:
            self._is_storing = False

    def still_running(self) -> list[str]:
        """The programs of the notice that have not ended."""
        programs = self.notice.programs if self.notice is not None else []
        return [
            f"{one.name} (process {one.pid})" for one in programs if callers.is_running(one.pid, one.name)
        ]

    async def allow(self) -> bool:
        """A person says that this is as it should be: what was held goes; whether anything was."""
        if (notice := self.notice) is None:
            return False
        self._let_go = queue.pending_files(self._db)
        await self._release([one.name for one in notice.programs], ALLOWED_SECONDS)
        log.info("the guard was told to let changes go")
        return True

    async def undone(self) -> None:
        """What was noticed has been taken back; all else goes."""
        await self._release([], 0.0)
        log.info("what the guard had noticed was taken back")

    async def _release(self, allowed: list[str], seconds: float) -> None:
        self.notice = None
        self.changes.allow(allowed, seconds)
        self.traces.forget()
        self._stored = 0
        await self._store()
        self._released.pulse()


def _together(before: attention.GuardNotice, now: attention.GuardNotice) -> attention.GuardNotice:
    """What goes on is one thing: what was told first may be out of what is counted by now."""
    named = {one.name for one in now.programs}
    return now.model_copy(
        update={
            "since": min(before.since, now.since),
            "spoiled": max(before.spoiled, now.spoiled),
            "deleted": max(before.deleted, now.deleted),
            "suffix": now.suffix or before.suffix,
            "folder": os.path.commonpath([before.folder, now.folder]),
            "programs": now.programs + [one for one in before.programs if one.name not in named],
        }
    )


def _read_traces(stored: Iterable[str]) -> dict[Ino, ItemKey | None]:
    rows = [row for text in stored for row in json.loads(text)]
    return {ino: (KINDS[key[0]], key[1]) if key else None for ino, *key in rows}
