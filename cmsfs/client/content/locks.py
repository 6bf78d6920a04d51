"""File locks: others cannot change a locked file until it is unlocked or the lock expires."""

from datetime import datetime

from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import items


class LocksApi:
    """PUT /files/:id with a lock, or with null to unlock."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/files"

    async def lock(
        self, file_id: str, *, expires_at: datetime | None = None, prevent_download: bool = False
    ) -> items.File:
        """Lock a file.  Raises `Forbidden` (`access_denied_item_locked`) if another user has locked it."""
        wish = items.NewLock(access="lock", is_download_prevented=prevent_download)
        if expires_at is not None:
            wish.expires_at = expires_at
        # The public API description requires `type` but documents `access`: send both.
        return await self._put(file_id, {"type": "lock"} | wish.body())

    async def unlock(self, file_id: str) -> items.File:
        """Unlock a file; does nothing if it is not locked."""
        return await self._put(file_id, None)

    async def _put(self, file_id: str, lock: dict[str, object] | None) -> items.File:
        url = f"{self._url}/{file_id}"
        return await self._wire.ask(items.File, "PUT", url, params=FIELDS_PARAM, body={"lock": lock})
