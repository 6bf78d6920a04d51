"""Downloads and uploads one file, for `get` and `put`.

A download goes into a temporary file beside its destination, which is renamed once its SHA-1 is verified; a
file to upload is read twice, for the SHA-1 and for the transfer.

Rule: a file is read, written and hashed in a thread, never on the event loop.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from cmsfs import errors
from cmsfs.cli.support.progress import Bar
from cmsfs.client import session
from cmsfs.models.content import items, versions
from cmsfs.runtime import threads


async def sha1_of(path: Path) -> str:
    """Return the SHA-1 of a local file."""

    def digest() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha1").hexdigest()

    return await threads.run_sync(digest)


async def save(
    client: session.Client,
    file: items.File,
    target: Path,
    *,
    force: bool,
    progress: Bar,
    version: versions.FileVersion | None = None,
) -> None:
    """Download into a local file, atomically; `version`: that version instead of the current one.

    Raises `IntegrityError`, and `UserError` if the target exists, unless `force`.  Cancelled: nothing is left
    behind.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as sink:
            # The mode of an ordinary new file, instead of the 0600 of a temporary one.
            os.fchmod(sink.fileno(), 0o666 & ~_umask())
            await write(client, file, sink, progress=progress, version=version)
        if modified_at := (version or file).modified_at:
            moment = modified_at.timestamp()
            os.utime(temporary, (moment, moment))
        if force:
            temporary.replace(target)
        else:
            _link(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


async def write(
    client: session.Client,
    file: items.File,
    sink: BinaryIO,
    *,
    progress: Bar,
    version: versions.FileVersion | None = None,
) -> None:
    """Download into an open file; `version`: that version instead of the current one.

    Raises `IntegrityError`, but only after the bytes were written.
    """
    digest = hashlib.sha1(usedforsecurity=False)

    def take(chunk: bytes) -> None:
        digest.update(chunk)
        sink.write(chunk)

    said = version or file
    size = int(said.size or 0)
    if size:
        wanted = version.id if version else None
        async with client.files.content(file.id, first=0, last=size - 1, version=wanted) as chunks:
            done = 0
            async for chunk in chunks:
                await threads.run_sync(take, chunk)
                done += len(chunk)
                progress(done)
    if said.sha1 and digest.hexdigest() != said.sha1:
        raise errors.IntegrityError(
            f"the download of {file.name} is corrupt", expected=said.sha1, actual=digest.hexdigest()
        )


def _link(temporary: Path, target: Path) -> None:
    # link fails for an existing name, where rename would silently replace a file created meanwhile.
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise errors.UserError(f"{target} already exists; --force overwrites it.") from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
