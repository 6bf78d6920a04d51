"""A service that kills itself at a named point.

`python -m tests.support.crashing_service FOLDER POINT [DATABASE]`

It runs the same server as `cmsfs serve`, in its own process.  A point is a function of the service; the
process kills itself at its end (or its beginning).  With `none` it runs until it is killed.
"""

import functools
import inspect
import os
import pathlib
import signal
import sys
from pathlib import Path
from typing import Any

import trio

from cmsfs.service.content import files, trash
from cmsfs.service.server import serve
from cmsfs.service.storage import blobs, folder_blobs, parts, store

# The object, its function, and whether the process is killed at the function's end or beginning.
POINTS: dict[str, tuple[Any, str, str]] = {
    "session folder made, no row": (parts.FolderParts, "create_session", "end"),
    "content complete, not in its place": (folder_blobs.FolderBlobs, "ensure_folder", "end"),
    "content in its place, no row": (blobs.IncomingBlob, "keep_now", "end"),
    "rows written, not committed": (files, "add_version", "end"),
    "committed, not answered": (store.Store, "write", "end"),
    "part in its place, no row": (blobs.IncomingBlob, "move_to", "end"),
    "parts half joined": (blobs.IncomingBlob, "append_part", "end"),
    "parts joined, no row": (parts.Assembly, "keep", "end"),
    "file committed, parts still there": (parts.Parts, "remove", "beginning"),
    "purged, not committed": (trash, "purge", "end"),
    "one content removed at start": (pathlib.Path, "unlink", "end"),
}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    owner, name, when = POINTS[point]
    original = getattr(owner, name)

    @functools.wraps(original)
    async def awaited(*args: Any, **options: Any) -> Any:
        if when == "beginning":
            _die()
        await original(*args, **options)
        _die()

    @functools.wraps(original)
    def called(*args: Any, **options: Any) -> Any:
        original(*args, **options)
        _die()

    setattr(owner, name, awaited if inspect.iscoroutinefunction(original) else called)


async def main(root: Path, point: str, database_url: str | None = None) -> None:
    if point != "none":
        arm(point)
    async with (
        store.open_store(root, database_url=database_url) as opened,
        trio.open_nursery() as nursery,
    ):
        url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _, folder, kill_at, *databases = sys.argv
    trio.run(main, Path(folder), kill_at, databases[0] if databases else None)
