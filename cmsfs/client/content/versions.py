"""File versions: list, download, promote, delete.

The bytes of one are read with `Files.content(file_id, version=...)`.
"""

from cmsfs.client.content.items import if_match
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import versions
from cmsfs.models.paging import OffsetPage

PAGE = 1000


class VersionsApi:
    """/files/:id/versions and what is below."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/files"

    async def past(self, file_id: str) -> list[versions.FileVersion]:
        """The versions before the current one, the newest first; those in the trash have `trashed_at`."""
        found: list[versions.FileVersion] = []
        while True:
            page = await self._wire.ask(
                OffsetPage[versions.FileVersion],
                "GET",
                f"{self._url}/{file_id}/versions",
                repeat=Repeat.READ,
                params={"limit": str(PAGE), "offset": str(len(found))},
            )
            found += page.entries
            if not page.entries or len(found) >= page.total_count:
                return found

    async def get(self, file_id: str, version_id: str) -> versions.FileVersion:
        url = f"{self._url}/{file_id}/versions/{version_id}"
        return await self._wire.ask(versions.FileVersion, "GET", url, repeat=Repeat.READ)

    async def delete(self, file_id: str, version_id: str, *, etag: str | None = None) -> None:
        """Into the trash."""
        url = f"{self._url}/{file_id}/versions/{version_id}"
        await self._wire.tell("DELETE", url, headers=if_match(etag))

    async def restore(self, file_id: str, version_id: str) -> versions.FileVersion:
        """Out of the trash."""
        url = f"{self._url}/{file_id}/versions/{version_id}"
        return await self._wire.ask(versions.FileVersion, "PUT", url, body={"trashed_at": None})

    async def promote(self, file_id: str, version_id: str) -> versions.FileVersion:
        """The new version that has the bytes of an old one."""
        body = versions.Promote(id=version_id, type="file_version").body()
        url = f"{self._url}/{file_id}/versions/current"
        return await self._wire.ask(versions.FileVersion, "POST", url, body=body)
