"""The network between a machine and the service: latency, failures and wrong responses, at random."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import trio

from cmsfs.client import offers
from tests.simulation.lies import Liar
from tests.simulation.world import World

# A silent connection times out in httpx after so long.
SILENT_SECONDS = 60.0

# The longest delay of a late response.
LATE_SECONDS = 25.0


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The probability of each fault per request, and the latency."""

    unreached: float = 0.0  # refused, or broken before anything arrived
    cut_upload: float = 0.0  # broken in the middle of its body
    lost: float = 0.0  # carried out, but the response is lost
    cut_answer: float = 0.0  # the response body breaks off, or ends early
    silent: float = 0.0  # no response and no error; carried out or not
    refused: float = 0.0  # 429 with Retry-After
    failed: float = 0.0  # 5xx, carried out or not
    expired: float = 0.0  # 401
    late: float = 0.0  # the response takes long, and others overtake it
    late_change: float = 0.0  # the same, of a request that changes something
    latency: float = 0.02

    @classmethod
    def of(cls, faults: float, latency: float, late_change: float) -> "NetworkConditions":
        """Return conditions with about this probability of a fault, and this latency."""
        one = faults / 8
        often = (one, one, one, one, one / 4, one, one, one / 2, one / 2)
        return cls(*often, late_change=late_change, latency=latency)


