"""All drafts of an account: creates them, finds them after a restart, drops them.

Uploads are debounced, so that a burst of saves is one upload: each write restarts the delay.  A file that is
written all the time would never be uploaded; so if its first unsent byte has waited too long, the file is
uploaded as it is at that moment while its writers continue, and later writes form the next change.

Rules: there is never more than one object for a draft.  A file that grows faster than `BYTES_PER_SECOND` is
still being created, and is not uploaded while it is open.
"""

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from weakref import WeakValueDictionary

from cmsfs.journal import draft_rows
from cmsfs.journal.draft import Commit, Draft, DraftVersion
from cmsfs.journal.draft_files import DraftFiles
from cmsfs.journal.early_hashes import EarlyHashes
from cmsfs.journal.extents import Extents
from cmsfs.replica.nodes import Content, Ino
from cmsfs.replica.rows import node_rows, past_versions
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database

# A change is delayed for at most this multiple of the settle time.
MAX_DEBOUNCE_FACTOR = 10

# A file that is always open for writing, such as a log, is delayed for at least this time.
OPEN_SECONDS = 60.0

# Number of files created together, whose bytes are in memory meanwhile.
MADE_AT_ONCE = 64

# Limits the average upload rate of a large file that keeps changing.
BYTES_PER_SECOND = 1024 * 1024


