"""Detects programs that damage many files in a short time: encrypt them, give them the same unknown suffix,
delete or empty them.

Keeps evidence in memory about files that the service already has; changes of new files do no harm.  A file
counts once, whatever was done to it.  Programs whose work is writing or deleting many files (tools) have
other limits: their deletions do not count, and they may write ten times as many files.

Rule: this module rejects and undoes nothing; the receiver of `alarm` decides.
"""

import mimetypes
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.heuristics.callers import CallingProgram
from cmsfs.vfs.heuristics.traces import Traces

# Changes within this time belong to one event.
WINDOW_SECONDS = 120.0

# Minimum interval between alarms while an event continues.
ALARM_INTERVAL_SECONDS = 1.0

MAX_SAMPLES = 100

# Maximum number of files whose writers or creators are remembered.
REMEMBERED = 20_000

# Tools, by prefixes of their names as reported by the kernel (15 characters).
_TOOLS = (
    *("git", "hg", "svn", "jj", "rsync", "rclone", "unison", "tar", "bsdtar", "cpio", "unzip", "7z", "unrar"),
    *(
        "npm",
        "pnpm",
        "yarn",
        "pip",
        "pip3",
        "uv",
        "cargo",
        "rustc",
        "go",
        "dpkg",
        "apt",
        "rpm",
        "dnf",
        "pacman",
    ),
    *(
        "gcc",
        "cc1",
        "cc1plus",
        "g++",
        "clang",
        "ld",
        "as",
        "make",
        "ninja",
        "cmake",
        "javac",
        "mvn",
        "gradle",
        "bazel",
    ),
    *("restic", "borg", "duplicity", "bup", "kopia", "ccache"),
)
_SHORT = 3  # names up to this length must match completely

_TOOL_FACTOR = 10

# A longer suffix is part of the name.
_MAX_SUFFIX_LENGTH = 32

# Suffixes that programs and people commonly add to names, besides those of known types.
_USUAL = frozenset(
    (
        *("bak", "old", "orig", "new", "tmp", "temp", "part", "partial", "crdownload", "download", "backup"),
        *("swp", "swo", "save", "sav", "copy", "lock", "done", "disabled", "off", "rej", "patch", "diff"),
        *("gz", "bz2", "xz", "zst", "lz4", "lzma", "br", "zip", "7z", "rar", "tar", "tgz"),
        *("gpg", "pgp", "asc", "age", "sig", "enc", "aes", "md5", "sha1", "sha256"),
        *("log", "txt", "md", "json", "yaml", "yml", "toml", "ini", "cfg", "conf", "lst", "csv", "tsv"),
        *("py", "cc", "cpp", "rs", "go", "java", "js", "ts"),
    )
)


@dataclass(frozen=True, slots=True)
class MassChange:
    """A detected event: its start (wall clock, seconds), the numbers of damaged and deleted files, the
    programs with their numbers of files, the suffix that files got, and some of the files (for deleted ones,
    their folders)."""

    since: float
    spoiled: int
    deleted: int
    programs: tuple[tuple[CallingProgram, int], ...]
    suffix: str
    some: tuple[Ino, ...]


@dataclass(slots=True)
class _Window:
    """Files with the time and program of their change, oldest first."""

    files: "OrderedDict[Ino, tuple[float, CallingProgram]]" = field(default_factory=OrderedDict)

    def add(self, ino: Ino, at: float, caller: CallingProgram) -> None:
        if ino not in self.files:
            self.files[ino] = at, caller

    def forget(self, before: float) -> None:
        """Remove changes before that time."""
        # Writes may be reported late, so the order is only approximate.
        while self.files and next(iter(self.files.values()))[0] < before:
            self.files.popitem(last=False)


