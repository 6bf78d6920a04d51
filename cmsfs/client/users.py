"""Users: who the token speaks for, and others of the enterprise."""

from cmsfs.client.retry import Repeat
from cmsfs.client.wire import Wire
from cmsfs.models import users


class Users:
    """/users/me and /users/:id."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/users"

    async def me(self) -> users.User:
        """The user of the token; with `space_amount` and `space_used`, which `df` shows."""
        return await self.get("me")

    async def get(self, user_id: str) -> users.User:
        """Another user, for who may look up users of the enterprise."""
        return await self._wire.ask(users.User, "GET", f"{self._url}/{user_id}", repeat=Repeat.READ)
