"""Directory prefetch: downloads the next small files when a program reads a folder in order.

`grep -r`, `cp -r`, `tar` and thumbnailers open files in a predictable order: in readdir order or by name,
across subfolders and sibling folders.  The vfs reports every file that is read from its beginning (`began`);
a few in such an order are a *walk*, and the files that follow are prefetched.

The prefetch window is a quarter of what the walk has read, so that one that stops has wasted little; while it
has to wait for small files on a distant service, it grows to as many as were read.  Outside the folders that
the walk is known to visit, only a few files are prefetched.  A wrong guess ends the walk, and prefetches that
are still queued are dropped.

Rule: nothing here waits, fails or sends requests; hydrate downloads, at lower priority than readers.
"""

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Content, Ino, Node, NodeKind
from cmsfs.sqlite import Database
from daemon.fetch.single_flight import Work

# Number of files in order that makes a walk: two neighbours are often opened by chance.  One that comes after
# skipped files counts less: of reads at random in a folder of forty files, every fourth is such a one.
STEPS = 2
NEXT, FAR = 1.0, 0.25

# Window: a quarter of the files read so far, within these bounds; once the walk had to wait, as many files as
# it had read then, if they are small.  48 in flight on a link of 40 ms are a thousand files a second.
LEAST, MOST, SHARE = 4, 96, 4
MOST_BYTES, GROWN_BYTES = 32 * 1024 * 1024, 2 * 1024 * 1024

# Window in folders that the walk may never visit.
BEYOND = 8

# A program that skips some files (`*.c`, only pictures) still walks.
SLACK = 8

# Number of walks at the same time.
WALKS = 4

# Of a large file only the beginning is prefetched: its reader has a read-ahead window.
HEAD_BYTES = 1024 * 1024

# Maximum number of entries examined for the next file; and of folders without one.
LOOKED_AT = 512

Ahead = Callable[[Content, int], Work | None]


@dataclass(slots=True)
class Guess:
    """A file that a walk is expected to read."""

    node: Node  # as it was when it was guessed
    beyond: bool  # outside the folders that the walk is known to visit
    nbytes: int
    work: Work | None