class MassChanges:
    """Observes file changes; calls `alarm` with each detected event, repeatedly while it continues.

    `files` and `deletions` are the numbers of damaged and of deleted files that raise an alarm; 0 disables
    it.  `who` returns the calling program.
    """

    def __init__(
        self,
        files: int,
        deletions: int,
        ignored: Iterable[str] = (),
        *,
        who: Callable[[], CallingProgram] = callers.current,
    ) -> None:
        self._who = who
        self._files = files
        self._deletions = deletions
        self._ignored = frozenset(ignored)
        self.alarm: Callable[[MassChange], None] = lambda noticed: None
        self.traces = Traces()
        self._writers: OrderedDict[Ino, tuple[float, CallingProgram]] = OrderedDict()
        # Unknown suffixes of files created beside the file that they may replace, by that file's name.
        self._sibling_suffixes: OrderedDict[tuple[Ino, str], str] = OrderedDict()
        self._spoiled, self._by_tools, self._deleted = _Window(), _Window(), _Window()
        self._suffixes: dict[str, int] = {}
        self._parents: dict[Ino, Ino] = {}  # the folders that deleted files were in
        self._alarmed_at = float("-inf")
        self._renamed: dict[str, _Window] = {}
        # Programs that the user has allowed to continue, and until when.
        self._allowed: dict[str, float] = {}

    @property
    def is_on(self) -> bool:
        return bool(self._files or self._deletions)

    # ---- what programs do ----

    def opened(self, ino: Ino) -> None:
        """Record that the calling program opens a file for writing."""
        caller = self._who()
        self.traces.note(ino, caller)
        if self.is_on:
            self._writers[ino] = clock.monotonic(), caller
            if len(self._writers) > REMEMBERED:
                self._writers.popitem(last=False)

    def made(self, parent: Ino, name: str, ino: Ino) -> None:
        """Record that it has created a file, which it will write to."""
        self.opened(ino)
        stem, dot, suffix = name.rpartition(".")
        if dot and self._files and is_strange(suffix):
            self._sibling_suffixes[parent, stem] = suffix
            if len(self._sibling_suffixes) > REMEMBERED:
                self._sibling_suffixes.popitem(last=False)

    def made_folder(self, ino: Ino) -> None:
        """Record that it has created a folder."""
        self.traces.note(ino, self._who())

    def removed(self, node: Node, files: Iterable[Ino] = (), *, at: float | None = None) -> None:
        """Record that it has deleted a file, or a folder with these files; `at`: the start, if earlier."""
        if node.remote_id is None or node.parent is None:
            return
        caller = self._who()
        self.traces.note(node.ino, caller, (node.kind, node.remote_id))
        if node.kind is NodeKind.FILE:
            files = [node.ino]
            if (suffix := self._sibling_suffixes.pop((node.parent, node.name), None)) is not None:
                self._count_suffix(node.ino, suffix, caller)
        if self._deletions and not is_tool(caller.name) and (gone := dict.fromkeys(files, node.parent)):
            if len(self._parents) + len(gone) > REMEMBERED:
                self._parents.clear()
            self._parents |= gone
            began = clock.monotonic() if at is None else at
            self._add(self._deleted, gone, began, caller, self._deletions)

    def renamed(self, node: Node, name: str, replaced: Node | None = None, *, swaps: bool = False) -> None:
        """Record that it has renamed or moved an item, over an item that it `replaced`, or exchanged them if
        `swaps`."""
        caller = self._who()
        for one in (node, replaced):
            if one is not None:
                self.traces.note(
                    one.ino, caller, (one.kind, one.remote_id) if one.remote_id is not None else None
                )
        if swaps or node.kind is not NodeKind.FILE or node.remote_id is None or not self._files:
            return
        suffix = name.rpartition(".")[2]
        if "." in name and not node.name.endswith(f".{suffix}") and is_strange(suffix):
            self._count_suffix(node.ino, suffix, caller)

    def _count_suffix(self, ino: Ino, suffix: str, caller: CallingProgram) -> None:
        """Count a file with an unknown suffix; they are evidence only if many files get the same one."""
        window = self._renamed.setdefault(suffix, _Window())
        if len(self._renamed) > 100:
            self._renamed.pop(next(iter(self._renamed)))
        now = clock.monotonic()
        window.forget(now - WINDOW_SECONDS)
        window.add(ino, now, caller)
        if suffix in self._suffixes:
            self._spoil(ino, now, caller, suffix)
        elif len(window.files) * 2 >= self._files:
            for one, (at, who) in window.files.items():
                self._spoil(one, at, who, suffix)

    def encrypted(self, ino: Ino) -> None:
        """Record that the new contents of a file look encrypted."""
        at, caller = self._writers.get(ino, (clock.monotonic(), CallingProgram(0, "")))
        self._spoil(ino, at, caller)

    def emptied(self, ino: Ino) -> None:
        """Record that a file was emptied, which counts as a deletion."""
        at, caller = self._writers.get(ino, (clock.monotonic(), CallingProgram(0, "")))
        if self._deletions and not is_tool(caller.name):
            self._add(self._deleted, [ino], at, caller, self._deletions)

    def _spoil(self, ino: Ino, at: float, caller: CallingProgram, suffix: str = "") -> None:
        if not self._files:
            return
        if suffix:
            self._suffixes[suffix] = self._suffixes.get(suffix, 0) + 1
        tool = is_tool(caller.name)
        window, most = (self._by_tools, self._files * _TOOL_FACTOR) if tool else (self._spoiled, self._files)
        self._add(window, [ino], at, caller, most)

    def _add(
        self, window: _Window, files: Iterable[Ino], at: float, caller: CallingProgram, most: int
    ) -> None:
        if caller.name in self._ignored or self._allowed.get(caller.name, 0.0) > clock.monotonic():
            return
        newest = max(at, next(reversed(window.files.values()))[0]) if window.files else at
        window.forget(newest - WINDOW_SECONDS)
        for ino in files:
            window.add(ino, at, caller)
        if len(window.files) >= most and clock.monotonic() - self._alarmed_at >= ALARM_INTERVAL_SECONDS:
            self._alarmed_at = clock.monotonic()
            self.alarm(self._summary())

    # ---- what was noticed ----

    def _summary(self) -> MassChange:
        spoiled = {**self._by_tools.files, **self._spoiled.files}
        everything = {**self._deleted.files, **spoiled}
        programs: dict[str, tuple[CallingProgram, int]] = {}
        for _, caller in everything.values():
            programs[caller.name] = caller, programs.get(caller.name, (caller, 0))[1] + 1
        since = clock.time() - (clock.monotonic() - min(at for at, _ in everything.values()))
        suffix = max(self._suffixes, key=self._suffixes.__getitem__, default="")
        most = sorted(programs.values(), key=lambda one: -one[1])
        some = tuple(self._parents.get(ino, ino) for ino in list(everything)[:MAX_SAMPLES])
        return MassChange(since, len(spoiled), len(self._deleted.files), tuple(most[:5]), suffix, some)

    def allow(self, programs: Iterable[str], seconds: float) -> None:
        """Reset the evidence, and ignore these programs for `seconds`, because the user approved them."""
        self._allowed |= dict.fromkeys(programs, clock.monotonic() + seconds)
        self._spoiled, self._by_tools, self._deleted = _Window(), _Window(), _Window()
        self._suffixes, self._renamed, self._parents, self._alarmed_at = {}, {}, {}, float("-inf")


def is_tool(name: str) -> bool:
    """Whether this program is known to write or delete many files."""
    return any(name == one if len(one) <= _SHORT else name.startswith(one) for one in _TOOLS) or any(
        name.startswith(one + end) for one in _TOOLS if len(one) <= _SHORT for end in ("-", " ")
    )


@lru_cache(maxsize=256)
def is_strange(suffix: str) -> bool:
    """Whether a suffix belongs to no known file type and is not commonly added to names."""
    suffix = suffix.lower()
    if (
        not 2 <= len(suffix) <= _MAX_SUFFIX_LENGTH
        or suffix in _USUAL
        or suffix.endswith("~")
        or " " in suffix
    ):
        return False
    return mimetypes.guess_type(f"x.{suffix}")[0] is None
