"""The account's state: whether the service is reachable, and the free quota.

The vfs needs both synchronously (`vfs.ports.AccountPort`), so both are cached.
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

# The quota in `df` may be a few minutes old.
REFRESH_SECONDS = 300.0
SOON_SECONDS = 2.0
DOUBT_SECONDS = 2.0


class Account:
    """Implements `AccountPort` of the vfs over one client.

    `owner_of`: the replica that must stay with the same user, since its pending changes are that user's; None
    for services whose users are temporary, such as the embedded one.  `by_link`: the drive is a shared
    link's, without an account.  `belongs_to` is called with the user of the drive; `found_out` asks
    for the service's operations, if services differ in that, and returns whether all are known.
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
        found_out: Callable[[], Awaitable[bool]] | None = None,
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
        self._unclear_seconds: float | None = None  # until the operations are asked for again

    @property
    def is_online(self) -> bool:
        return self._health.is_online

    def space(self) -> tuple[int, int] | None:
        return self._space

    def doubt_space(self) -> None:
        self._doubt.set()

    async def more_room(self) -> None:
        """Wait until the account has more free quota than before."""
        await self._more_room.wait()

    async def who(self) -> users.User:
        """Request the current user.  Raises `RemoteError`, and `NeedsLogin` if it is another user than
        before."""
        known = kv_store.get(self._owner_of, kv_store.OWNER) if self._owner_of is not None else None
        try:
            user = await self._client.users.me()
        except (errors.BadRequest, errors.Forbidden, errors.NotFound, errors.NotSupported):
            # A service may show this to administrators only; but a change of user must not go unnoticed.
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
            is_clear, waited = await self._found_out(), self._unclear_seconds or SOON_SECONDS / 2
            self._unclear_seconds = None if is_clear else min(2 * waited, REFRESH_SECONDS)
        self._known.set()
        return user

    async def _keep_login(self, replica: Database, login: str) -> None:
        """Store the names of the drive for offline use."""
        if kv_store.get(replica, kv_store.LOGIN) != login:
            await replica.write(lambda conn: kv_store.put(conn, kv_store.LOGIN, login))

    async def once_known(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` once the service has confirmed, after this start, that the user is unchanged: after an
        offline start the login may be another user's."""
        await self._known.wait()
        await work()

    async def refresh(self) -> None:
        """Request the user and the quota.  Raises `RemoteError`."""
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
        """Return why no changes are allowed with this account."""
        if self._read_only:
            return (
                f"The {'shared link allows no changes' if self._by_link else 'configuration sets read_only'}."
            )
        if user.status == "cannot_delete_edit_upload":
            return "An administrator has restricted this account to read-only access."
        return None

    async def run(self) -> None:
        """Refresh periodically, forever."""
        while True:
            # After an offline start, as soon as possible.
            usual = self._unclear_seconds or REFRESH_SECONDS
            with trio.move_on_after(usual if self._is_fresh else SOON_SECONDS):
                await self._doubt.wait()
                # Somebody who is refused tries again and again.
                await trio.sleep(DOUBT_SECONDS)
            self._doubt.clear()
            await self._health.reachable()
            try:
                await self.refresh()
            except errors.RemoteError:
                pass  # health has recorded it


def _free(space: tuple[int, int]) -> float:
    total, used = space
    return total - used if total > 0 else float("inf")
