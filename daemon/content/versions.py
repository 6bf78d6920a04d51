"""Lists and downloads earlier versions of files."""

from collections.abc import Sequence

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.models.content import versions
from cmsfs.vfs.virtual.versions import PastVersion
from daemon.core.health import Health


class VersionHistory:
    """Implements `VersionsPort` of the vfs."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health

    async def past(self, file_id: str) -> Sequence[PastVersion]:
        """Return the versions before the current one that are not in the trash, newest first.

        Raises `RemoteError`; `Offline` at once while the service is unreachable.
        """
        if Ability.HISTORY in self._client.offers.lacking:
            raise errors.NotSupported(405, "not_offered", f"This service cannot {Ability.HISTORY.cannot}")
        if not self._health.can_ask:
            raise errors.Offline("The service cannot be reached.")
        return [
            _version(one)
            for one in await self._client.versions.past(file_id)
            if one.trashed_at is None and one.sha1 is not None
        ]

    async def beginning(self, file_id: str, version: PastVersion, most: int) -> bytes:
        """Return the first bytes of an earlier version.  Raises `RemoteError`."""
        if not version.size:
            return b""
        with self._health.request("read"):
            async with self._client.files.content(
                file_id, last=min(version.size, most) - 1, version=version.id
            ) as chunks:
                return b"".join([chunk async for chunk in chunks])

    async def promote(self, file_id: str, version_id: str) -> None:
        """Make a copy of an earlier version the current one.  Raises `RemoteError`."""
        with self._health.request("version"):
            await self._client.versions.promote(file_id, version_id)


def _version(one: versions.FileVersion) -> PastVersion:
    made = one.modified_at or one.created_at
    author = (one.modified_by.name if one.modified_by else None) or one.uploader_display_name or ""
    made_ns = int(made.timestamp()) * 10**9 if made else 0
    return PastVersion(one.id, one.sha1 or "", int(one.size or 0), made_ns, author)
