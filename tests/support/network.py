"""The network between drive and service: a test can cut it, delay requests, or damage bodies."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import trio

# Longer chunks of a body belong to a file.
DAMAGED_FROM = 2000


class Broken(httpx.AsyncByteStream):
    """A body that ends after so many bytes, with an error if given; or one with a wrong byte."""

    def __init__(self, inner: Any, after: int, error: Exception | None, *, flip: bool) -> None:
        self.inner = inner
        self._after = after
        self._error = error
        self._flip = flip

    async def __aiter__(self) -> AsyncIterator[bytes]:
        passed = 0
        async for chunk in self.inner:
            if self._flip and passed <= self._after < passed + len(chunk):
                place = self._after - passed
                chunk = chunk[:place] + bytes([chunk[place] ^ 1]) + chunk[place + 1 :]
            elif not self._flip and passed + len(chunk) > self._after:
                yield chunk[: self._after - passed]
                if self._error is not None:
                    raise self._error
                return
            passed += len(chunk)
            yield chunk
        if self._error is not None and not self._flip and passed == self._after:
            raise self._error

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass
class _Gate:
    method: str
    part: str
    before: bool
    arrived: trio.Event = field(default_factory=trio.Event)
    go: trio.Event = field(default_factory=trio.Event)


class Network(httpx.AsyncBaseTransport):
    """A transport to the service that can be cut, lose a response, or hold a request at a gate."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.is_down = False
        # A hook that may answer in place of the service.
        self.instead: Callable[[httpx.Request], httpx.Response | None] | None = None
        self.requests: list[tuple[str, str]] = []
        self._lost: list[tuple[str, str]] = []
        self._bodies: list[tuple[int, Exception | None, bool]] = []
        self._gates: list[_Gate] = []
        self._damaged: list[tuple[str, str]] = []
        self._damaged_answers: list[tuple[str, str]] = []

    def lose_answer(self, method: str, part: str) -> None:
        """Carry out the next request of this method with this part in its path, but lose its response."""
        self._lost.append((method, part))

    def break_body(self, after: int, error: Exception | None = None, *, flip: bool = False) -> None:
        """End the next download after so many bytes, or flip a bit in the byte after them."""
        self._bodies.append((after, error, flip))

    def gate(self, method: str, part: str, *, before: bool = False) -> tuple[trio.Event, trio.Event]:
        """Hold the next such request after (or `before`) it is carried out; return the events (held,
        release)."""
        gate = _Gate(method, part, before)
        self._gates.append(gate)
        return gate.arrived, gate.go

    def damage(self, method: str, part: str) -> None:
        """Change one byte in the body of the next such request."""
        self._damaged.append((method, part))

    def damage_answer(self, method: str, part: str) -> None:
        """Change one byte in the response body of the next such request."""
        self._damaged_answers.append((method, part))

    async def _wait(self, method: str, path: str, *, before: bool) -> None:
        for gate in self._gates:
            if gate.method == method and gate.part in path and gate.before is before:
                self._gates.remove(gate)
                gate.arrived.set()
                await gate.go.wait()
                return

    def count(self, method: str, part: str) -> int:
        return sum(1 for one, path in self.requests if one == method and part in path)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("the cable is cut")
        path = request.url.raw_path.decode()
        self.requests.append((request.method, path))
        if self.instead is not None and (answer := self.instead(request)) is not None:
            return answer
        await self._wait(request.method, path, before=True)
        if _taken(self._damaged, request.method, path):
            request.stream = _Damaged(request.stream)
        response = await self.inner.handle_async_request(request)
        if _taken(self._damaged_answers, request.method, path):
            response.stream = _Damaged(response.stream)
        for lost in self._lost:
            if lost[0] == request.method and lost[1] in path:
                self._lost.remove(lost)
                await response.aclose()
                raise httpx.ReadError("the answer was lost")
        await self._wait(request.method, path, before=False)
        if self._bodies and request.method == "GET" and "/content" in path:
            after, error, flip = self._bodies.pop(0)
            response.stream = Broken(response.stream, after, error, flip=flip)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


def _taken(wanted: list[tuple[str, str]], method: str, path: str) -> bool:
    for one in wanted:
        if one[0] == method and one[1] in path:
            wanted.remove(one)
            return True
    return False


class _Damaged(httpx.AsyncByteStream):
    """A body with one byte changed in its first chunk of file contents."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._done = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.inner:
            if not self._done and len(piece) > DAMAGED_FROM:
                self._done = True
                piece = piece[:-1] + bytes([piece[-1] ^ 1])
            yield piece

    async def aclose(self) -> None:
        await self.inner.aclose()
