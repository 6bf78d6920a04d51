"""Users who are exempt from the collaboration allowlist."""

from cmsfs.client.transport.paging import ByMarker, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.base import Reference
from cmsfs.models.enterprise import exemptions


class ExemptionsApi:
    """/collaboration_whitelist_exempt_targets.  Raises `Forbidden` unless the caller is an administrator."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/collaboration_whitelist_exempt_targets"

    def list(self) -> ByMarker[exemptions.Exemption]:
        """Return all exemptions."""
        return pages(self._wire, paging.MarkerPage[exemptions.Exemption], self._url)

    async def get(self, exemption_id: str) -> exemptions.Exemption:
        url = f"{self._url}/{exemption_id}"
        return await self._wire.ask(exemptions.Exemption, "GET", url, repeat=Repeat.READ)

    async def create(self, user_id: str) -> exemptions.Exemption:
        """Exempt a user.  Raises `Conflict` if the user is exempt already."""
        body = exemptions.NewExemption(user=Reference(id=user_id)).body()
        return await self._wire.ask(exemptions.Exemption, "POST", self._url, body=body)

    async def delete(self, exemption_id: str) -> None:
        await self._wire.tell("DELETE", f"{self._url}/{exemption_id}")