class Drafts:
    """Creates, finds and drops the drafts of an account."""

    insert = staticmethod(draft_rows.insert)

    def __init__(self, db: Database, root: Path) -> None:
        self.clock = clock.monotonic
        # When each draft got its first unsent byte, as far as this process knows.
        self._unsent_since: dict[int, float] = {}
        self._db = db
        self.root, self._root = root, str(root)
        # Drafts in use are in memory; all others are described by their rows.
        self._live: WeakValueDictionary[int, Draft] = WeakValueDictionary()
        # Those that somebody remembers, of drafts in memory or not.
        self._versions: WeakValueDictionary[int, DraftVersion] = WeakValueDictionary()
        self._opened = DraftFiles()
        self.hashes = EarlyHashes()
        self._commit: Commit = functools.partial(db.write, durable=True)
        # Whether the disk has so much room that the file of a small draft can be made later.
        self.has_much_room: Callable[[], bool] = lambda: True
        # Nodes whose drafts are open for writing; also read from other threads, which is safe for a set.
        self.busy: set[Ino] = set()
        # Nodes whose unsent bytes were only appended (`O_APPEND`), with the content that the service had.
        self.appended: dict[Ino, Content] = {}

    def path(self, draft_id: int) -> Path:
        return Path(self._place(draft_id))

    def _place(self, draft_id: int) -> str:
        return f"{self._root}/{draft_id}.draft"

    def started(self, draft_id: int, ino: Ino, base: tuple[str, int] | None) -> Draft:
        """Return the draft whose row was just committed."""
        if (draft := self._live.get(draft_id)) is not None:
            return draft  # another task found the row before its creator got here
        draft = self._draft(draft_id, ino, base)
        if base is None and self.has_much_room():
            draft._file.small, draft._file.is_made = bytearray(), False
        self._unsent_since[draft_id] = self.clock()
        return draft

    def in_memory(self, draft_id: int) -> Draft | None:
        """Return the draft with this id if it is in memory, because of an open file or a commit to come."""
        return self._live.get(draft_id)

    def find(self, draft_id: int) -> Draft | None:
        """Return the draft with this id, loaded from its row if it is not in memory."""
        if draft := self._live.get(draft_id):
            return draft
        row = self._db.row(
            "SELECT d.base_sha1, d.base_total, d.base_size, d.size, d.extents, d.data,"
            " n.ino FROM draft d JOIN node n ON n.draft = d.id WHERE d.id = ?",
            draft_id,
        )
        if row is None:
            return None
        base = (row["base_sha1"], row["base_total"]) if row["base_sha1"] is not None else None
        draft = self._draft(draft_id, row["ino"], base)
        draft.base_size, draft.size = row["base_size"], row["size"]
        draft.extents = Extents.from_json(row["extents"])
        draft._recorded_end, draft.in_row = draft.extents.end, row["data"] is not None
        if row["data"] and not draft.path.exists():
            # It was released from memory before its file was created.
            draft._file.small, draft._file.is_made = bytearray(row["data"]), False
        return draft

    def _draft(self, draft_id: int, ino: Ino, base: tuple[str, int] | None) -> Draft:
        """Return a draft that is as its row says."""
        place, version = self._place(draft_id), self._versions.get(draft_id)
        draft = Draft(draft_id, ino, place, base, self.busy, self._commit, self._opened, version)
        draft.recorded_to = draft.generation
        self._live[draft_id], self._versions[draft_id] = draft, draft.version
        return draft

    def base(self, draft: Draft) -> Content | None:
        """Return the base content of a draft, with its current location at the service."""
        if draft.base_sha1 is None:
            return None
        row = self._db.row("SELECT remote_id, version, base_sha1 FROM node WHERE ino = ?", draft.ino)
        # The service has it if it is still the version that the node is based on.
        there = row is not None and row["base_sha1"] == draft.base_sha1 and row["remote_id"] is not None
        if row is not None and there:
            return Content(draft.base_sha1, draft.base_total, row["remote_id"], row["version"])
        # It may have been renamed over another file and have taken over that one's identity.
        where = past_versions.find(self._db, draft.base_sha1) or (None, None)
        return Content(draft.base_sha1, draft.base_total, *where)

    def bases(self) -> dict[str, int]:
        """Return SHA-1 and size of the base contents of all drafts."""
        rows = self._db.rows("SELECT base_sha1, base_total FROM draft WHERE base_sha1 IS NOT NULL")
        return {row["base_sha1"]: row["base_total"] for row in rows}

    def note_fileless(self, draft_id: int) -> None:
        """Note that only the row has a draft's bytes, for `make_files`."""
        self._opened.fileless.add(draft_id)

    async def make_files(self) -> None:
        """Create the files of drafts that have been in their rows only: without the database they remain."""
        while self._opened.fileless:
            # atomic: no await until they are in memory, which keeps them from being made twice
            count = min(MADE_AT_ONCE, len(self._opened.fileless))
            some = [self.find(self._opened.fileless.pop()) for _ in range(count)]
            await threads.run_sync(_make_files, [draft for draft in some if draft is not None])

    def close(self) -> None:
        """Create the files of drafts that are in memory only, then close all files not in use."""
        _make_files(list(self._live.values()))
        self._opened.close()

    # ---- debouncing ----

    def debounce_ns(self, draft: Draft, settle_seconds: float) -> int:
        """Return how long a change made now must wait before its upload."""
        _, left = self._age_and_rest(draft.id, draft.size, settle_seconds)
        return int(max(0.0, min(settle_seconds, left)) * 10**9)

    def is_overdue(self, draft_id: int, recorded: int, settle_seconds: float) -> bool:
        """Whether a file that is open for writing, last recorded with this size, must be uploaded as it is
        now; from any thread."""
        draft = self._live.get(draft_id)
        size = draft.size if draft is not None else recorded
        age, left = self._age_and_rest(draft_id, size, settle_seconds)
        return age > OPEN_SECONDS and left < 0

    def _age_and_rest(self, draft_id: int, size: int, settle_seconds: float) -> tuple[float, float]:
        """Return for how many seconds it has had unsent bytes, and for how many more it may be delayed."""
        now = self.clock()
        age = now - self._unsent_since.setdefault(draft_id, now)
        return age, MAX_DEBOUNCE_FACTOR * settle_seconds + size / BYTES_PER_SECOND - age

    @staticmethod
    def delete(conn: Connection, draft_id: int) -> None:
        """Delete a draft's row, inside the caller's transaction; call `gone` after the commit."""
        node_rows.forget_draft(conn, draft_id)
        draft_rows.delete(conn, draft_id)

    def gone(self, draft_id: int) -> Path:
        """Forget a draft whose row is deleted; return its file, which the caller must unlink."""
        self._unsent_since.pop(draft_id, None)
        self._opened.fileless.discard(draft_id)
        self.hashes.forget(draft_id)
        # Even if the draft is not in memory: an open file takes up space after it is unlinked.
        self._opened.retire(self._place(draft_id))
        draft = self._live.pop(draft_id, None)
        if draft is not None:
            draft.dropped = True
            draft.replaced.set()
        return self.path(draft_id)


def _make_files(group: Iterable[Draft]) -> None:
    """Runs in a thread."""
    for draft in group:
        # A file that cannot be created now is created when needed: the row has the bytes.
        with suppress(OSError):
            if not draft.dropped:
                draft.make_file()
