"""The connection state machine (online, offline, ...), driven by the outcomes of requests.

Requests determine the state of the connection, the user a pause, and the account whether the drive is
read-only.  A pause hides the other states, a connection problem hides "read-only".

Every request of the daemon runs inside `request(purpose)`, which counts it and records its outcome.  A
failure that may be the connection's triggers a probe at once; the probe decides, and repeats until the
service answers. So waiters learn of an outage within the time of one refused connection, and recovery is
automatic.

Rule: any answer of the service, even the refusal of a request, counts as healthy.
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

# Probe interval with backoff: a laptop back on its network is online again within a second or two; a service
# that is down for the night is probed twice a minute.
FIRST_PROBE_SECONDS = 1.0
LONGEST_PROBE_SECONDS = 30.0

# A probe is a tiny request; a service that takes longer for it is of no use to a reader either.
PROBE_DEADLINE_SECONDS = 6.0


class HealthState(enum.StrEnum):
    """The state that `cmsfs status` shows."""

    STARTING = "starting"  # no request has ended yet
    ONLINE = "online"
    OFFLINE = "offline"  # no connection, or no answer
    UNAUTHORISED = "unauthorised"  # credentials or token rejected
    DEGRADED = "degraded"  # it answers with errors
    READ_ONLY = "read-only"  # the account, or the settings, allow no changes
    PAUSED = "paused"  # the user allows only requests that a program waits for


# The state of the connection after a successful request.
_ANSWERING = (HealthState.ONLINE, "")


class Health:
    """The state, its reason and start; and the number of requests by purpose."""

    def __init__(self, *, root_gone: str = refusals.ROOT_GONE) -> None:
        # The message if the folder at the root of the drive is not accessible any more.
        self.root_gone = root_gone
        self.state = HealthState.STARTING
        self.reason = ""
        self.since = clock.datetime_now(UTC)
        self._connection = (HealthState.STARTING, "")
        # These flags are read before every request, so they are cached, not computed (`_settle`).
        # Whether a request may succeed: a service that failed one may well answer the next.
        self.can_ask = True
        # Whether background requests are allowed: they may succeed, and the user has not paused the drive.
        self.may_work = True
        self._paused: str | None = None
        self._read_only: str | None = None
        self._rootless: str | None = None
        # Whether no changes at all are allowed.
        self.is_read_only = False
        self.requests: Counter[str] = Counter()
        self._subscribers: list[Callable[[], None]] = []
        self._changed = Signal()
        self._doubt = Signal()

    # ---- queries ----

    @property
    def is_online(self) -> bool:
        return self.state is HealthState.ONLINE

    @property
    def is_offline(self) -> bool:
        """Whether the service is unreachable."""
        return self._connection[0] is HealthState.OFFLINE

    @property
    def is_refused(self) -> bool:
        """Whether the service rejects the login, which only the user can fix."""
        return self._connection[0] is HealthState.UNAUTHORISED

    @property
    def is_paused(self) -> bool:
        return self._paused is not None

    def check(self) -> None:
        """Raise at once the `OSError` with which a request would fail, if that is known."""
        state, reason = self._connection
        if state is HealthState.OFFLINE:
            raise errno_map.oserror(errno.ENETDOWN, reason)
        if state is HealthState.UNAUTHORISED:
            raise errno_map.oserror(errno.EACCES, reason)

    async def changed(self) -> None:
        """Wait for the next change of state."""
        await self._changed.wait()

    async def reachable(self) -> None:
        """Wait until background work may continue."""
        while not self.may_work:
            await self._changed.wait()

    def subscribe(self, heard: Callable[[], None]) -> None:
        """Call `heard` synchronously after each change of state; it must not block."""
        self._subscribers.append(heard)

    # ---- outcomes of requests ----

    @contextmanager
    def request(self, purpose: str) -> Iterator[None]:
        """Count one request and record its outcome."""
        self.requests[purpose] += 1
        try:
            yield
        except errors.RemoteError as error:
            self.failed(error)
            raise
        if self._connection != _ANSWERING:
            self.answered()

    def answered(self) -> None:
        """Record a successful request."""
        self._become(*_ANSWERING)

    def failed(self, error: errors.RemoteError) -> None:
        """Record a failed request."""
        state = _state_of(error)
        if isinstance(error, errors.RootGone):
            self.begins(error.message)
        if state is HealthState.ONLINE:
            self.answered()
        elif state is HealthState.UNAUTHORISED:
            self._become(state, explain(error).message)
            self._doubt.set()
        else:
            # One broken connection is no outage: let the probe decide.
            self._doubt.set()

    def suspect(self) -> None:
        """Probe now; the caller has a reason to believe that the state has changed."""
        self._doubt.set()

    # ---- settings of the user and the account ----

    def asked_for(self) -> None:
        """Probe if the service is unreachable: the user asks for the status or an action."""
        if not self.can_ask:
            self.suspect()

    def pause(self, reason: str) -> None:
        """Pause the drive; called again, change the reason."""
        self._paused = reason
        self._settle()

    def resume(self) -> None:
        self._paused = None
        self._settle()

    def allow_changes(self, refusal: str | None) -> None:
        """Set the reason why no changes are allowed; None: they are."""
        self._read_only = refusal
        self._settle()

    def begins(self, refusal: str | None) -> None:
        """Set the reason why the root folder is missing at the service, so that no changes are allowed; None:
        it is there."""
        if refusal is not None and self._rootless is None:
            log.warning("%s", refusal)
        self._rootless = refusal
        self._settle()

    def _become(self, state: HealthState, reason: str) -> None:
        before, self._connection = self._connection[0], (state, reason)
        self._settle(tell=state is not before)

    def _settle(self, *, tell: bool = False) -> None:
        """Determine the one state to show, and notify subscribers if it, or the connection, has changed."""
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
        # atomic: woken tasks see the new state
        self._changed.pulse()
        for heard in self._subscribers:
            heard()

    # ---- the probe ----

    async def run(self, probe: Callable[[], Awaitable[object]]) -> None:
        """Call `probe` on suspicion, and repeat until the service answers; forever."""
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            wait, was_refused = FIRST_PROBE_SECONDS, False
            while not await self._probe(probe):
                if self.is_refused and not was_refused:
                    # Not to be taken for a login that has ended: after an outage the token of a first request
                    # may be out of date, and the one that it got then as well (a machine that sleeps).
                    wait = FIRST_PROBE_SECONDS
                was_refused = self.is_refused
                with trio.move_on_after(wait * chance.uniform(0.7, 1.3)):
                    await self._doubt.wait()
                    # Probe now, but not more often than this, however many failures are reported.
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
        return state is HealthState.ONLINE  # whatever state is shown


def _state_of(error: errors.RemoteError) -> HealthState:
    """Return the state that the failure of a probe implies."""
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
