"""How the agent gets on with the service: a small state machine fed by the outcomes of requests.

Every request of the agent runs inside `request(purpose)`, which counts it and learns from how it ends.  A
failure that may lie in the connection makes a probe run at once; the probe decides, and repeats until all
is well.  So whoever waits is told within the time of one refused connection, and recovery needs nobody.

Rule: an answer of the service, even a refusal of the one request, is a sign of health.
"""

import enum
import errno
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import trio

from cmsfs import errors
from cmsfs.auth.explain import explain
from cmsfs.vfs import oserrors

log = logging.getLogger(__name__)

# A laptop that comes back to its network is online again within a second or two; a service that is down
# for the night is asked twice a minute.
FIRST_PROBE_SECONDS = 1.0
LONGEST_PROBE_SECONDS = 30.0

# A probe is a tiny question; a service that takes longer for it is of no use to a reader either.
PROBE_DEADLINE_SECONDS = 6.0


class State(enum.StrEnum):
    """As `cmsfs status` shows it."""

    STARTING = "starting"  # nothing was asked yet
    ONLINE = "online"
    OFFLINE = "offline"  # no connection, or no answer
    UNAUTHORISED = "unauthorised"  # the credentials or the token are refused
    DEGRADED = "degraded"  # it answers, and fails


class Health:
    """The state, why, since when; and the counts of requests by purpose."""

    def __init__(self) -> None:
        self.state = State.STARTING
        self.reason = ""
        self.since = datetime.now(UTC)
        self.requests: Counter[str] = Counter()
        self._subscribers: list[Callable[[], None]] = []
        self._changed = trio.Event()
        self._doubt = trio.Event()

    # ---- what others ask ----

    @property
    def is_online(self) -> bool:
        return self.state is State.ONLINE

    @property
    def can_ask(self) -> bool:
        """Whether a request has a chance: a service that failed one may well answer the next."""
        return self.state not in (State.OFFLINE, State.UNAUTHORISED)

    def check(self) -> None:
        """Raise at once the `OSError` that a request would end with, if that is known already."""
        if self.state is State.OFFLINE:
            raise oserrors.oserror(errno.ENETDOWN, self.reason)
        if self.state is State.UNAUTHORISED:
            raise oserrors.oserror(errno.EACCES, self.reason)

    async def changed(self) -> None:
        """Wait for the next change of state."""
        await self._changed.wait()

    async def reachable(self) -> None:
        """Wait until a request has a chance."""
        while not self.can_ask:
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
        else:
            self.answered()

    def answered(self) -> None:
        """The service did what it was asked."""
        self._become(State.ONLINE, "")

    def failed(self, error: errors.RemoteError) -> None:
        """A request ended with this."""
        state = _state_of(error)
        if state is State.ONLINE:
            self.answered()
        elif state is State.UNAUTHORISED:
            self._become(state, explain(error).message)
            self._doubt.set()
        else:
            # One broken connection is no outage: the probe finds out.
            self._doubt.set()

    def suspect(self) -> None:
        """Ask the service now; somebody has a reason to believe that things have changed."""
        self._doubt.set()

    def _become(self, state: State, reason: str) -> None:
        if state is self.state:
            self.reason = reason
            return
        log.info("the connection is %s now, was %s: %s", state, self.state, reason or "all is well")
        self.state, self.reason, self.since = state, reason, datetime.now(UTC)
        # atomic: whoever waits on the old event sees the new state
        self._changed.set()
        self._changed = trio.Event()
        for heard in self._subscribers:
            heard()

    # ---- the probe ----

    async def run(self, probe: Callable[[], Awaitable[object]]) -> None:
        """Ask `probe` whenever there is doubt, and go on until the service answers; for ever."""
        while True:
            await self._doubt.wait()
            self._doubt = trio.Event()
            wait = FIRST_PROBE_SECONDS
            while not await self._probe(probe):
                with trio.move_on_after(wait * random.uniform(0.7, 1.3)):
                    await self._doubt.wait()
                    # Told to look now; but not more often than this, however many failures are told.
                    await trio.sleep(FIRST_PROBE_SECONDS)
                self._doubt = trio.Event()
                wait = min(wait * 2, LONGEST_PROBE_SECONDS)

    async def _probe(self, probe: Callable[[], Awaitable[object]]) -> bool:
        self.requests["probe"] += 1
        try:
            with trio.fail_after(PROBE_DEADLINE_SECONDS):
                await probe()
        except errors.RemoteError as error:
            state, reason = _state_of(error), explain(error).message
        except trio.TooSlowError:
            state, reason = State.OFFLINE, "The service did not answer in time."
        else:
            state, reason = State.ONLINE, ""
        self._become(state, reason)
        return state is State.ONLINE


def _state_of(error: errors.RemoteError) -> State:
    """What the failure of a request, taken as a probe, says of the service."""
    match error:
        case errors.Offline() | errors.RemoteTimeout():
            return State.OFFLINE
        case errors.OAuthError() | errors.TokensLocked() | errors.Unauthorized():
            return State.UNAUTHORISED
        case errors.ServerError() | errors.ProtocolError():
            return State.DEGRADED
        case _:
            return State.ONLINE
