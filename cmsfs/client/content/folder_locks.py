"""Locks on folders: nobody can move, rename or delete a locked folder."""

from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import folder_locks


class FolderLocksApi:
    """/folder_locks."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/folder_locks"

    async def of(self, folder_id: str) -> list[folder_locks.FolderLock]:
        """Return the locks on a folder.  Raises `Forbidden` unless the caller owns or co-owns it."""
        params = {"folder_id": folder_id}
        found = await self._wire.ask(
            folder_locks.FolderLocks, "GET", self._url, repeat=Repeat.READ, params=params
        )
        return found.entries

    async def lock(self, folder_id: str) -> folder_locks.FolderLock:
        """Lock a folder.  Raises `Conflict` if it is locked, `Forbidden` unless the caller (co-)owns it."""
        wish = folder_locks.NewFolderLock(
            folder=folder_locks.LockedFolder(id=folder_id),
            locked_operations=folder_locks.LockedOperations(move=True, delete=True),
        )
        body = wish.model_dump(mode="json")
        return await self._wire.ask(folder_locks.FolderLock, "POST", self._url, body=body)

    async def unlock(self, folder_id: str) -> bool:
        """Remove all locks from a folder; return whether there were any."""
        found = await self.of(folder_id)
        for one in found:
            await self._wire.tell("DELETE", f"{self._url}/{one.id}")
        return bool(found)
