"""Legal hold policies (list, read, create, change, release) and their assignments."""

from collections.abc import Sequence
from datetime import datetime

from cmsfs.client.transport.paging import ByMarker, fields_param, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.content import items
from cmsfs.models.enterprise import legal_holds


class LegalHoldsApi:
    """/legal_hold_policies and /legal_hold_policy_assignments.

    Raises `Forbidden` unless the caller is an administrator.
    """

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/legal_hold_policies"
        self._assignments = f"{base_url}/legal_hold_policy_assignments"

    def list(
        self, *, name: str | None = None, fields: Sequence[str] = ()
    ) -> ByMarker[legal_holds.LegalHoldPolicy]:
        """Return the policies whose names begin with `name` (case-insensitive); all without it."""
        given = fields_param(fields) | ({} if name is None else {"policy_name": name})
        return pages(self._wire, paging.MarkerPage[legal_holds.LegalHoldPolicy], self._url, given)

    async def get(self, policy_id: str) -> legal_holds.LegalHoldPolicy:
        url = f"{self._url}/{policy_id}"
        return await self._wire.ask(legal_holds.LegalHoldPolicy, "GET", url, repeat=Repeat.READ)

    async def create(
        self,
        name: str,
        *,
        description: str | None = None,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
    ) -> legal_holds.LegalHoldPolicy:
        """Create a policy, either with both times or ongoing.  Raises `Conflict` if its name is taken."""
        given = {
            "policy_name": name,
            "description": description,
            "filter_started_at": started_at,
            "filter_ended_at": ended_at,
            "is_ongoing": True if started_at is None else None,
        }
        wish = legal_holds.NewLegalHoldPolicy.model_validate(
            {key: value for key, value in given.items() if value is not None}
        )
        return await self._wire.ask(legal_holds.LegalHoldPolicy, "POST", self._url, body=wish.body())

    async def update(
        self, policy_id: str, change: legal_holds.UpdateLegalHoldPolicy
    ) -> legal_holds.LegalHoldPolicy:
        """Change a policy.  Raises `Conflict` if the new name is taken."""
        url = f"{self._url}/{policy_id}"
        return await self._wire.ask(legal_holds.LegalHoldPolicy, "PUT", url, body=change.body())

    async def release(self, policy_id: str) -> None:
        """Start releasing a policy; its status tells when it is released."""
        await self._wire.tell("DELETE", f"{self._url}/{policy_id}")

    async def assign(
        self, policy_id: str, kind: legal_holds.AssignType, target_id: str
    ) -> legal_holds.HoldAssignment:
        """Assign a policy to a file, a version, a folder, or a user's content."""
        target = legal_holds.HoldAssignTo(type=kind, id=target_id)
        body = legal_holds.NewHoldAssignment(policy_id=policy_id, assign_to=target).body()
        return await self._wire.ask(legal_holds.HoldAssignment, "POST", self._assignments, body=body)

    def assignments(self, policy_id: str) -> ByMarker[legal_holds.HoldAssignment]:
        shape = paging.MarkerPage[legal_holds.HoldAssignment]
        return pages(self._wire, shape, self._assignments, {"policy_id": policy_id})

    async def unassign(self, assignment_id: str) -> None:
        await self._wire.tell("DELETE", f"{self._assignments}/{assignment_id}")

    def files_on_hold(self, assignment_id: str) -> ByMarker[items.File]:
        return pages(
            self._wire, paging.MarkerPage[items.File], f"{self._assignments}/{assignment_id}/files_on_hold"
        )
