"""Collaborations: sharing items with other users, and accepting or rejecting invitations.

Rule: roles are those of `models.enterprise.collaborations`.
"""

from datetime import datetime
from typing import Literal

from cmsfs.client.transport.paging import ByMarker, ByOffset, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.enterprise import collaborations

Kind = Literal["file", "folder"]


class CollaborationsApi:
    """/collaborations, and those of a file or folder."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url
        self._url = f"{base_url}/collaborations"

    async def create(
        self,
        kind: Kind,
        item_id: str,
        role: collaborations.Role,
        *,
        user_id: str | None = None,
        login: str | None = None,
        can_view_path: bool | None = None,
        expires_at: datetime | None = None,
    ) -> collaborations.Collaboration:
        """Share an item with a user, given by id or login (e-mail address).

        The collaboration is `pending` if the user has to accept it.  Raises `Forbidden` if the caller may not
        invite, `ApiError` with the code `user_already_collaborator` if the user is a collaborator already.
        """
        whom = {"type": "user"} | ({"id": user_id} if user_id is not None else {"login": login})
        given = {
            "item": {"type": kind, "id": item_id},
            "accessible_by": whom,
            "role": role,
            "can_view_path": can_view_path,
            "expires_at": expires_at,
        }
        wish = collaborations.NewCollaboration.model_validate(
            {name: value for name, value in given.items() if value is not None}
        )
        return await self._wire.ask(collaborations.Collaboration, "POST", self._url, body=wish.body())

    async def get(self, collaboration_id: str) -> collaborations.Collaboration:
        url = f"{self._url}/{collaboration_id}"
        return await self._wire.ask(collaborations.Collaboration, "GET", url, repeat=Repeat.READ)

    def of(self, kind: Kind, item_id: str) -> ByMarker[collaborations.Collaboration]:
        """Return the collaborations on an item, pending and inherited ones included."""
        url = f"{self._base}/{kind}s/{item_id}/collaborations"
        return pages(self._wire, paging.MarkerPage[collaborations.Collaboration], url)

    def pending(self) -> ByOffset[collaborations.Collaboration]:
        """Return the caller's pending invitations."""

        async def fetch(offset: int) -> paging.OffsetPage[collaborations.Collaboration]:
            params = {"status": collaborations.PENDING, "offset": str(offset)}
            shape = paging.OffsetPage[collaborations.Collaboration]
            return await self._wire.ask(shape, "GET", self._url, repeat=Repeat.READ, params=params)

        return ByOffset(fetch, key=lambda one: one.id)

    async def answer(self, collaboration_id: str, *, accept: bool) -> collaborations.Collaboration:
        """Accept or reject an invitation."""
        status: collaborations.Status = "accepted" if accept else "rejected"
        return await self.update(collaboration_id, collaborations.UpdateCollaboration(status=status))

    async def update(
        self, collaboration_id: str, wish: collaborations.UpdateCollaboration
    ) -> collaborations.Collaboration:
        """Change the fields that are set.  Use `hand_over` for the role `owner`."""
        url = f"{self._url}/{collaboration_id}"
        return await self._wire.ask(collaborations.Collaboration, "PUT", url, body=wish.body())

    async def hand_over(self, collaboration_id: str) -> None:
        """Make the collaborator the owner; the caller remains a collaborator."""
        await self._wire.tell("PUT", f"{self._url}/{collaboration_id}", body={"role": "owner"})

    async def delete(self, collaboration_id: str) -> None:
        """Remove a collaborator, or leave a shared item."""
        await self._wire.tell("DELETE", f"{self._url}/{collaboration_id}")
