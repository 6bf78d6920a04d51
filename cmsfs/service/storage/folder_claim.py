"""Ensures that all processes that serve one PostgreSQL database have their contents in the same folder.

The database records the id of that folder (a shared value), and the folder has it in the file `folder.json`;
so it may be mounted elsewhere on each machine.  Without this, two processes with a folder each would miss the
contents of the other, and remove as unreferenced what another database refers to.

Rules: after a crash at any point, the next start completes the claim.  If several processes start at once,
the first id that is recorded wins.  s3/claim.py does the same for a bucket.
"""

import json
import socket
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from cmsfs import errors
from cmsfs.runtime import chance, threads
from cmsfs.service.storage import engine
from cmsfs.service.storage.shared import folder

# The name of the shared value, and of the file in the folder.
RECORD = "folder.json"


@dataclass(frozen=True, slots=True)
class _FolderId:
    """The file: `claimed` once the database has recorded the id."""

    id: str
    claimed: bool = False

    def data(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class _ClaimedFolder:
    """The shared value: the folder's id, and where it was when it was recorded, for the error message."""

    id: str
    place: str

    def data(self) -> bytes:
        return json.dumps(asdict(self)).encode()


async def claim_folder(root: Path, db: engine.Engine, shared: engine.StoreCoordination) -> None:
    """Claim the folder `root` for the contents of this database.

    Raises `UserError` if they are in another folder, or if the folder has those of another database.
    """
    # In this order: a file that is claimed was claimed after the database had the id.
    file = await threads.run_sync(_read_file, root)
    if not is_claimed(shared):
        has_versions = bool(db.rows("SELECT 1 FROM version LIMIT 1"))
        problem = await threads.run_sync(_reason_against, root, file, has_versions)
        # Another process may have claimed the folder meanwhile, and got contents.
        if problem is not None and not is_claimed(shared):
            raise errors.UserError(problem)
        if file is None:
            file = await threads.run_sync(_create_file, root)
        place = f"{root.resolve()} on {socket.gethostname()}"
        await shared.add_value(RECORD, _ClaimedFolder(file.id, place).data())
    recorded = _ClaimedFolder(**json.loads(shared.value(RECORD) or b""))
    if file is None or file.id != recorded.id:
        file = await threads.run_sync(_read_file, root)  # another process may have claimed it meanwhile
    if file is None or file.id != recorded.id:
        raise errors.UserError(
            f"The contents of this database are in another data folder (it was {recorded.place}, and its"
            f" {RECORD} has the id {recorded.id}), not in {root}: all processes need that one; if they"
            f" were copied to {root}, stop the service and run cmsfs service relocate."
        )
    if not file.claimed:
        data = replace(file, claimed=True).data()
        await threads.run_sync(partial(folder.write_file, root / RECORD, data, new=False))


async def relocate(root: Path, shared: engine.StoreCoordination) -> str:
    """Record that the contents of this database are in `root` now; return the folder.

    Raises `UserError` if the folder has not its contents.
    """
    data = shared.value(RECORD)
    if data is None:
        raise errors.UserError("The database has not recorded where its contents are.")
    recorded = _ClaimedFolder(**json.loads(data))
    file = await threads.run_sync(_read_file, root)
    if file is not None and file.id != recorded.id:
        raise errors.UserError(f"{root} has the contents of another service.")
    if not await threads.run_sync(has_blobs, root):
        raise errors.UserError(f"{root} has no contents.")
    file_data = _FolderId(recorded.id, claimed=True).data()
    await threads.run_sync(partial(folder.write_file, root / RECORD, file_data, new=False))
    place = f"{root.resolve()} on {socket.gethostname()}"
    await shared.set_value(RECORD, replace(recorded, place=place).data())
    return str(root)


def check_unclaimed(root: Path) -> None:
    """Check that an embedded database may have its contents in `root`.

    Raises `UserError` if those of a database on a server are there: they would be removed as unreferenced.
    """
    file = _read_file(root)
    if file is not None and file.claimed:
        message = f"{root} has the contents of a database on a server: give --database, or another folder."
        raise errors.UserError(message)


def is_claimed(shared: engine.StoreCoordination) -> bool:
    """Whether the contents of the database are in a folder."""
    return shared.value(RECORD) is not None


def _reason_against(root: Path, file: _FolderId | None, has_versions: bool) -> str | None:
    """Why a folder cannot have the contents of a database that has not recorded where they are."""
    has_contents = has_blobs(root)
    if has_versions and not has_contents:
        return (
            f"The contents of this database are not in {root}: give the folder, or the bucket, that has them."
        )
    if not has_versions and (has_contents or (file is not None and file.claimed)):
        return f"{root} has the contents of another service; a new database needs a folder of its own."
    return None


def has_blobs(root: Path) -> bool:
    """Whether a store's folder has contents; blocking."""
    return any(entry.is_file() for entry in (root / "blobs").rglob("*"))


def _create_file(root: Path) -> _FolderId:
    folder.write_file(root / RECORD, _FolderId(chance.uuid4().hex).data(), new=True)
    created = _read_file(root)
    assert created is not None
    return created


def _read_file(root: Path) -> _FolderId | None:
    """Read the file of a folder.  Raises `UserError` if it is damaged."""
    try:
        found = json.loads((root / RECORD).read_bytes())
        return _FolderId(str(found["id"]), bool(found.get("claimed")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.UserError(f"{root / RECORD} cannot be read: {error}.") from error
