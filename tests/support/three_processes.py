"""Three processes of the service behind a front: they share a PostgreSQL database and a bucket alone.

`Engines` are what they share, for a whole run; `ThreeProcesses` is used as a `ServerProcess` is.
"""

import json
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store
from tests.support import front, postgres_server, recorded, s3_server
from tests.support.postgres_server import PostgresServer
from tests.support.s3_server import S3Server
from tests.support.server_process import ServerProcess

PROCESSES = 3


def lacks() -> str | None:
    """Return why they cannot run here; None if they can."""
    if s3_server.program() is None:
        return "juicefs, whose gateway serves S3, is missing"
    return postgres_server.lacks()


@dataclass(frozen=True)
class Engines:
    """A PostgreSQL server and an S3 server; `place` returns where another service keeps what it has."""

    postgres: PostgresServer
    s3: S3Server
    numbers: Iterator[int]

    def place(self) -> tuple[str, str]:
        """Return the URLs of a new database and of a new prefix."""
        return self.postgres.database(), f"s3://{s3_server.BUCKET}/service-{next(self.numbers)}"


@contextmanager
def engines(folder: Path) -> Iterator[Engines]:
    """Run both; the keys of the bucket are in the environment for the duration of the context."""
    with (
        postgres_server.running() as postgres,
        s3_server.running(folder) as s3,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        yield Engines(postgres, s3, count(1))


async def _make_sample(root: Path, place: tuple[str, str]) -> None:
    database_url, blobs_url = place
    async with store.open_store(root, blobs_url, database_url=database_url) as opened:
        await demo.ensure_sample(opened)


class ThreeProcesses:
    """The processes, each with a folder of its own below `data`.

    They serve what is at `place`; without one, the sample, which is made first.  The front has TLS with a
    `context`, and tells `record` what goes through it; it is in this process if a place is given.
    """

    def __init__(
        self,
        data: Path,
        shared: Engines,
        *options: str | Path,
        place: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        record: Callable[[front.Passed], None] | None = None,
        seed: int = 1,
    ) -> None:
        self.data = data
        self.place = place or shared.place()
        self._is_own = place is None
        self.front = front.Front(seed, record)
        self._shared = shared
        self._options = ("--database", self.place[0], "--blobs", self.place[1], *options)
        self._context = context
        self._stack = ExitStack()
        self.servers: list[ServerProcess] = []

    def start(self) -> "ThreeProcesses":
        """Start them and return when all are ready."""
        self.data.mkdir(parents=True, exist_ok=True)
        try:
            tell = self._start_all()
        except BaseException as error:
            self.remove()
            raise AssertionError(self.logs()) from error
        self.front.ports = [server.port for server in self.servers]
        tell()
        return self

    def _start_all(self) -> Callable[[], None]:
        with ThreadPoolExecutor(PROCESSES) as pool:
            if self._is_own and not (self.data / "credentials.json").exists():
                pool.submit(trio.run, _make_sample, self.data, self.place).result()
            tell = self._open_front()
            options = (*self._options, "--public-url", self.url)
            self.servers = [
                ServerProcess(self.data / str(number), *options, log=self.data / f"log {number}")
                for number in range(PROCESSES)
            ]
            list(pool.map(ServerProcess.start, self.servers))
        return tell

    def _open_front(self) -> Callable[[], None]:
        if self._is_own:
            return self._stack.enter_context(front.in_process(self.front))
        self._stack.enter_context(front.in_thread(self.front, self._context))
        return lambda: None

    @property
    def url(self) -> str:
        return f"http{'' if self._context is None else 's'}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port of the front."""
        return self.front.port

    @property
    def credentials(self) -> dict[str, Any]:
        """Those of the sample's application and of its users."""
        found: dict[str, Any] = json.loads((self.data / "credentials.json").read_text(encoding="utf-8"))
        return found

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.data.glob("log *")))

    def stop(self) -> int:
        """End them; the worst exit code.  They may be started again, at the same address."""
        self._stack.close()
        code = max([server.stop() for server in self.servers], default=0)
        self.servers = []
        return code

    def remove(self) -> int:
        """End them for good, and drop a database of their own; the worst exit code."""
        code = self.stop()
        if self._is_own:
            self._shared.postgres.drop(self.place[0])
        return code


def installed(
    request: pytest.FixtureRequest, shared: Engines, patch: pytest.MonkeyPatch
) -> Iterator[dict[Path, str]]:
    """Put every store that the test opens there; what it serves, three processes do.

    Yields the URLs of the databases.  A test that has the fixture `exchanges` finds there what went through
    the front.
    """
    places: dict[Path, tuple[str, str]] = {}
    urls: dict[Path, str] = {}
    shipped = store.open_store

    def open_store(root: Path, blobs_url: str | None = None, **options: Any) -> Any:
        if root not in places:
            places[root] = shared.place()
            urls[root] = places[root][0]
        return shipped(root, blobs_url or places[root][1], **({"database_url": urls[root]} | options))

    def record(passed: front.Passed) -> None:
        if "exchanges" in request.fixturenames and (one := recorded.passed(passed)) is not None:
            request.getfixturevalue("exchanges").append(one)

    async def serve_apart(
        opened: store.Store,
        *,
        port: int,
        certfile: Path | None = None,
        keyfile: Path | None = None,
        task_status: trio.TaskStatus[str],
    ) -> None:
        context = None
        if certfile is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certfile, keyfile)
        folder = opened.root.with_name(f"{opened.root.name}-processes")
        made = ThreeProcesses(folder, shared, place=places[opened.root], context=context, record=record)
        await trio.to_thread.run_sync(made.start)
        try:
            task_status.started(made.url)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                code = await trio.to_thread.run_sync(made.stop)
            assert code == 0, made.logs()

    patch.setattr(store, "open_store", open_store)
    patch.setattr(serve, "serve", serve_apart)
    yield urls
    for url in urls.values():
        shared.postgres.drop(url)
