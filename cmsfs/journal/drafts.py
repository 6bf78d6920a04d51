"""All drafts of an account: made, found again after a restart, dropped.

A change rests before its upload, so that a burst of saves is one: each write lets it rest anew.  A file that
is written again and again would rest for ever: so what has waited for long since its first unsent byte is
sent as it is at that moment, while its writers go on, and what they write from then on is the next change.

Rules: there is one object for a draft at a time, whoever asks.  A file that grows faster than
`BYTES_PER_SECOND` is being made, and is waited for while it is open.
"""

import functools
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from weakref import WeakValueDictionary

from cmsfs.journal.draft import Commit, Draft, delete_row, insert_row
from cmsfs.journal.draft_files import DraftFiles
from cmsfs.journal.extents import Extents
from cmsfs.replica import tree
from cmsfs.replica.nodes import Content, Ino
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# Times the settle time that a change rests at most.
LONGEST_TIMES = 10

# What is open for writing all the time, as a log, rests so long at least.
OPEN_SECONDS = 60.0

# A large file is not sent over and over: on average no more of it than this.
BYTES_PER_SECOND = 1024 * 1024


class Drafts:
    """All drafts of an account: made, found again after a restart, dropped."""

    insert = staticmethod(insert_row)

    def __init__(self, db: Database, root: Path) -> None:
        self.clock = clock.monotonic
        # Since when each holds bytes that are unsent, as far as this process knows.
        self._begun: dict[int, float] = {}
        self._db = db
        self.root = root
        # Whoever uses a draft keeps it in memory; all others are as their rows say.
        self._live: WeakValueDictionary[int, Draft] = WeakValueDictionary()
        self._opened = DraftFiles()
        self._commit: Commit = functools.partial(db.write, durable=True)
        # Nodes whose drafts are open for writing; read from other threads too, which a set allows.
        self.busy: set[Ino] = set()
        # Nodes whose unsent bytes were appended to what the service had (`O_APPEND`), and what that was.
        self.appended: dict[Ino, Content] = {}

    def path(self, draft_id: int) -> Path:
        return self.root / f"{draft_id}.draft"

    def started(self, draft_id: int, ino: Ino, base: tuple[str, int] | None) -> Draft:
        """The draft whose row was just committed."""
        if (draft := self._live.get(draft_id)) is not None:
            return draft  # somebody has found the row before whoever made it was told
        draft = Draft(draft_id, ino, self.path(draft_id), base, self.busy, self._commit, self._opened)
        draft.recorded_to = draft.generation
        if base is None:
            draft._file.small, draft._file.is_made = bytearray(), False
        self._live[draft_id] = draft
        self._begun[draft_id] = self.clock()
        return draft

    def find(self, draft_id: int) -> Draft | None:
        """The draft of this id, loaded from its row if nobody has it yet."""
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
        draft = Draft(draft_id, row["ino"], self.path(draft_id), base, self.busy, self._commit, self._opened)
        draft.base_size, draft.size = row["base_size"], row["size"]
        draft.extents = Extents.from_json(row["extents"])
        draft._recorded_end, draft.in_row = draft.extents.end, row["data"] is not None
        draft.recorded_to = draft.generation
        if row["data"] and not draft.path.exists():
            # Whoever had it in memory has let go of it before its file was made.
            draft._file.small, draft._file.is_made = bytearray(row["data"]), False
        self._live[draft_id] = draft
        return draft

    def base(self, draft: Draft) -> Content | None:
        """The content under a draft, with where the service has it as of now."""
        if draft.base_sha1 is None:
            return None
        row = self._db.row("SELECT remote_id, version, base_sha1 FROM node WHERE ino = ?", draft.ino)
        # The service has it if it is still the version that the node is based on.
        there = row is not None and row["base_sha1"] == draft.base_sha1 and row["remote_id"] is not None
        if row is not None and there:
            return Content(draft.base_sha1, draft.base_total, row["remote_id"], row["version"])
        # It may have been renamed over another file and have taken over that one's identity.
        where = tree.find_bytes(self._db, draft.base_sha1) or (None, None)
        return Content(draft.base_sha1, draft.base_total, *where)

    def bases(self) -> dict[str, int]:
        """The contents under all drafts: SHA-1 and size."""
        rows = self._db.rows("SELECT base_sha1, base_total FROM draft WHERE base_sha1 IS NOT NULL")
        return {row["base_sha1"]: row["base_total"] for row in rows}

    def close(self) -> None:
        """Close the files that nobody uses, after making those that are in memory still."""
        for draft in list(self._live.values()):
            with suppress(OSError):
                draft.make_file()
        self._opened.close()

    # ---- debouncing ----

    def rest_ns(self, draft: Draft, settle_seconds: float) -> int:
        """How long a change made now rests before its upload."""
        _, left = self._age(draft.id, draft.size, settle_seconds)
        return int(max(0.0, min(settle_seconds, left)) * 10**9)

    def is_overdue(self, draft_id: int, recorded: int, settle_seconds: float) -> bool:
        """Whether a file that is open for writing, last recorded with this size, is to be sent as it is now;
        from any thread."""
        draft = self._live.get(draft_id)
        size = draft.size if draft is not None else recorded
        age, left = self._age(draft_id, size, settle_seconds)
        return age > OPEN_SECONDS and left < 0

    def _age(self, draft_id: int, size: int, settle_seconds: float) -> tuple[float, float]:
        """For how many seconds it has been written to, and how many more that may go on."""
        now = self.clock()
        age = now - self._begun.setdefault(draft_id, now)
        return age, LONGEST_TIMES * settle_seconds + size / BYTES_PER_SECOND - age

    @staticmethod
    def delete(conn: Connection, draft_id: int) -> None:
        """Delete a draft's row, inside the caller's transaction; follow it by `gone`."""
        node_rows.forget_draft(conn, draft_id)
        delete_row(conn, draft_id)

    def gone(self, draft_id: int) -> Path:
        """The row is deleted: forget the object; the file, for the caller to unlink."""
        self._begun.pop(draft_id, None)
        # Also if nobody has it any more: an open file takes up its room after it is removed.
        path = self.path(draft_id)
        self._opened.retire(path)
        draft = self._live.pop(draft_id, None)
        if draft is not None:
            draft.dropped = True
            draft.replaced.set()
        return path
