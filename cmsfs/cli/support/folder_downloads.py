"""Downloads whole folders, for `get`.

Files that are here already, by their SHA-1, are skipped: repeating an interrupted download continues it.

Rule: no local file is overwritten unless asked to.
"""

from pathlib import Path, PurePosixPath

from cmsfs import errors
from cmsfs.cli.support import progress, transfers
from cmsfs.cli.support.folder_transfers import ByteCount, Exclusions, FolderTransfer, side_by_side
from cmsfs.client import remote_paths
from cmsfs.client.session import Client
from cmsfs.models import url_files
from cmsfs.models.content import items


async def download(
    client: Client,
    paths: remote_paths.RemotePaths,
    folder: items.Folder,
    target: Path,
    *,
    force: bool,
    exclude: Exclusions,
) -> FolderTransfer:
    """Download a folder into the local folder `target`, which is created if necessary; web links as `.url`
    files.

    Cancelled: there are no partial files.
    """
    result = FolderTransfer()
    wanted: list[tuple[PurePosixPath, items.File | items.WebLink]] = []
    folders = [(PurePosixPath(), folder)]
    while folders:
        above, there = folders.pop()
        with result.attempt(str(above)):
            (target / above).mkdir(exist_ok=True)
            async for item in paths.children(there):
                path = above / _local_name(item)
                if exclude.fit(path):
                    continue
                if isinstance(item, items.Folder):
                    folders.append((path, item))
                else:
                    wanted.append((path, item))
    size = sum(int(item.size or 0) for _, item in wanted if isinstance(item, items.File))

    async def one(path: PurePosixPath, item: items.File | items.WebLink, bar: progress.Bar) -> None:
        with result.attempt(str(path)):
            local = target / path
            if isinstance(item, items.WebLink):
                await _save_link(item, local, force=force, result=result)
            elif local.is_file() and item.sha1 and await transfers.sha1_of(local) == item.sha1:
                result.unchanged += 1
                bar(int(item.size or 0))
            else:
                await transfers.save(client, item, local, force=force, progress=bar)
                result.files += 1
                result.bytes += int(item.size or 0)

    with progress.transfer(target.name, size) as bar:
        total = ByteCount(bar)
        async with side_by_side() as start:
            for path, item in wanted:
                await start(one, path, item, total.of_one())
    return result


async def _save_link(item: items.WebLink, local: Path, *, force: bool, result: FolderTransfer) -> None:
    text = url_files.text(item.url or "", item.description or "")
    if local.is_file() and local.read_bytes() == text:
        result.unchanged += 1
        return
    if local.exists() and not force:
        raise errors.UserError(f"{local} already exists; --force overwrites it.")
    local.write_bytes(text)
    result.files += 1
    result.bytes += len(text)


def _local_name(item: remote_paths.Found) -> str:
    name = (item.name or item.id).replace("/", "_")
    if name in (".", ".."):
        name = name.replace(".", "_")
    if isinstance(item, items.WebLink) and not name.lower().endswith(".url"):
        name += ".url"
    return name
