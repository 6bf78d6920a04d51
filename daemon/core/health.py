"""The connection state machine (online, offline, ...), driven by the outcomes of requests.

What the connection is like comes from the requests; that the drive is paused, from the person; that it may
only be read, from the account.  A pause hides the rest, a trouble with the connection hides "read-only".

Every request of the agent runs inside `request(purpose)`, which counts it and learns from how it ends.  A
failure that may lie in the connection makes a probe run at once; the probe decides, and repeats until all
is well.  So whoever waits is told within the time of one refused connection, and recovery needs nobody.

Rule: an answer of the service, even a refusal of the one request, is a sign of health.
"""

import enum
import errno
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC

import trio

from cmsfs import errors
from cmsfs.auth import refusals
from cmsfs.runtime import chance, clock
from cmsfs.user_messages import explain
from cmsfs.vfs import errno_map
from cmsfs.wakeup import Signal

log = logging.getLogger(__name__)

# A laptop that comes back to its network is online again within a second or two; a service that is down
# for the night is asked twice a minute.
FIRST_PROBE_SECONDS = 1.0
LONGEST_PROBE_SECONDS = 30.0

# A probe is a tiny question; a service that takes longer for it is of no use to a reader either.
PROBE_DEADLINE_SECONDS = 6.0


class HealthState(enum.StrEnum):
    """As `cmsfs status` shows it."""

    STARTING = "starting"  # nothing was asked yet
    ONLINE = "online"
    OFFLINE = "offline"  # no connection, or no answer
    UNAUTHORISED = "unauthorised"  # the credentials or the token are refused
    DEGRADED = "degraded"  # it answers, and fails
    READ_ONLY = "read-only"  # the account, or the settings, allow no changes
    PAUSED = "paused"  # the person wants no traffic but what a program waits for


# The connection after a request that was answered.
_ANSWERING = (HealthState.ONLINE, "")


