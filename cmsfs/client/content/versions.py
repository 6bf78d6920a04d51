"""File versions: list, download, promote, delete.

Read a version's bytes with `FilesApi.content(file_id, version=...)`.
"""

from cmsfs.client.content.items import if_match
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import versions
from cmsfs.models.paging import OffsetPage

PAGE = 1000


class VersionsApi:
    """/files/:id/versions and the paths below it."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/files"

    async def past(self, file_id: str) -> list[versions.FileVersion]:
        """Return the versions before the current one, newest first; deleted ones have `trashed_at`."""
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
        """Move a version to the trash."""
        url = f"{self._url}/{file_id}/versions/{version_id}"
        await self._wire.tell("DELETE", url, headers=if_match(etag))

    async def restore(self, file_id: str, version_id: str) -> versions.FileVersion:
        """Restore a version from the trash."""
        url = f"{self._url}/{file_id}/versions/{version_id}"
        return await self._wire.ask(versions.FileVersion, "PUT", url, body={"trashed_at": None})

    async def promote(self, file_id: str, version_id: str) -> versions.FileVersion:
        """Make a copy of an old version the current one; return the new version."""
        body = versions.Promote(id=version_id, type="file_version").body()
        url = f"{self._url}/{file_id}/versions/current"
        return await self._wire.ask(versions.FileVersion, "POST", url, body=body)
