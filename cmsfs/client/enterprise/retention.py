"""Retention policies and their assignments."""

from collections.abc import Sequence

from cmsfs.client.transport.paging import ByMarker, fields_param, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.content import items
from cmsfs.models.enterprise import retention


class RetentionApi:
    """/retention_policies and /retention_policy_assignments.

    Raises `Forbidden` unless the caller is an administrator.
    """

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/retention_policies"
        self._assignments = f"{base_url}/retention_policy_assignments"

    def list(self, *, fields: Sequence[str] = ()) -> ByMarker[retention.RetentionPolicy]:
        shape = paging.MarkerPage[retention.RetentionPolicy]
        return pages(self._wire, shape, self._url, fields_param(fields))

    async def create(self, wish: retention.NewRetentionPolicy) -> retention.RetentionPolicy:
        """Create a policy.  Raises `Conflict` if its name is taken."""
        return await self._wire.ask(retention.RetentionPolicy, "POST", self._url, body=wish.body())

    async def assign(
        self, policy_id: str, target: retention.RetentionAssignTo
    ) -> retention.RetentionAssignment:
        """Assign a policy.  Raises `Conflict` if it is assigned to the target already."""
        body = retention.NewRetentionAssignment(policy_id=policy_id, assign_to=target).body()
        return await self._wire.ask(retention.RetentionAssignment, "POST", self._assignments, body=body)

    async def get_assignment(
        self, assignment_id: str, *, fields: Sequence[str] = ()
    ) -> retention.RetentionAssignment:
        url = f"{self._assignments}/{assignment_id}"
        params = fields_param(fields)
        return await self._wire.ask(
            retention.RetentionAssignment, "GET", url, repeat=Repeat.READ, params=params
        )

    def assignments(
        self, policy_id: str, *, fields: Sequence[str] = ()
    ) -> ByMarker[retention.RetentionAssignment]:
        shape = paging.MarkerPage[retention.RetentionAssignment]
        return pages(self._wire, shape, f"{self._url}/{policy_id}/assignments", fields_param(fields))

    def files(self, assignment_id: str) -> ByMarker[items.File]:
        """Return the files whose current version is under retention by an assignment."""
        url = f"{self._assignments}/{assignment_id}/files_under_retention"
        return pages(self._wire, paging.MarkerPage[items.File], url)