@dataclass(slots=True)
class Walk:
    """One program that reads file after file."""

    last: Node
    by_name: bool = False
    files_first: bool = False  # the files of a folder before the folders in it, as os.walk does
    steps: float = 0.0
    skipped: bool = False  # files before the last step
    wrong: int = 0  # consecutive files read in its folder that it had not predicted
    read: int = 1
    top: Ino = ROOT  # the folder below which everything read so far lies
    passed_over: set[str] = field(default_factory=set)  # suffixes of skipped files
    guesses: OrderedDict[Ino, Guess] = field(default_factory=OrderedDict)
    furthest: tuple[Node, bool] | None = None  # the last file considered, and whether it is beyond
    had_read: int = 0  # when it last had to wait for a prefetched file
    nbytes: int = 0  # of the guesses together

    def width(self) -> int:
        """Return the number of files to prefetch."""
        wanted = max(LEAST, self.read // SHARE)
        return min(max(wanted, self.had_read) if self.nbytes < GROWN_BYTES else wanted, MOST)

    def put(self, guess: Guess) -> None:
        self.guesses[guess.node.ino] = guess
        self.nbytes += guess.nbytes

    def take(self, ino: Ino) -> Guess:
        guess = self.guesses.pop(ino)
        self.nbytes -= guess.nbytes
        return guess


class Prefetch:
    """Recognises walks.  `ahead(content, nbytes)` starts a download; returns None if none is needed."""

    def __init__(self, db: Database, ahead: Ahead) -> None:
        self._db = db
        self._ahead = ahead
        # Most recently active last.
        self._walks: deque[Walk] = deque(maxlen=WALKS)
        self.fetched = 0
        self.used = 0

    def began(self, ino: Ino) -> None:
        """Note that a file is read from its beginning."""
        # Of a file that was expected the row is known; most are.
        node = next((walk.guesses[ino].node for walk in self._walks if ino in walk.guesses), None)
        if node is None:
            node = tree.find(self._db, ino)
        if node is None or node.parent is None:
            return
        for walk in reversed(self._walks):
            if ino == walk.last.ino:
                return
            if self._comes_to(walk, node):
                self._walks.remove(walk)
                self._walks.append(walk)
                if walk.steps >= STEPS:
                    self._extend(walk)
                elif walk.skipped:
                    # Perhaps no step: then none of another one, either.
                    self._doubt_others(walk, node)
                return
        self._doubt_others(None, node)
        if len(self._walks) == WALKS:
            self._drop(self._walks[0])
        self._walks.append(Walk(node, top=node.parent))

    # ---- recognising ----

    def _comes_to(self, walk: Walk, node: Node) -> bool:
        """Whether the walk predicted this file as one of the next; then advance to it."""
        if node.ino in walk.guesses:
            self._guessed(walk, node)
        elif walk.last.parent == node.parent:
            if not self._steps_to(walk, node):
                return False
        elif not self._goes_over_to(walk, node):
            return False
        walk.last = node
        walk.read += 1
        walk.wrong = 0
        return True

    def _guessed(self, walk: Walk, node: Node) -> None:
        self.used += 1
        before = list(itertools.takewhile(lambda ino: ino != node.ino, walk.guesses))
        for ino in before[:-SLACK]:  # skipped files
            walk.take(ino)
        guess = walk.take(node.ino)
        if guess.work is not None and not guess.work.ended:
            walk.had_read = walk.read
        if guess.beyond:
            self._goes_through(walk, node)

    def _goes_through(self, walk: Walk, node: Node) -> None:
        """Widen the walk: it has left the folders it was known to visit."""
        walk.top = self._common(walk.top, node)
        for other in walk.guesses.values():
            other.beyond = False
        if walk.furthest is not None:
            walk.furthest = walk.furthest[0], False

    def _steps_to(self, walk: Walk, node: Node) -> bool:
        """Whether the file is one of the next in the same folder."""
        folder = node.parent or ROOT
        for by_name in (walk.by_name,) if walk.steps >= STEPS else (False, True):
            skipped: list[Node] = []
            strangers = 0
            for entry in self._entries(folder, walk.last, by_name=by_name):
                if entry.ino == node.ino:
                    walk.by_name = by_name
                    walk.skipped = strangers > 0
                    walk.steps += FAR if walk.skipped else NEXT
                    walk.files_first |= any(one.is_folder for one in skipped)
                    walk.passed_over |= {_ending(one) for one in skipped if not one.is_folder}
                    walk.passed_over.discard(_ending(node))
                    return True
                skipped.append(entry)
                strangers += not entry.is_folder and _ending(entry) not in walk.passed_over
                if strangers > SLACK or len(skipped) > LOOKED_AT:
                    break
        return False

    def _goes_over_to(self, walk: Walk, node: Node) -> bool:
        """Whether the file is one of the next in another folder."""
        if walk.steps < STEPS:
            return False
        for files_first in (walk.files_first, not walk.files_first):
            walk.files_first = files_first
            following = itertools.islice(self._following(walk, walk.last), SLACK)
            if any(found.ino == node.ino for found, _ in following):
                self._goes_through(walk, node)
                return True
        walk.files_first = not walk.files_first
        return False

    def _doubt_others(self, walk: Walk | None, node: Node) -> None:
        """Count the file against the walks in its folder; if it may belong to one, against new ones only."""
        for other in self._walks:
            in_question = walk is None or other.steps < STEPS
            if other is not walk and other.last.parent == node.parent and in_question:
                self._doubt(other)

    def _doubt(self, walk: Walk) -> None:
        """Count an unpredicted file in the walk's folder: perhaps another program read it."""
        walk.wrong += 1
        # What is no walk yet has only as many files in order as were read without another one between.
        if walk.wrong >= STEPS or walk.steps < STEPS:
            self._drop(walk)
            walk.steps, walk.read, walk.had_read = 0.0, 1, 0

    def _common(self, top: Ino, node: Node) -> Ino:
        """Return the lowest folder above both."""
        above: set[Ino] = set()
        current: Ino | None = node.parent
        while current is not None:
            above.add(current)
            found = tree.find(self._db, current)
            current = found.parent if found else None
        while top not in above:
            found = tree.find(self._db, top)
            if found is None or found.parent is None:
                return ROOT
            top = found.parent
        return top

    # ---- predicting ----

    def _extend(self, walk: Walk) -> None:
        """Fill the prefetch window once a quarter of it has been read."""
        if len(walk.guesses) > walk.width() * 3 // 4:
            return
        beyond = sum(guess.beyond for guess in walk.guesses.values())
        start = walk.furthest if walk.guesses and walk.furthest is not None else (walk.last, False)
        for node, is_beyond in self._following(walk, *start):
            if walk.nbytes >= MOST_BYTES or len(walk.guesses) >= walk.width():
                return
            if is_beyond and beyond >= BEYOND:
                return
            walk.furthest = node, is_beyond
            if node.ino in walk.guesses or (content := _content(node)) is None:
                continue
            length = min(node.size, HEAD_BYTES)
            work = self._ahead(content, length)
            self.fetched += work is not None
            walk.put(Guess(node, is_beyond, length, work))
            beyond += is_beyond

    def _following(self, walk: Walk, start: Node, beyond: bool = False) -> Iterator[tuple[Node, bool]]:
        """Yield the files that a walk reads after `start`, and whether each is beyond its known folders."""
        seen, at = 0, start
        while at.parent is not None:
            for node in self._below(walk, at.parent, at):
                seen += 1
                if seen > LOOKED_AT:
                    return
                if not node.is_folder and _ending(node) not in walk.passed_over:
                    yield node, beyond
            beyond |= at.parent == walk.top
            above = tree.find(self._db, at.parent)
            if above is None:
                return
            at = above

    def _below(self, walk: Walk, folder: Ino, after: Node | None) -> Iterator[Node]:
        """Yield the entries after `after` and their contents; folders too, when the walk enters them."""
        if walk.files_first and (after is None or not after.is_folder):
            for node in self._entries(folder, after, by_name=walk.by_name):
                if not node.is_folder:
                    yield node
            after = None
        for node in self._entries(folder, after, by_name=walk.by_name):
            if node.is_folder or not walk.files_first:
                yield node
            if node.is_folder:
                yield from self._below(walk, node.ino, None)

    def _entries(self, folder: Ino, after: Node | None, *, by_name: bool) -> Iterator[Node]:
        """Yield the entries of a folder after one of them, in replica order or by name."""
        while True:
            if by_name:
                page = tree.children_by_name(self._db, folder, after=after.name if after else "", limit=32)
            else:
                page = tree.children(self._db, folder, after=after.ino if after else 0, limit=32)
            yield from page
            if len(page) < 32:
                return
            after = page[-1]

    @staticmethod
    def _drop(walk: Walk) -> None:
        """Abandon queued prefetches after a wrong guess."""
        for guess in walk.guesses.values():
            if guess.work is not None:
                guess.work.abandon()
        walk.guesses.clear()
        walk.nbytes = 0
        walk.furthest = None


def _ending(node: Node) -> str:
    return node.name.rpartition(".")[2].lower() if "." in node.name else ""


def _content(node: Node) -> Content | None:
    """Return the content to prefetch; None for a locally changed or empty file."""
    if node.kind is not NodeKind.FILE or not node.size or node.draft is not None or node.remote_id is None:
        return None
    if node.sha1 is None or node.sha1 != node.base_sha1:
        return None
    return Content(node.sha1, node.size, node.remote_id, node.version)
