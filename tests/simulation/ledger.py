"""Records which contents a story's programs were promised, and which each of them had read before.

`tests.support.ledger` has the rules; this adds the labels of contents in the trace.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from cmsfs.journal.draft import ROW_BYTES
from tests.support import ledger
from tests.support.ledger import ANY, sha1

__all__ = ["ANY", "Ledger", "sha1"]

# A closed file is durable after so long, however slow the disk is.
GROUP_SECONDS = 3.0


class Ledger(ledger.Ledger):
    """The ledger of one story."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: dict[str, str] = {}
        self.number = 0
        # By content: the contents that it was derived from, whether or not it was ever promised.
        self.sources: dict[str, set[str]] = {}
        # Contents that programs made by changing a part of a file.
        self.modified: set[str] = set()
        self.contents: dict[str, bytes] = {}
        # By content: what a conflict copy became, or would become, with the data that was appended in it.
        self.joined: dict[str, set[str]] = {}
        # Contents that a program moved over a file or to a free name.
        self.moved: set[str] = set()
        # By content: what a program moved it over, having seen that.  It may be an older version of the file.
        self.moved_over: dict[str, set[str]] = {}
        # Contents of old versions that a person made current again.
        self.promoted: set[str] = set()
        # Contents that a truncation made anew, so that an old version may be a new one, too.
        self.repeated: set[str] = set()
        # Contents that a person deleted at the service, perhaps unread; or a program, by a name that had just
        # become theirs.
        self.thrown_away: set[str] = set()
        # Those that a person deleted permanently, in this order.
        self.purged: list[str] = []
        # Names to which programs moved what was in the trash.
        self.undeleted: set[str] = set()
        # Those of moves that failed, which the service may have carried out.
        self.perhaps_undeleted: set[str] = set()
        # Contents that a program read, and nobody wrote.
        self.foreign: list[str] = []
        # What a program read before it could be verified, and nobody wrote: nobody knows the file's contents
        # after a change of a part of it.
        self.unverified: set[str] = set()
        # A process died during a write, or power failed after one, so any part of the data may be there.
        self.has_torn_writes = False
        # Which machine promised each content, when, and whether durably: a power cut may take what is younger
        # than a group commit.
        self.promised: dict[str, tuple[str, float, bool]] = {}
        self.register(b"")

    @contextmanager
    def undeleting(self, name: str) -> Iterator[None]:
        """Context of a move out of the trash to this name."""
        self.undeleted.add(name)
        try:
            yield
        except BaseException:
            self.perhaps_undeleted.add(name)
            raise

    def register(self, data: bytes) -> str:
        """Register a content that a program writes, also as an intermediate state."""
        key = sha1(data)
        if key not in self.labels:
            self.labels[key], self.contents[key] = _label(data), data
        return key

    def record_derived(self, data: bytes, before: bytes) -> None:
        """A program derived this content from one that it had read."""
        self.sources.setdefault(self.register(data), set()).add(sha1(before))
        self.modified.add(sha1(data))

    def record_truncated(self, data: bytes, before: bytes) -> None:
        """A program truncated a content that it had read, perhaps to one that was there before."""
        if sha1(data) in self.labels:
            self.repeated.add(sha1(data))
        self.record_derived(data, before)

    def may_join(self, data: bytes, start: int, copy: str) -> None:
        """The drive may move what was appended in `data` after `start` to the end of the conflict copy."""
        if (before := self.contents.get(copy)) is not None:
            self.record_derived(before + data[start:], before)
            self.joined.setdefault(sha1(data), set()).add(sha1(before + data[start:]))

    def is_joined(self, content: str, kept: Collection[str]) -> bool:
        """Return whether what was appended in the content is in a kept conflict copy."""
        return any(one in kept or self.is_joined(one, kept) for one in self.joined.get(content, ()))

    def wrote(self, data: bytes, *, over: str | None) -> None:
        super().wrote(data, over=over)
        if over is not None:
            self.sources.setdefault(self.register(data), set()).add(over)

    def put_anywhere(self, data: bytes) -> None:
        super().put_anywhere(data)
        self.moved.add(sha1(data))
        self.may_follow_any(data)

    def record_moved(self, data: bytes) -> None:
        """A program moves a content; once acknowledged, it must be kept wherever it is put."""
        if sha1(data) in self.acknowledged:
            self.put_anywhere(data)

    def record_moved_over(self, moved: bytes, before: bytes) -> None:
        """A program moved a content over another one that it had read."""
        self.moved_over.setdefault(sha1(moved), set()).add(sha1(before))

    def _has_seen(self, new: str, old: str, *, before: set[str]) -> bool:
        """Return whether `new` was derived from `old`, directly or through contents without a version."""
        if old in self.promoted:
            # Who has seen it has seen all of it, also if there was another version in between.
            before = set()
        reached, waiting = set(), [new]
        while waiting:
            content = waiting.pop()
            # An older version is newer only than what it was moved over.
            is_newer = content == new or content not in before or content in self.repeated
            for current in (self.sources if is_newer else self.moved_over).get(content, ()):
                if current in (old, ANY):
                    return True
                if current not in reached:
                    reached.add(current)
                    waiting.append(current)
        return False

    def is_derived(self, content: str, sources: Collection[str]) -> bool:
        """Return whether a program derived the content from one of these, directly or through others."""
        reached, waiting = set(), [content]
        while waiting:
            for current in self.sources.get(waiting.pop(), ()):
                if current in sources:
                    return True
                if current not in reached:
                    reached.add(current)
                    waiting.append(current)
        return False

    def power_cut(self, machine: str, moment: float) -> None:
        """The machine's promises just before `moment` that were not durable may be lost; what was in a file
        alone may have zeros for any of its pages, like a write that a process died in."""
        for content, (promiser, at, is_durable) in self.promised.items():
            if promiser == machine and moment - GROUP_SECONDS < at <= moment and not is_durable:
                self.acknowledged.pop(content, None)
                # Short contents are rows of the database, unless a part of them is the service's.
                is_in_file = len(self.contents[content]) > ROW_BYTES or content in self.modified
                self.has_torn_writes |= is_in_file

    def discard_promises(self, machine: str, since: float, until: float) -> None:
        """The machine's promises between the two times are lost with its local state."""
        for content, (promiser, at, _) in self.promised.items():
            # Several things happen at one moment of virtual time, also before and after a snapshot.
            if promiser == machine and since <= at <= until:
                self.acknowledged.pop(content, None)

    def label(self, data: bytes) -> str:
        return self.labels.get(sha1(data)) or _label(data)

    def record_read(self, data: bytes, where: str, *, is_verified: bool = True) -> None:
        """A program has read this as the complete contents of a file."""
        is_foreign = sha1(data) not in self.labels and not data.startswith(b"[InternetShortcut]")
        if is_foreign and is_verified:
            self.foreign.append(f"{where} shows {_label(data)}")
        if is_foreign and not is_verified:
            self.unverified.add(sha1(data))
        if (self.has_torn_writes or not is_verified) and (is_foreign or not data):
            # A part of a write, perhaps nothing of it, or damaged: nobody knows what was there before.
            self.sources.setdefault(sha1(data), set()).add(ANY)

    def may_follow_any(self, data: bytes) -> None:
        """Whoever writes this content may have seen any other."""
        self.sources.setdefault(self.register(data), set()).add(ANY)


def _label(data: bytes) -> str:
    if not data:
        return "<empty>"
    first = data.split(b"\n", 1)[0][:40].decode("utf-8", "replace")
    return f"<{first}; {len(data)}; {sha1(data)[:6]}>"
