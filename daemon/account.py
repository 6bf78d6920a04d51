"""What the agent knows of the account: whether the service is heard, and how much room there is.

The vfs asks for both on its way (`vfs.ports.Account`), so both are answered from memory.
"""

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.replica.nodes import Node
from cmsfs.vfs.permissions import Right
from daemon.health import Health
from daemon.rights import Rights

# `df` may be a few minutes behind.
REFRESH_SECONDS = 300.0
SOON_SECONDS = 2.0


class Account:
    """The vfs's `Account` port over one client."""

    def __init__(self, client: Client, health: Health, rights: Rights) -> None:
        self._client = client
        self._rights = rights
        self._health = health
        self._space: tuple[int, int] | None = None

    @property
    def is_online(self) -> bool:
        return self._health.is_online

    def space(self) -> tuple[int, int] | None:
        return self._space

    def rights(self, node: Node) -> Right:
        return self._rights.of(node)

    async def learn_rights(self, node: Node) -> None:
        await self._rights.learn(node)

    async def refresh(self) -> None:
        """Ask the service who we are and what room we have.  Raises `RemoteError`."""
        with self._health.request("account"):
            user = await self._client.users.me()
        self._rights.user_id = user.id
        if user.space_amount is not None and user.space_used is not None:
            self._space = (user.space_amount, user.space_used)

    async def run(self) -> None:
        """Refresh now and then, for ever."""
        while True:
            # After a start without the service, as soon as it can be.
            await trio.sleep(REFRESH_SECONDS if self._rights.user_id is not None else SOON_SECONDS)
            await self._health.reachable()
            try:
                await self.refresh()
            except errors.RemoteError:
                pass  # health has heard of it
