"""Notices when a program spoils many files in a short time: encrypts them, gives them one strange suffix,
deletes or empties them.

Evidence, in memory, of files that the service has already: what is new harms nobody.  A file counts once,
whatever was done to it.  Programs that write or delete many files as their work are judged by other limits:
a deletion by them says nothing, and what they write has to be ten times as much.

Rule: nothing is refused and nothing is undone here; whoever is told (`alarm`) decides.
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

# What was done within so long is one event.
WINDOW_SECONDS = 120.0

# While it goes on, it is told again after so long.
AGAIN_SECONDS = 1.0

SOME = 100

# Files of which it is remembered who has written to them, or made them.
REMEMBERED = 20_000

# By the beginning of their names, as the kernel has them (15 characters).
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
_SHORT = 3  # names that are so short are whole names

_MANY_TIMES = 10

# What is longer is a part of a name.
_LONGEST = 32

# Suffixes that programs and people add to names every day, beside those of known types.
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
    """What was noticed: since when (seconds of the clock on the wall), how many files in which way, by whom
    (with how many), a suffix that they got, and some of them, of deleted ones their folders."""

    since: float
    spoiled: int
    deleted: int
    programs: tuple[tuple[CallingProgram, int], ...]
    suffix: str
    some: tuple[Ino, ...]


@dataclass(slots=True)
class _Window:
    """Files by the time of what was done to them, the oldest first."""

    files: "OrderedDict[Ino, tuple[float, CallingProgram]]" = field(default_factory=OrderedDict)

    def add(self, ino: Ino, at: float, caller: CallingProgram) -> None:
        if ino not in self.files:
            self.files[ino] = at, caller

    def forget(self, before: float) -> None:
        """Forget what was done before that."""
        # What was written long ago may be told late: all but the newest may be out of order a little.
        while self.files and next(iter(self.files.values()))[0] < before:
            self.files.popitem(last=False)


class MassChanges:
    """Observes; `alarm` is called with each thing that is noticed, again while it goes on.

    `files`: so many spoiled ones are many; `deletions`: so many deleted ones; 0: they are not counted; `who`
    says which program calls.
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
        # The suffixes of files that were made beside what they may take the place of.
        self._beside: OrderedDict[tuple[Ino, str], str] = OrderedDict()
        self._spoiled, self._by_tools, self._deleted = _Window(), _Window(), _Window()
        self._suffixes: dict[str, int] = {}
        self._left: dict[Ino, Ino] = {}  # the folders that deleted files were in
        self._told_at = float("-inf")
        self._renamed: dict[str, _Window] = {}
        # Programs that a person has allowed to go on, until then.
        self._allowed: dict[str, float] = {}

    @property
    def is_on(self) -> bool:
        return bool(self._files or self._deletions)

    # ---- what programs do ----

    def opened(self, ino: Ino) -> None:
        """The program that calls will write to a file."""
        caller = self._who()
        self.traces.note(ino, caller)
        if self.is_on:
            self._writers[ino] = clock.monotonic(), caller
            if len(self._writers) > REMEMBERED:
                self._writers.popitem(last=False)

    def made(self, parent: Ino, name: str, ino: Ino) -> None:
        """It has made a file, which it will write to."""
        self.opened(ino)
        stem, dot, suffix = name.rpartition(".")
        if dot and self._files and is_strange(suffix):
            self._beside[parent, stem] = suffix
            if len(self._beside) > REMEMBERED:
                self._beside.popitem(last=False)

    def made_folder(self, ino: Ino) -> None:
        """It has made a folder."""
        self.traces.note(ino, self._who())

    def removed(self, node: Node, files: Iterable[Ino] = (), *, at: float | None = None) -> None:
        """It has deleted a file, or a folder with these files below it; `at`: when it began, if not now."""
        if node.remote_id is None or node.parent is None:
            return
        caller = self._who()
        self.traces.note(node.ino, caller, (node.kind, node.remote_id))
        if node.kind is NodeKind.FILE:
            files = [node.ino]
            if (suffix := self._beside.pop((node.parent, node.name), None)) is not None:
                self._count_suffix(node.ino, suffix, caller)
        if self._deletions and not is_tool(caller.name) and (gone := dict.fromkeys(files, node.parent)):
            if len(self._left) + len(gone) > REMEMBERED:
                self._left.clear()
            self._left |= gone
            began = clock.monotonic() if at is None else at
            self._add(self._deleted, gone, began, caller, self._deletions)

    def renamed(self, node: Node, name: str, replaced: Node | None = None, *, swaps: bool = False) -> None:
        """It has given an item another place or name, of another item that it has `replaced` or, where it
        `swaps`, that has its own now."""
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
        """Only many with one suffix are strange."""
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
        """What was written to a file, in place of other bytes, looks encrypted."""
        at, caller = self._writers.get(ino, (clock.monotonic(), CallingProgram(0, "")))
        self._spoil(ino, at, caller)

    def emptied(self, ino: Ino) -> None:
        """Nothing was written to a file in place of its bytes, which are gone as if it were deleted."""
        at, caller = self._writers.get(ino, (clock.monotonic(), CallingProgram(0, "")))
        if self._deletions and not is_tool(caller.name):
            self._add(self._deleted, [ino], at, caller, self._deletions)

    def _spoil(self, ino: Ino, at: float, caller: CallingProgram, suffix: str = "") -> None:
        if not self._files:
            return
        if suffix:
            self._suffixes[suffix] = self._suffixes.get(suffix, 0) + 1
        tool = is_tool(caller.name)
        window, most = (self._by_tools, self._files * _MANY_TIMES) if tool else (self._spoiled, self._files)
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
        if len(window.files) >= most and clock.monotonic() - self._told_at >= AGAIN_SECONDS:
            self._told_at = clock.monotonic()
            self.alarm(self._noticed())

    # ---- what was noticed ----

    def _noticed(self) -> MassChange:
        spoiled = {**self._by_tools.files, **self._spoiled.files}
        everything = {**self._deleted.files, **spoiled}
        programs: dict[str, tuple[CallingProgram, int]] = {}
        for _, caller in everything.values():
            programs[caller.name] = caller, programs.get(caller.name, (caller, 0))[1] + 1
        since = clock.time() - (clock.monotonic() - min(at for at, _ in everything.values()))
        suffix = max(self._suffixes, key=self._suffixes.__getitem__, default="")
        most = sorted(programs.values(), key=lambda one: -one[1])
        some = tuple(self._left.get(ino, ino) for ino in list(everything)[:SOME])
        return MassChange(since, len(spoiled), len(self._deleted.files), tuple(most[:5]), suffix, some)

    def allow(self, programs: Iterable[str], seconds: float) -> None:
        """A person says that this is as it should be: begin anew, and leave these programs alone so long."""
        self._allowed |= dict.fromkeys(programs, clock.monotonic() + seconds)
        self._spoiled, self._by_tools, self._deleted = _Window(), _Window(), _Window()
        self._suffixes, self._renamed, self._left, self._told_at = {}, {}, {}, float("-inf")


def is_tool(name: str) -> bool:
    """Whether writing and deleting many files is this program's work."""
    return any(name == one if len(one) <= _SHORT else name.startswith(one) for one in _TOOLS) or any(
        name.startswith(one + end) for one in _TOOLS if len(one) <= _SHORT for end in ("-", " ")
    )


@lru_cache(maxsize=256)
def is_strange(suffix: str) -> bool:
    """Whether a suffix is one that no known type of files has, and nobody adds by habit."""
    suffix = suffix.lower()
    if not 2 <= len(suffix) <= _LONGEST or suffix in _USUAL or suffix.endswith("~") or " " in suffix:
        return False
    return mimetypes.guess_type(f"x.{suffix}")[0] is None
