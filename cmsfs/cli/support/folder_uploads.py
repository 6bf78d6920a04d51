"""Uploads whole folders, for `put`.

Files that the service has already, by their SHA-1, are skipped: repeating an interrupted upload continues it.

Rule: a file that differs gets a new version; nothing at the service is deleted.
"""

import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cmsfs import errors
from cmsfs.cli.support import progress, transfers
from cmsfs.cli.support.folder_transfers import ByteCount, Exclusions, FolderTransfer, side_by_side
from cmsfs.client import remote_paths
from cmsfs.client.content.uploads import FileSource
from cmsfs.client.session import Client
from cmsfs.models import base
from cmsfs.models.content import items, uploads
from cmsfs.runtime import threads


@dataclass
class _LocalFolder:
    """A local folder with its contents."""

    path: PurePosixPath
    folders: list[str] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)


async def upload(
    client: Client,
    paths: remote_paths.RemotePaths,
    source: Path,
    folder: items.Folder,
    *,
    exclude: Exclusions,
) -> FolderTransfer:
    """Upload a local folder into a folder at the service; symbolic links and devices are skipped.

    Cancelled: each file is uploaded completely or not at all.
    """
    result = FolderTransfer()
    tree = await threads.run_sync(_scan, source, exclude, result)
    size = sum(size for one in tree for _, size in one.files)
    places = {PurePosixPath(): folder}

    async def one(
        path: PurePosixPath, parent_id: str, there: remote_paths.Found | None, bar: progress.Bar
    ) -> None:
        with result.attempt(str(path)):
            local = source / path
            sha1 = await transfers.sha1_of(local)
            size = local.stat().st_size
            if isinstance(there, items.File) and there.sha1 == sha1:
                result.unchanged += 1
                bar(size)
                return
            await send(client, local, there, parent_id, path.name, sha1=sha1, bar=bar)
            result.files += 1
            result.bytes += size

    made: set[PurePosixPath] = set()  # folders created just now, so they are empty
    with progress.transfer(source.name, size) as bar:
        total = ByteCount(bar)
        async with side_by_side() as start:
            for local in tree:  # parents first
                if (place := places.get(local.path)) is None:
                    continue  # the folder itself failed, which has been reported
                there: dict[str, remote_paths.Found] | None = {} if local.path in made else None
                if there is None:
                    with result.attempt(str(local.path)):
                        there = {item.name or "": item async for item in paths.children(place)}
                if there is None:
                    continue
                for name in local.folders:
                    path = local.path / name
                    with result.attempt(str(path)):
                        places[path] = await _folder(client, there.get(name), place, name)
                        if name not in there:
                            made.add(path)
                for name, _ in local.files:
                    await start(one, local.path / name, place.id, there.get(name), total.of_one())
    return result


async def _folder(
    client: Client, there: remote_paths.Found | None, parent: items.Folder, name: str
) -> items.Folder:
    if there is None:
        return await client.folders.create(name, parent.id)
    if not isinstance(there, items.Folder):
        raise errors.UserError(f"{name} already exists and is not a folder.")
    return there


async def send(
    client: Client,
    local: Path,
    there: remote_paths.Found | None,
    parent_id: str,
    name: str,
    *,
    sha1: str,
    bar: progress.Bar,
) -> items.File:
    """Upload a file: as a new one, or as a new version of the existing one, `there`.

    Raises `UserError` if `there` is not a file, and the errors of uploads.
    """
    if there is not None and not isinstance(there, items.File):
        raise errors.UserError(f"{name} already exists and is not a file.")
    source = FileSource(local)
    if there is not None:
        return await client.uploads.new_version(there.id, source, sha1=sha1, etag=there.etag, progress=bar)
    attributes = uploads.UploadAttributes(name=name, parent=base.Reference(id=parent_id))
    return await client.uploads.new_file(attributes, source, sha1=sha1, progress=bar)


def _scan(source: Path, exclude: Exclusions, result: FolderTransfer) -> list[_LocalFolder]:
    """Return the folders of a tree, parents first."""
    found = []
    waiting = deque([PurePosixPath()])
    while waiting:
        here = _LocalFolder(waiting.popleft())
        found.append(here)
        with result.attempt(str(here.path)), os.scandir(source / here.path) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = here.path / entry.name
                if exclude.fit(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    here.folders.append(entry.name)
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    here.files.append((entry.name, entry.stat().st_size))
                else:
                    result.left_out.append(str(path))
    return found