class Health:
    """The state, why, since when; and the counts of requests by purpose."""

    def __init__(self, *, root_gone: str = refusals.ROOT_GONE) -> None:
        # What is told when the folder that the drive begins at is not shown any more.
        self.root_gone = root_gone
        self.state = HealthState.STARTING
        self.reason = ""
        self.since = clock.datetime_now(UTC)
        self._connection = (HealthState.STARTING, "")
        # What is asked before every request is kept, not worked out each time (`_settle`).
        # Whether a request has a chance: a service that failed one may well answer the next.
        self.can_ask = True
        # Whether what no program waits for may be asked for: it has a chance, and nobody paused it.
        self.may_work = True
        self._paused: str | None = None
        self._read_only: str | None = None
        self._rootless: str | None = None
        # Whether nothing at all may be changed.
        self.is_read_only = False
        self.requests: Counter[str] = Counter()
        self._subscribers: list[Callable[[], None]] = []
        self._changed = Signal()
        self._doubt = Signal()

    # ---- what others ask ----

    @property
    def is_online(self) -> bool:
        return self.state is HealthState.ONLINE

    @property
    def is_offline(self) -> bool:
        """Whether the service cannot be reached."""
        return self._connection[0] is HealthState.OFFLINE

    @property
    def is_refused(self) -> bool:
        """Whether the service does not accept the login, which only a person can mend."""
        return self._connection[0] is HealthState.UNAUTHORISED

    @property
    def is_paused(self) -> bool:
        return self._paused is not None

    def check(self) -> None:
        """Raise at once the `OSError` that a request would end with, if that is known already."""
        state, reason = self._connection
        if state is HealthState.OFFLINE:
            raise errno_map.oserror(errno.ENETDOWN, reason)
        if state is HealthState.UNAUTHORISED:
            raise errno_map.oserror(errno.EACCES, reason)

    async def changed(self) -> None:
        """Wait for the next change of state."""
        await self._changed.wait()

    async def reachable(self) -> None:
        """Wait until work that no program waits for may go on."""
        while not self.may_work:
            await self._changed.wait()

    def subscribe(self, heard: Callable[[], None]) -> None:
        """Have `heard` called at once after each change of state; it must not wait."""
        self._subscribers.append(heard)

    # ---- what it learns from ----

    @contextmanager
    def request(self, purpose: str) -> Iterator[None]:
        """One request: counted, and its outcome noted."""
        self.requests[purpose] += 1
        try:
            yield
        except errors.RemoteError as error:
            self.failed(error)
            raise
        if self._connection != _ANSWERING:
            self.answered()

    def answered(self) -> None:
        """The service did what it was asked."""
        self._become(*_ANSWERING)

    def failed(self, error: errors.RemoteError) -> None:
        """A request ended with this."""
        state = _state_of(error)
        if isinstance(error, errors.RootGone):
            self.begins(error.message)
        if state is HealthState.ONLINE:
            self.answered()
        elif state is HealthState.UNAUTHORISED:
            self._become(state, explain(error).message)
            self._doubt.set()
        else:
            # One broken connection is no outage: the probe finds out.
            self._doubt.set()

    def suspect(self) -> None:
        """Ask the service now; somebody has a reason to believe that things have changed."""
        self._doubt.set()

    # ---- what the person and the account say ----

    def asked_for(self) -> None:
        """A person asks how things are, or for something to be done: is the service back?"""
        if not self.can_ask:
            self.suspect()

    def pause(self, reason: str) -> None:
        """The person wants quiet; again: for another reason."""
        self._paused = reason
        self._settle()

    def resume(self) -> None:
        self._paused = None
        self._settle()

    def allow_changes(self, refusal: str | None) -> None:
        """Why nothing may be changed; None: it may."""
        self._read_only = refusal
        self._settle()

    def begins(self, refusal: str | None) -> None:
        """Why the drive begins nowhere at the service, so that nothing may be changed; None: it does."""
        if refusal is not None and self._rootless is None:
            log.warning("%s", refusal)
        self._rootless = refusal
        self._settle()

    def _become(self, state: HealthState, reason: str) -> None:
        before, self._connection = self._connection[0], (state, reason)
        self._settle(tell=state is not before)

    def _settle(self, *, tell: bool = False) -> None:
        """Make of all that is known the one state that is shown, and tell if it, or the connection, is
        another one."""
        self.is_read_only = self._read_only is not None or self._rootless is not None
        state, reason = self._connection
        self.can_ask = state not in (HealthState.OFFLINE, HealthState.UNAUTHORISED)
        self.may_work = self.can_ask and self._paused is None
        if self._paused is not None:
            state, reason = HealthState.PAUSED, self._paused
        elif (refusal := self._rootless or self._read_only) is not None and state is HealthState.ONLINE:
            state, reason = HealthState.READ_ONLY, refusal
        self.reason = reason
        if state is not self.state:
            log.info("the drive is now %s (was %s): %s", state, self.state, reason or "no problems")
            self.state, self.since = state, clock.datetime_now(UTC)
        elif not tell:
            return
        # atomic: whoever is woken sees the new state
        self._changed.pulse()
        for heard in self._subscribers:
            heard()

    # ---- the probe ----

    async def run(self, probe: Callable[[], Awaitable[object]]) -> None:
        """Ask `probe` whenever there is doubt, and go on until the service answers; for ever."""
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            wait = FIRST_PROBE_SECONDS
            while not await self._probe(probe):
                with trio.move_on_after(wait * chance.uniform(0.7, 1.3)):
                    await self._doubt.wait()
                    # Told to look now; but not more often than this, however many failures are told.
                    await trio.sleep(FIRST_PROBE_SECONDS)
                self._doubt.clear()
                wait = min(wait * 2, LONGEST_PROBE_SECONDS)

    async def _probe(self, probe: Callable[[], Awaitable[object]]) -> bool:
        self.requests["probe"] += 1
        try:
            with trio.fail_after(PROBE_DEADLINE_SECONDS):
                await probe()
        except errors.RemoteError as error:
            state, reason = _state_of(error), explain(error).message
        except trio.TooSlowError:
            state, reason = HealthState.OFFLINE, "The service did not answer in time."
        else:
            state, reason = _ANSWERING
        self._become(state, reason)
        return state is HealthState.ONLINE  # whatever is shown


def _state_of(error: errors.RemoteError) -> HealthState:
    """What the failure of a request, taken as a probe, says of the service."""
    match error:
        case errors.Offline() | errors.RemoteTimeout():
            return HealthState.OFFLINE
        case errors.OAuthError() | errors.TokensLocked() | errors.Unauthorized():
            return HealthState.UNAUTHORISED
        case errors.NotShown():
            return HealthState.ONLINE
        case errors.ServerError() | errors.ProtocolError():
            return HealthState.DEGRADED
        case _:
            return HealthState.ONLINE
