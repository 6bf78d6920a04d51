"""The guard: holds all uploads and deletions after a suspicious mass change until the user decides.

`vfs.heuristics.mass_changes` detects mass changes; contents that look encrypted are compared with the
previous contents here.  The journal keeps all changes meanwhile, and remote changes are applied as usual.

Rule: an alarm is stored before anything else is sent, so it survives a restart.
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

# Programs that the user allowed raise no alarm for this time.
ALLOWED_SECONDS = 3600.0

# A file with such a suffix counts as encrypted before if its previous contents are not cached.
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
    """Holds changes after an alarm and releases them on the user's decision."""

    def __init__(self, settings: config.Settings, db: Database, blocks: BlockCache, nursery: Starts) -> None:
        self.changes = MassChanges(settings.guard_files, settings.guard_deletions, settings.guard_ignores)
        self.changes.alarm = self._raise_alarm
        self._db = db
        self._blocks = blocks
        self._nursery = nursery
        self._released = Signal()
        # Files whose held changes the user released: their writers may be forgotten when they are checked.
        self._released_files: set[Ino] = set()
        # How many rows of traces are stored; whether a task stores more.
        self._stored = 0
        self._is_storing = False
        self.traces = self.changes.traces
        self.traces.on_found = self._start_storing
        text = kv_store.get(db, kv_store.GUARD)
        self.notice = attention.GuardNotice.model_validate_json(text) if text is not None else None
        if self.notice is not None:
            stored = kv_store.all_of(db, kv_store.GUARD_TRACES)
            self.traces.restore([one.name for one in self.notice.programs], _read_traces(stored))
            self._stored = len(stored)
            log.warning("%s Nothing is uploaded or deleted until then.", self.question)

    @property
    def is_holding(self) -> bool:
        """Whether nothing may be sent."""
        return self.notice is not None

    @property
    def question(self) -> str:
        """The question for the user, in two sentences; "" without an alarm."""
        if self.notice is None:
            return ""
        return f"{self.notice.sentence} Look at it with `cmsfs guard`."

    async def wait_until_released(self) -> None:
        """Wait until changes may be sent."""
        while self.notice is not None:
            await self._released.wait()

    def check_contents(self, sealed: Sealed) -> None:
        """Check a file whose new contents look encrypted or are empty."""
        node = tree.find(self._db, sealed.ino)
        if node is None or node.remote_id is None or node.base_sha1 in (None, sealed.sha1):
            return  # a new file, or unchanged contents
        if node.ino in self._released_files:
            self._released_files.discard(node.ino)
        elif not sealed.size:
            self.changes.emptied(node.ino)
        elif not self._was_random(node):
            self.changes.encrypted(node.ino)

    def _was_random(self, node: Node) -> bool:
        """Whether the previous contents looked encrypted; judged by the name if they are not cached."""
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

    def _raise_alarm(self, found: MassChange) -> None:
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
        # The mass change may have started before the counted changes.
        since = clock.monotonic() - (clock.time() - found.since) - WINDOW_SECONDS
        self.traces.follow([caller.name for caller, _ in found.programs], since=since)
        self.notice = notice if before is None else _merge_notices(before, notice)
        if before is None:
            log.warning("%s Nothing more is uploaded or deleted until then.", self.question)
        self._nursery.start_soon(self._store)

    def _folder(self, inos: Iterable[Ino]) -> str:
        """Return the lowest folder that contains all of these."""
        found = [node for ino in inos if (node := tree.find(self._db, ino)) is not None]
        # The former place of items that are deleted at the service too is unknown.
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

    def _start_storing(self) -> None:
        if not self._is_storing and self.notice is not None:
            self._is_storing = True
            self._nursery.start_soon(self._store_traces)

    async def _store_traces(self) -> None:
        """Store new traces until there are none."""
        try:
            while self.notice is not None and self.traces.fresh:
                new = [[ino, *(key or ())] for ino, key in self.traces.fresh.items()]
                self.traces.fresh.clear()
                place, self._stored = f"{kv_store.GUARD_TRACES}{self._stored:09}", self._stored + 1
                text = json.dumps(new)
                # Also at an orderly stop: the next start would not know what these were.
                with trio.CancelScope(shield=True):
                    await self._db.write_short(functools.partial(kv_store.put, key=place, value=text))
        finally:
            self._is_storing = False

    def still_running(self) -> list[str]:
        """Return the programs of the notice that still run."""
        programs = self.notice.programs if self.notice is not None else []
        return [
            f"{one.name} (process {one.pid})" for one in programs if callers.is_running(one.pid, one.name)
        ]

    async def allow(self) -> bool:
        """Release the held changes at the user's request; return whether there were any."""
        if (notice := self.notice) is None:
            return False
        self._released_files = queue.pending_files(self._db)
        await self._release([one.name for one in notice.programs], ALLOWED_SECONDS)
        log.info("the user released the changes that the guard held")
        return True

    async def release_after_undo(self) -> None:
        """Release the remaining changes after the mass change was undone."""
        await self._release([], 0.0)
        log.info("the mass change was undone")

    async def _release(self, allowed: list[str], seconds: float) -> None:
        self.notice = None
        self.changes.allow(allowed, seconds)
        self.traces.forget()
        self._stored = 0
        await self._store()
        self._released.pulse()


def _merge_notices(before: attention.GuardNotice, now: attention.GuardNotice) -> attention.GuardNotice:
    """Merge a later notice of the same mass change: the first one may no longer be in the counted window."""
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
