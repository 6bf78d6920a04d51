"""What a story's programs were told is kept, and what each of them had seen.

`tests.support.ledger` judges; here contents get the names that a trace calls them by.
"""

from tests.support import ledger
from tests.support.ledger import ANY, sha1

__all__ = ["ANY", "Ledger", "sha1"]

# So long after its close a file is on the disk, however slow that is.
GROUP_SECONDS = 3.0


class Ledger(ledger.Ledger):
    """The ledger of one story."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: dict[str, str] = {}
        self.number = 0
        # What each content was made of, whether or not it was ever promised.
        self.over: dict[str, set[str]] = {}
        # What somebody saw or the service has, and nobody has written.
        self.foreign: list[str] = []
        # A process was lost while a program wrote: what is there of it may be any part.
        self.torn = False
        # Who promised each content, and when: a power cut takes what is younger than a group commit.
        self.promised: dict[str, tuple[str, float, bool]] = {}
        self.know(b"")

    def know(self, data: bytes) -> str:
        """A program makes this content, or passes through it while it writes."""
        key = sha1(data)
        if key not in self.labels:
            self.labels[key] = _label(data)
        return key

    def made(self, data: bytes, before: bytes) -> None:
        """A program has made this of what it saw."""
        self.over.setdefault(self.know(data), set()).add(sha1(before))

    def wrote(self, data: bytes, *, over: str | None) -> None:
        super().wrote(data, over=over)
        if over is not None:
            self.over.setdefault(self.know(data), set()).add(over)

    def put_anywhere(self, data: bytes) -> None:
        super().put_anywhere(data)
        self.over.setdefault(sha1(data), set()).add(ANY)

    def _has_seen(self, new: str, old: str, *, before: set[str]) -> bool:
        """Whether `new` was made of `old`, or of something that never got there and was."""
        reached, waiting = set(), [new]
        while waiting:
            for current in self.over.get(waiting.pop(), ()):
                if current in (old, ANY):
                    return True
                if current not in before and current not in reached:
                    reached.add(current)
                    waiting.append(current)
        return False

    def power_cut(self, who: str, moment: float) -> None:
        """What this one promised a moment ago, and did not sync, may be gone."""
        for content, (promiser, at, is_durable) in self.promised.items():
            if promiser == who and moment - GROUP_SECONDS < at <= moment and not is_durable:
                self.acknowledged.pop(content, None)

    def undone(self, who: str, since: float, until: float) -> None:
        """What this one promised in between is gone with what it kept it in."""
        for content, (promiser, at, _) in self.promised.items():
            if promiser == who and since < at <= until:
                self.acknowledged.pop(content, None)

    def label(self, data: bytes) -> str:
        return self.labels.get(sha1(data)) or _label(data)

    def seen(self, data: bytes, where: str) -> None:
        """A program has read this as the whole of a file."""
        if sha1(data) not in self.labels and not data.startswith(b"[InternetShortcut]"):
            self.foreign.append(f"{where} shows {_label(data)}")


def _label(data: bytes) -> str:
    if not data:
        return "<empty>"
    first = data.split(b"\n", 1)[0][:40].decode("utf-8", "replace")
    return f"<{first}; {len(data)}; {sha1(data)[:6]}>"
