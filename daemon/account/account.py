"""The account's state: whether the service is reachable, and the free quota.

The vfs asks for both on its way (`vfs.ports.AccountPort`), so both are answered from memory.
"""

from collections.abc import Awaitable, Callable

import trio

from cmsfs import errors
from cmsfs.auth import refusals
from cmsfs.client.session import Client
from cmsfs.models.enterprise import users
from cmsfs.replica import kv_store
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.account.permissions import RightsReader
from daemon.core.health import Health

# `df` may be a few minutes behind.
REFRESH_SECONDS = 300.0
SOON_SECONDS = 2.0
DOUBT_SECONDS = 2.0


class Account:
    """Implements `AccountPort` of the vfs over one client.

    `owner_of`: the replica that must go on being of the same user, since what waits in it was changed by that
    one; None where users come and go with their service, as in the embedded one.  `by_link`: it is a shared
    link's, without an account.  `belongs_to` is told whose
    drive it is; `found_out` returns when it is known what the service offers, where services differ in that.
    """

    def __init__(
        self,
        client: Client,
        health: Health,
        rights: RightsReader,
        *,
        read_only: bool = False,
        by_link: bool = False,
        owner_of: Database | None = None,
        belongs_to: Callable[[str], Awaitable[None]] | None = None,
        found_out: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._found_out = found_out
        self._belongs_to = belongs_to
        self._owner_of = owner_of
        self._read_only, self._by_link = read_only, by_link
        self._client = client
        self.rights = rights
        self._health = health
        self._space: tuple[int, int] | None = None
        self.largest_file: int | None = None
        self._doubt = Signal()
        self._more_room = Signal()
        self._known, self._is_fresh = trio.Event(), False

    @property
    def is_online(self) -> bool:
        return self._health.is_online

    def space(self) -> tuple[int, int] | None:
        return self._space

    def doubt_space(self) -> None:
        self._doubt.set()

    async def more_room(self) -> None:
        """Wait until the account has more room than it had."""
        await self._more_room.wait()

    async def who(self) -> users.User:
        """Ask the service who we are.  Raises `RemoteError`, `NeedsLogin` for somebody else than before."""
        known = kv_store.get(self._owner_of, kv_store.OWNER) if self._owner_of is not None else None
        try:
            user = await self._client.users.me()
        except (errors.BadRequest, errors.Forbidden, errors.NotFound, errors.NotSupported):
            # A service may tell it to administrators alone; whose drive it was must not change unnoticed.
            if self._found_out is None or known is not None:
                raise
            user = users.User(id="")
        if self._owner_of is not None and user.id:
            if known is None:
                await self._owner_of.write(lambda conn: kv_store.put(conn, kv_store.OWNER, user.id))
            elif known != user.id:
                raise errors.NeedsLogin(refusals.ANOTHER)
        if self._owner_of is not None and user.login:
            await self._keep_login(self._owner_of, user.login)
        if self._belongs_to is not None and user.id:
            await self._belongs_to(user.id)
        if self._found_out is not None:
            await self._found_out()
        self._known.set()
        return user

    async def _keep_login(self, replica: Database, login: str) -> None:
        """Remember what the drive may be called while the service is out of reach."""
        if kv_store.get(replica, kv_store.LOGIN) != login:
            await replica.write(lambda conn: kv_store.put(conn, kv_store.LOGIN, login))

    async def once_known(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` when the service has said, once since the start, that we are who we were: after a start
        without it the login may be anybody's."""
        await self._known.wait()
        await work()

    async def refresh(self) -> None:
        """Ask the service who we are and what room we have.  Raises `RemoteError`."""
        before = self._space
        with self._health.request("account"):
            user = await self.who()
        self.rights.user_id, self._is_fresh = user.id or None, True
        self._health.allow_changes(self._refusal(user))
        if user.space_amount is not None and user.space_used is not None:
            self._space = (user.space_amount, user.space_used)
        if user.max_upload_size:
            self.largest_file = user.max_upload_size
        if before is not None and self._space is not None and _free(before) < _free(self._space):
            self._more_room.pulse()

    def _refusal(self, user: users.User) -> str | None:
        """Why nothing may be changed with this account."""
        if self._read_only:
            return (
                f"The {'shared link allows no changes' if self._by_link else 'configuration sets read_only'}."
            )
        if user.status == "cannot_delete_edit_upload":
            return "An administrator has restricted this account to read-only access."
        return None

    async def run(self) -> None:
        """Refresh now and then, for ever."""
        while True:
            # After a start without the service, as soon as it can be.
            with trio.move_on_after(REFRESH_SECONDS if self._is_fresh else SOON_SECONDS):
                await self._doubt.wait()
                # Somebody who is refused tries again and again.
                await trio.sleep(DOUBT_SECONDS)
            self._doubt.clear()
            await self._health.reachable()
            try:
                await self.refresh()
            except errors.RemoteError:
                pass  # health has heard of it


def _free(space: tuple[int, int]) -> float:
    total, used = space
    return total - used if total > 0 else float("inf")
