"""Users: the current user and, for administrators, the other users of the enterprise."""

from collections.abc import Sequence

from cmsfs.client.transport.paging import ByMarker, fields_param, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.content import items
from cmsfs.models.enterprise import users


class UsersApi:
    """/users/me and /users/:id."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/users"

    async def me(self) -> users.User:
        """Return the user of the token, with `space_amount` and `space_used` for `df`."""
        return await self.get("me")

    async def get(self, user_id: str, *, fields: Sequence[str] = ()) -> users.User:
        """Return a user; other users only if the caller may look them up."""
        url = f"{self._url}/{user_id}"
        return await self._wire.ask(users.User, "GET", url, repeat=Repeat.READ, params=fields_param(fields))

    def list(
        self, *, term: str | None = None, kind: str = "all", fields: Sequence[str] = ()
    ) -> ByMarker[users.User]:
        """Return the enterprise's users; with `term`, those whose name or login begins with it.

        `kind` is all, managed or external; external users are found only by their complete login.
        """
        given = {"usemarker": "true", "user_type": kind} | ({"filter_term": term} if term else {})
        return pages(self._wire, paging.MarkerPage[users.User], self._url, given | fields_param(fields))

    async def create(self, wish: users.NewUser, *, fields: Sequence[str] = ()) -> users.User:
        """Create a user.  Raises `Forbidden` except for administrators, `Conflict` if the login is taken."""
        params = fields_param(fields)
        return await self._wire.ask(users.User, "POST", self._url, body=wish.body(), params=params)

    async def update(self, user_id: str, change: users.UpdateUser) -> users.User:
        return await self._wire.ask(users.User, "PUT", f"{self._url}/{user_id}", body=change.body())

    async def transfer(self, user_id: str, to_id: str) -> items.Folder:
        """Transfer all content of a user to another; return the folder in the new owner's root that has it.

        Raises `Forbidden` unless an administrator calls, if the quota is exceeded or a policy forbids it.
        """
        url, body = f"{self._url}/{user_id}/folders/0", {"owned_by": {"id": to_id}}
        return await self._wire.ask(items.Folder, "PUT", url, body=body)

    async def delete(self, user_id: str, *, force: bool = False) -> None:
        """Delete a user; with `force`, also the content that the user owns."""
        await self._wire.tell("DELETE", f"{self._url}/{user_id}{'?force=true' if force else ''}")