class Wire(httpx.AsyncBaseTransport):
    """A faulty transport to the service; `inner` returns the current transport, None while it is down."""

    is_direct = True

    def __init__(
        self,
        world: World,
        name: str,
        inner: Callable[[], httpx.AsyncBaseTransport | None],
        chance: random.Random,
    ) -> None:
        self._world = world
        self._inner = inner
        self._chance = chance
        self.conditions = NetworkConditions()
        self.is_down = False
        self.is_closed = False  # the service accepts no changes, as during maintenance
        self.forced: list[str] = []  # faults of the next requests, regardless of probability
        self.faults: Counter[str] = Counter()
        self.changes = 0  # requests that were to change something
        self.requests = 0
        self.under_way = 0  # requests without a response so far, but for those that wait for events
        self._accepted = ""  # the authorization that the service accepted last
        # Called at each response; and for each token request with 1 when sent, -1 when refused.
        self.on_response: Callable[[], None] = lambda: None
        self.on_token_request: Callable[[int], None] = lambda count: None
        self.liar = Liar(random.Random(f"{world.seed} {name} lies"), self.faults)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        path = request.url.raw_path.decode().partition("?")[0]
        is_change = request.method in ("POST", "PUT", "DELETE") and "oauth2" not in path
        is_question = request.headers.get("if-match") == offers.NEVER["if-match"]
        counts = not path.endswith("/events/wait")
        self.under_way += counts
        try:
            response = await self._exchange(request, is_change=is_change and not is_question)
        except httpx.HTTPError as error:
            self.changes += is_change
            self._world.note(f"{request.method} {path}: {type(error).__name__}")
            raise
        finally:
            self.under_way -= counts
        # Probes for supported features are sent as changes that the service refuses.
        self.changes += is_change and not (is_question and response.is_client_error)
        self._world.note(f"{request.method} {path}: {response.status_code}")
        self.on_response()
        return response

    async def _exchange(self, request: httpx.Request, *, is_change: bool) -> httpx.Response:
        conditions, chance = self.conditions, self._chance
        await self._delay(conditions)
        if (inner := self._inner()) is None or self.is_down:
            raise httpx.ConnectError("the service cannot be reached")
        if self.is_closed and is_change:
            return _error_response(503, {}, "unavailable")
        is_token = "oauth2" in request.url.path
        kind = self._draw_fault(conditions)
        authorization = request.headers.get("authorization", "")
        if kind == "expired" and (is_token or authorization != self._accepted):
            # Refused right after a renewal, the user would have to log in again.
            kind = None
        if kind is not None:
            self.faults[kind] += 1
        match kind:
            case "unreached":
                raise httpx.ConnectError("refused") if chance.random() < 0.5 else httpx.WriteError("reset")
            case "refused":
                seconds = str(chance.choice([1, 2, 10]))
                return _error_response(429, {"retry-after": seconds}, "rate_limit_exceeded")
            case "expired":
                return _error_response(401, {"www-authenticate": "Bearer"}, "unauthorized")
            case "failed" if chance.random() < 0.5:
                return _error_response(chance.choice([500, 502, 503]), {}, "internal_server_error")
            case "silent" if chance.random() < 0.5:
                await trio.sleep(SILENT_SECONDS)
                raise httpx.ReadTimeout("nothing came")
            case "cut_upload":
                request.stream = _Cut(request.stream, chance, httpx.WriteError("reset"))
        self.liar.damage_request(request)
        if is_token:
            self.on_token_request(1)
        response = await inner.handle_async_request(request)
        try:
            return await self._come_back(
                request, response, inner=inner, kind=kind, is_change=is_change, is_token=is_token
            )
        except BaseException:
            # Cancelled with the answer at hand: like a real transport, which would have closed it.
            await response.aclose()
            raise

    async def _come_back(
        self,
        request: httpx.Request,
        response: httpx.Response,
        *,
        inner: httpx.AsyncBaseTransport,
        kind: str | None,
        is_change: bool,
        is_token: bool,
    ) -> httpx.Response:
        """Return the answer as it arrives at the drive, or raise what that meets."""
        conditions, chance = self.conditions, self._chance
        authorization = request.headers.get("authorization", "")
        if self._inner() is not inner:
            # The service was killed meanwhile, so its response does not count.
            await response.aclose()
            raise httpx.ReadError("the service has ended")
        if not is_token and response.status_code != httpx.codes.UNAUTHORIZED:
            self._accepted = authorization
        response = await self.liar.falsify_response(request, response)
        if is_token and response.is_client_error:
            self.on_token_request(-1)
        await self._delay(conditions)
        is_late = is_change and conditions.late_change and chance.random() < conditions.late_change
        # What is silent takes no longer than that: then the service is waited for in vain.
        if kind == "late" or (is_late and kind != "silent"):
            await trio.sleep(chance.random() * LATE_SECONDS)
        if self.is_down:
            kind = "lost"
        match kind:
            case "lost" | "silent" | "failed":
                await response.aclose()
                if kind == "silent":
                    await trio.sleep(SILENT_SECONDS)
                    raise httpx.ReadTimeout("nothing came")
                if kind == "failed":
                    return _error_response(chance.choice([500, 502, 503, 504]), {}, "internal_server_error")
                raise httpx.ReadError("the answer was lost")
            case "cut_answer":
                error = httpx.ReadError("reset") if chance.random() < 0.5 else None
                response.stream = _Cut(response.stream, chance, error)
        return response

    async def _delay(self, conditions: NetworkConditions) -> None:
        if conditions.latency:
            await trio.sleep(self._chance.expovariate(1 / conditions.latency))

    def _draw_fault(self, conditions: NetworkConditions) -> str | None:
        if self.forced:
            return self.forced.pop(0)
        drawn = self._chance.random()
        for name in (
            "unreached",
            "cut_upload",
            "lost",
            "cut_answer",
            "silent",
            "refused",
            "failed",
            "expired",
            "late",
        ):
            drawn -= getattr(conditions, name)
            if drawn < 0:
                return name
        return None


class _Cut(httpx.AsyncByteStream):
    """A body that breaks off after some bytes."""

    def __init__(self, inner: Any, chance: random.Random, error: Exception | None) -> None:
        self._inner = inner
        self._chance = chance
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._chance.choice([0, 1, 100, 1000, 5000, 40_000, 200_000])
        async for piece in self._inner:
            if len(piece) > left:
                yield piece[:left]
                if self._error is not None:
                    raise self._error
                return
            left -= len(piece)
            yield piece
        if self._error is not None and not left:
            raise self._error

    async def aclose(self) -> None:
        await self._inner.aclose()


def _error_response(status: int, headers: dict[str, str], code: str) -> httpx.Response:
    body = json.dumps({"type": "error", "status": status, "code": code, "message": code}).encode()
    return httpx.Response(status, headers={"content-type": "application/json", **headers}, content=body)
