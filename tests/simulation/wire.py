"""The network between a machine and the service: slow, failing and lying, as the story's chance has it."""

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

# A connection that says nothing is given up by httpx after so long.
SILENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Weather:
    """How often what happens to a request; all of it to none is a good day."""

    unreached: float = 0.0  # refused, or broken before anything arrived
    cut_upload: float = 0.0  # broken in the middle of its body
    lost: float = 0.0  # carried out, and nobody hears
    cut_answer: float = 0.0  # the answer's body breaks off, or ends early
    silent: float = 0.0  # nothing comes, and nothing breaks; carried out or not
    refused: float = 0.0  # 429 with Retry-After
    failed: float = 0.0  # 5xx, carried out or not
    expired: float = 0.0  # 401
    latency: float = 0.02

    @classmethod
    def of(cls, faults: float, latency: float) -> "Weather":
        """So often something happens to a request, and it takes so long."""
        one = faults / 8
        return cls(one, one, one, one, one / 4, one, one, one / 2, latency=latency)


class Wire(httpx.AsyncBaseTransport):
    """The way to the service; `inner` gives what is there of it now, None while it is not."""

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
        self.weather = Weather()
        self.is_down = False
        self.next: list[str] = []  # what happens to the requests to come, whatever the weather
        self.faults: Counter[str] = Counter()
        self.changes = 0  # requests that were to change something
        self.requests = 0
        # Told of each answer; and of requests for tokens, 1 that it is carried out, -1 that it was refused.
        self.answered: Callable[[], None] = lambda: None
        self.tokens_asked: Callable[[int], None] = lambda count: None
        self.liar = Liar(random.Random(f"{world.seed} {name} lies"), self.faults)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        path = request.url.raw_path.decode().partition("?")[0]
        is_change = request.method in ("POST", "PUT", "DELETE") and "oauth2" not in path
        is_question = request.headers.get("if-match") == offers.NEVER["if-match"]
        try:
            response = await self._exchange(request)
        except httpx.HTTPError as error:
            self.changes += is_change
            self._world.note(f"{request.method} {path}: {type(error).__name__}")
            raise
        # What the service offers is found out by changes that it refuses.
        self.changes += is_change and not (is_question and response.is_client_error)
        self._world.note(f"{request.method} {path}: {response.status_code}")
        self.answered()
        return response

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        weather, chance = self.weather, self._chance
        await self._pass(weather)
        if (inner := self._inner()) is None or self.is_down:
            raise httpx.ConnectError("the service cannot be reached")
        is_token = "oauth2" in request.url.path
        kind = self._drawn(weather)
        if kind is not None:
            self.faults[kind] += 1
        match kind:
            case "unreached":
                raise httpx.ConnectError("refused") if chance.random() < 0.5 else httpx.WriteError("reset")
            case "refused":
                seconds = str(chance.choice([1, 2, 10]))
                return _answer(429, {"retry-after": seconds}, "rate_limit_exceeded")
            case "expired" if not is_token:
                return _answer(401, {"www-authenticate": "Bearer"}, "unauthorized")
            case "failed" if chance.random() < 0.5:
                return _answer(chance.choice([500, 502, 503]), {}, "internal_server_error")
            case "silent" if chance.random() < 0.5:
                await trio.sleep(SILENT_SECONDS)
                raise httpx.ReadTimeout("nothing came")
            case "cut_upload":
                request.stream = _Cut(request.stream, chance, httpx.WriteError("reset"))
        self.liar.damage_request(request)
        if is_token:
            self.tokens_asked(1)
        response = await inner.handle_async_request(request)
        if self._inner() is not inner:
            # What it did after it was killed reaches nobody, and that may be what it answers.
            await response.aclose()
            raise httpx.ReadError("the service has ended")
        response = await self.liar.answered(request, response)
        if is_token and response.is_client_error:
            self.tokens_asked(-1)
        await self._pass(weather)
        if self.is_down:
            kind = "lost"
        match kind:
            case "lost" | "silent" | "failed":
                await response.aclose()
                if kind == "silent":
                    await trio.sleep(SILENT_SECONDS)
                    raise httpx.ReadTimeout("nothing came")
                if kind == "failed":
                    return _answer(chance.choice([500, 502, 503, 504]), {}, "internal_server_error")
                raise httpx.ReadError("the answer was lost")
            case "cut_answer":
                error = httpx.ReadError("reset") if chance.random() < 0.5 else None
                response.stream = _Cut(response.stream, chance, error)
        return response

    async def _pass(self, weather: Weather) -> None:
        if weather.latency:
            await trio.sleep(self._chance.expovariate(1 / weather.latency))

    def _drawn(self, weather: Weather) -> str | None:
        if self.next:
            return self.next.pop(0)
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
        ):
            drawn -= getattr(weather, name)
            if drawn < 0:
                return name
        return None


class _Cut(httpx.AsyncByteStream):
    """A body that goes no further than some of its bytes."""

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


def _answer(status: int, headers: dict[str, str], code: str) -> httpx.Response:
    body = json.dumps({"type": "error", "status": status, "code": code, "message": code}).encode()
    return httpx.Response(status, headers={"content-type": "application/json", **headers}, content=body)
