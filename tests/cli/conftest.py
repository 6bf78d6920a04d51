"""Fixtures for commands: a fake daemon's control socket, a server, a mountpoint."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pydantic
import pytest
import trio

from cmsfs import config, errors, mounts
from cmsfs.ipc import control
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from tests.support import forked
from tests.support.server_process import ServerProcess

Answers = Callable[[pydantic.BaseModel], list[pydantic.BaseModel | bytes]]


class SpokenTo:
    """Serves an account's control socket in a thread; `answers` returns the responses to a request."""

    def __init__(self, account: str, answers: Answers) -> None:
        paths = config.Paths(account)
        paths.ensure()
        self.account = account
        self.requests: list[pydantic.BaseModel] = []
        self._answers = answers
        # A socket's path is limited to 107 bytes; through a descriptor of its folder it is short enough.
        self._folder = os.open(paths.socket.parent, os.O_PATH)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"/proc/self/fd/{self._folder}/{paths.socket.name}")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rb") as lines:
                if not (line := lines.readline()):
                    return
                request = control.parse_request(line)
                self.requests.append(request)
                # The client may have closed the connection before the last response.
                with suppress(BrokenPipeError):
                    for answer in self._answers(request):
                        connection.sendall(answer if isinstance(answer, bytes) else control.encode(answer))

    def close(self) -> None:
        # A connection without a request tells the thread to stop.
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self._socket.getsockname())
        self._thread.join()
        self._socket.close()
        os.close(self._folder)


@pytest.fixture
def spoken_to() -> Iterator[Callable[..., SpokenTo]]:
    """`spoken_to(answers, account=..., mountpoint=..., pid=...)`: run the fake daemon; it answers pings by
    itself, each with the next of `stages`, then with the last."""
    opened: list[SpokenTo] = []

    def start(
        answers: Answers = lambda request: [],
        *,
        account: str = "default",
        mountpoint: str = "/mnt/drive",
        pid: int = 2**22 - 1,
        stages: tuple[control.Stage, ...] = ("mounted",),
    ) -> SpokenTo:
        left = list(reversed(stages))

        def all_answers(request: pydantic.BaseModel) -> list[pydantic.BaseModel | bytes]:
            if isinstance(request, control.Ping):
                stage = left.pop() if len(left) > 1 else left[0]
                return [
                    control.Pong(
                        pid=pid, version="0.1.0", account=account, mountpoint=mountpoint, stage=stage
                    )
                ]
            return answers(request)

        opened.append(SpokenTo(account, all_answers))
        return opened[-1]

    yield start
    for daemon in opened:
        daemon.close()


def settings_of(server: ServerProcess, secret: Path, **settings: str) -> str:
    """Return configuration lines for a server; write its secret to `secret`."""
    secret.write_text(server.credentials["client_secret"])
    values = {
        "profile": "specification",
        "base_url": server.url + "/2.0",
        "upload_url": server.url + "/api/2.0",
        "auth_url": server.url,
        "client_id": server.credentials["client_id"],
        "client_secret_file": str(secret),
        "subject_id": server.credentials["user_id"],
    } | settings
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cmsfs", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def cmsfs() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a shell does."""
    return _run


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """`serving(*options)`: the embedded service on a free port of this machine; `log` is its log file.

    Each has a data folder of its own, unless one is given.
    """
    servers: list[ServerProcess] = []

    def start(*options: str | Path, log: Path | None = None, data: Path | None = None) -> ServerProcess:
        data = data or tmp_path / f"service{len(servers) or ''}"
        servers.append(ServerProcess(data, *options, log=log).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(serving: Callable[..., ServerProcess]) -> ServerProcess:
    """The embedded service, with its sample."""
    return serving()


@pytest.fixture
def app(server: ServerProcess) -> Path:
    """The application of the service, as a file."""
    return server.data / "credentials.json"


@pytest.fixture
def person(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`person(action)`: set what the user does at the browser (default: `grant`)."""

    def sit(action: str = "grant", login: str = "ben@example.com") -> None:
        password = tmp_path / "password"
        password.write_text(server.credentials["passwords"][login])
        browser = tmp_path / "browser"
        words = f'set -- "$1" {login} {password} {action}'
        browser.write_text(f"#!/bin/sh\n{words}\n{forked.script(forked.PERSON)}\n")
        browser.chmod(0o700)
        monkeypatch.setenv("BROWSER", f"{browser} %s &")

    sit()
    return sit


@pytest.fixture
def account(private_folders: Path) -> Callable[..., Path]:
    """`account(server, **settings)`: configure the default account for a server; return the secret's file."""

    def configure(server: ServerProcess, **settings: str) -> Path:
        folder = private_folders / "config" / "cmsfs"
        folder.mkdir(parents=True, exist_ok=True)
        secret = folder / "secret"
        (folder / "config.toml").write_text(settings_of(server, secret, **settings), encoding="utf-8")
        return secret

    return configure


@pytest.fixture
def fuse() -> None:
    """Skip the test if this user cannot mount."""
    try:
        mounts.require_fuse()
    except errors.UserError as error:
        pytest.skip(error.message)


@pytest.fixture
def mountpoint(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; a mount that the test leaves there is removed, with its daemon."""
    place = tmp_path / "drive"
    place.mkdir()
    yield place
    if mounts.find(place):
        _run("umount", "--force", "--drain", "0", place)
    while mounts.find(place):
        mounts.detach(place)


@pytest.fixture
def sample() -> None:
    """Set up the embedded service with its sample, as after a first `cmsfs demo`."""

    async def fill() -> None:
        async with store.open_store(config.service_data(config.load())) as opened:
            await demo.ensure_sample(opened)

    trio.run(fill)


@pytest.fixture
def leftovers(private_folders: Path, tmp_path: Path) -> Callable[[], list[str]]:
    """Return processes, mounts and listeners that a command left behind."""

    def find() -> list[str]:
        marker = f"XDG_STATE_HOME={private_folders / 'state'}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                # /proc shows this process's own environment as it was at its start.
                if marker in (process / "environ").read_bytes().split(b"\0"):
                    found.append(f"process {process.name}")
            except OSError:
                continue  # it ended, or is another user's
        found += [
            f"mount {m.mountpoint}" for m in mounts.listing() if m.mountpoint.startswith(f"{tmp_path}/")
        ]
        found += [f"socket {path}" for path in config.Paths("any").runtime.glob("*.sock")]
        return found

    return find
