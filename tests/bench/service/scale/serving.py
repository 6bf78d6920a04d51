"""The stores of both engines, the processes that serve them, and their processor time and memory."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from cmsfs.service.storage import store
from tests.bench.service import hello
from tests.bench.service.scale import stores
from tests.support.postgres_server import PostgresServer
from tests.support.server_process import ServerProcess

USERS = 1000


@dataclass(frozen=True, slots=True)
class Kept:
    """A store that is kept for the next run; `facts` is the result of `stores.make`."""

    root: Path
    database_url: str | None
    facts: dict[str, Any]


class Services:
    """Serves the stores of a run, one at a time."""

    def __init__(self, cache: Path, items: int) -> None:
        self._cache, self._items = cache, items
        self._server: PostgresServer | None = None
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    def kept(self, engine: str) -> Kept:
        """Return the store of an engine; create it if there is none."""
        name = f"{engine}_{self._items}_{store.VERSION}"
        root, said = self._cache / name, self._cache / f"{name}.json"
        url = None
        if engine == "postgres":
            self._server = self._server or self._stack.enter_context(stores.server(self._cache / "pg"))
            url = self._server.url(name)
        if not said.exists():
            shutil.rmtree(root, ignore_errors=True)
            if self._server is not None and url is not None:
                self._server.drop(url)
                self._server.create(name)
            made = trio.run(lambda: stores.make(root, self._items, users=USERS, database_url=url))
            said.write_text(json.dumps(made))
        return Kept(root, url, json.loads(said.read_text()))

    @contextmanager
    def running(self, engine: str, processes: int) -> Iterator["Running"]:
        kept = self.kept(engine)
        options = () if kept.database_url is None else ("--database", kept.database_url)
        servers = [ServerProcess(kept.root, *options, env=os.environ.copy()) for _ in range(processes)]
        try:
            for server in servers:
                server.start()
            yield Running(kept, servers, None if kept.database_url is None else self._server)
        finally:
            for server in servers:
                server.stop()


class Running:
    """Processes that serve one store."""

    def __init__(self, kept: Kept, servers: list[ServerProcess], postgres: PostgresServer | None) -> None:
        self.kept = kept
        self.ports = [server.port for server in servers]
        self.pids = [server.process.pid for server in servers]
        self._postgres = postgres

    @property
    def facts(self) -> dict[str, Any]:
        return self.kept.facts

    def worked(self) -> tuple[float, float]:
        """Return the processor time of the service and of the database server in milliseconds."""
        service = sum(hello.processor(pid) for pid in self.pids)
        return service, 0.0 if self._postgres is None else hello.processor(self._postgres.pid)

    def memory(self) -> list[float]:
        """Return the memory of each process in megabytes."""
        found = []
        for pid in self.pids:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            found.append(int(fields["VmRSS"].split()[0]) / 1024)
        return found
