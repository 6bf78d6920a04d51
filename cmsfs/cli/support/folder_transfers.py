"""Shared by downloads and uploads of whole folders: results, exclusions, parallelism.

Rule: a file that fails does not stop the others.
"""

import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import trio

from cmsfs import errors, output
from cmsfs.cli.support.progress import Bar

# As many parallel transfers as the service handles well from one client.
_AT_ONCE = 4

# Errors that would affect all other files, too.
_FATAL = (errors.Offline, errors.NeedsLogin, errors.RemoteTimeout, errors.TokensLocked)


@dataclass
class FolderTransfer:
    """The results of the files; `left_out`: not regular files, `failed`: with the reason."""

    files: int = 0
    bytes: int = 0
    unchanged: int = 0
    left_out: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def sentence(self, target: object) -> str:
        same = f", {self.unchanged} unchanged" if self.unchanged else ""
        return f"{target}: {output.plural(self.files, 'file')}, {output.size(self.bytes)}{same}"

    def as_json(self) -> dict[str, object]:
        return {
            "files": self.files,
            "bytes": self.bytes,
            "unchanged": self.unchanged,
            "left_out": self.left_out,
            "failed": self.failed,
        }

    @contextmanager
    def attempt(self, path: str) -> Iterator[None]:
        """Record an error in the block as a failure of this path."""
        try:
            yield
        except _FATAL:
            raise
        except errors.CmsfsError as error:
            self.failed[path] = str(error)
        except OSError as error:
            self.failed[path] = error.strerror or str(error)


@dataclass(frozen=True)
class Exclusions:
    """Shell patterns of excluded files: for a name anywhere, or, with a slash, for a path in the folder."""

    patterns: Sequence[str] = ()

    def fit(self, path: PurePosixPath) -> bool:
        return any(
            fnmatch.fnmatchcase(str(path) if "/" in pattern.strip("/") else path.name, pattern.strip("/"))
            for pattern in self.patterns
        )


@dataclass
class ByteCount:
    """One bar for the bytes of many files."""

    bar: Bar
    done: int = 0

    def of_one(self) -> Bar:
        seen = 0

        def take(count: int) -> None:
            nonlocal seen
            self.done += count - seen
            seen = count
            self.bar(self.done)

        return take


@asynccontextmanager
async def side_by_side() -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Yield `start`: `await start(work, *args)` runs work as soon as fewer than `_AT_ONCE` are running; the
    block ends when all are done."""
    limit = trio.CapacityLimiter(_AT_ONCE)

    async def run(work: Callable[..., Awaitable[None]], args: Sequence[object], token: object) -> None:
        try:
            await work(*args)
        finally:
            limit.release_on_behalf_of(token)

    async with trio.open_nursery() as nursery:

        async def start(work: Callable[..., Awaitable[None]], *args: object) -> None:
            token = object()
            await limit.acquire_on_behalf_of(token)
            nursery.start_soon(run, work, args, token)

        yield start
