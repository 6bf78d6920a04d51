"""Users: the current user, and, for administrators, the others of the enterprise."""

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
        """The user of the token; with `space_amount` and `space_used`, which `df` shows."""
        return await self.get("me")

    async def get(self, user_id: str, *, fields: Sequence[str] = ()) -> users.User:
        """Another user, for who may look up users of the enterprise."""
        url = f"{self._url}/{user_id}"
        return await self._wire.ask(users.User, "GET", url, repeat=Repeat.READ, params=fields_param(fields))

    def list(
        self, *, term: str | None = None, kind: str = "all", fields: Sequence[str] = ()
    ) -> ByMarker[users.User]:
        """The enterprise's users; with `term` those whose name or login begins with it.

        `kind` is all, managed or external; external users are found by their whole login only.
        """
        given = {"usemarker": "true", "user_type": kind} | ({"filter_term": term} if term else {})
        return pages(self._wire, paging.MarkerPage[users.User], self._url, given | fields_param(fields))

    async def create(self, wish: users.NewUser, *, fields: Sequence[str] = ()) -> users.User:
        """Raises `Forbidden` for who is no administrator, `Conflict` if the login is taken."""
        params = fields_param(fields)
        return await self._wire.ask(users.User, "POST", self._url, body=wish.body(), params=params)

    async def update(self, user_id: str, change: users.UpdateUser) -> users.User:
        return await self._wire.ask(users.User, "PUT", f"{self._url}/{user_id}", body=change.body())

    async def transfer(self, user_id: str, to_id: str) -> items.Folder:
        """Give all content of a user to another; the folder of that one's root that holds it.

        Raises `Forbidden` for who is no administrator, if it does not fit, and for what a policy protects.
        """
        url, body = f"{self._url}/{user_id}/folders/0", {"owned_by": {"id": to_id}}
        return await self._wire.ask(items.Folder, "PUT", url, body=body)

    async def delete(self, user_id: str, *, force: bool = False) -> None:
        """With `force` also the content that the user owns."""
        await self._wire.tell("DELETE", f"{self._url}/{user_id}{'?force=true' if force else ''}")
