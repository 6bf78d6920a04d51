"""A login that several processes share, and what a crash between two refreshes leaves of it."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import keyring
import keyring.backend
import keyring.errors
import pydantic
import pytest
import trio

from cmsfs import config, errors
from cmsfs.auth import token_refresh, token_store
from cmsfs.client import session
from cmsfs.crashpoints import Point
from cmsfs.models.enterprise import tokens

URL = "https://service.test"


class Endpoint(httpx.AsyncBaseTransport):
    """A token endpoint whose refresh tokens r1, r2, ... are good once; the book of it is a file."""

    def __init__(self, book: Path) -> None:
        self._book = book

    async def handle_async_request(self, request):
        form = dict(pair.split("=") for pair in (await request.aread()).decode().split("&"))
        number = int(self._book.read_text())
        if form["refresh_token"] != f"r{number}":
            return httpx.Response(400, json={"error": "invalid_grant", "error_description": "used"})
        self._book.write_text(str(number + 1))
        made = {"access_token": f"a{number + 1}", "refresh_token": f"r{number + 1}", "expires_in": 3600}
        return httpx.Response(200, json=made)


class Slow(Endpoint):
    """One whose answers wait until they may go."""

    def __init__(self, book: Path) -> None:
        super().__init__(book)
        self.answered, self.go = trio.Event(), trio.Event()

    async def handle_async_request(self, request):
        answer = await super().handle_async_request(request)
        self.answered.set()
        await self.go.wait()
        return answer


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book"
    path.write_text("1")
    return path


@pytest.fixture
def keep(tmp_path):
    return token_store.FileTokenStore(tmp_path / "state" / "token")


def login(**fields):
    values = {"client_id": "c", "client_secret": "s", "refresh_token": "r1", "access_token": "a1"}
    return token_store.StoredLogin(**(values | {"expires_at": time.time() + 3600} | fields))


def opened(book):
    return session.open_client(session.ServiceEndpoints.of_server(URL), transport=Endpoint(book))


async def fetched(book, keep, tmp_path):
    async with opened(book) as client:
        return (
            await token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")()
        ).access_token.get_secret_value()


async def test_commands_share_the_access_token(book, keep, tmp_path):
    keep.write(login())
    assert await fetched(book, keep, tmp_path) == "a1"
    assert book.read_text() == "1"


async def test_expiring_token_is_refreshed_and_stored_first(book, keep, tmp_path):
    keep.write(login(expires_at=time.time() + 30))
    assert await fetched(book, keep, tmp_path) == "a2"
    assert (keep.read().refresh_token, keep.read().access_token) == ("r2", "a2")


async def test_many_at_once_refresh_once(book, keep, tmp_path):
    keep.write(login(expires_at=0))
    found = []
    async with opened(book) as client, trio.open_nursery() as nursery:

        async def one():
            fetch = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
            found.append((await fetch()).access_token.get_secret_value())

        for _ in range(6):
            nursery.start_soon(one)
    assert (found, book.read_text()) == (["a2"] * 6, "2")


async def test_abandoned_refresh_is_still_stored(book, keep, tmp_path):
    keep.write(login(expires_at=0))
    endpoint = Slow(book)
    async with (
        session.open_client(session.ServiceEndpoints.of_server(URL), transport=endpoint) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(token_refresh.refreshing_fetch(client, keep, tmp_path / "lock"))
        # The service has used up the old one, and its answer is on its way.
        await endpoint.answered.wait()
        nursery.cancel_scope.cancel()
        endpoint.go.set()
    assert (keep.read().refresh_token, keep.read().access_token) == ("r2", "a2")
    assert await fetched(book, keep, tmp_path) == "a2"


async def test_refused_token_is_refreshed_once(book, keep, tmp_path):
    keep.write(login())
    async with opened(book) as client:
        ours = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
        theirs = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
        for fetch in (ours, theirs):
            assert (await fetch()).access_token.get_secret_value() == "a1"
        for fetch in (ours, theirs):
            assert (await fetch()).access_token.get_secret_value() == "a2"
    assert book.read_text() == "2"


async def test_ended_or_missing_login_suggests_login(book, keep, tmp_path):
    with pytest.raises(errors.NeedsLogin, match="Nobody is logged in"):
        await fetched(book, keep, tmp_path)
    keep.write(login(refresh_token="r0", expires_at=0))
    with pytest.raises(errors.NeedsLogin, match="has ended"):
        await fetched(book, keep, tmp_path)


async def test_unstorable_token_is_used_and_stored_later(book, keep, tmp_path, expect_log):
    if os.geteuid() == 0:
        obstacle = tmp_path / "state" / "token.new"
        keep.write(login(expires_at=0))
        obstacle.mkdir()  # what is to be replaced cannot be removed
    else:
        keep.write(login(expires_at=0))
        obstacle = tmp_path / "state"
        obstacle.chmod(0o500)
    expect_log("new tokens cannot be kept")
    async with opened(book) as client:
        fetch = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
        assert (await fetch()).access_token.get_secret_value() == "a2"
        if os.geteuid() == 0:
            obstacle.rmdir()
        else:
            obstacle.chmod(0o700)
        assert (await fetch()).access_token.get_secret_value() == "a3"
    assert keep.read().refresh_token == "r3"


async def test_new_login_replaces_unstored_token(book, keep, tmp_path, expect_log, monkeypatch):
    keep.write(login(expires_at=0))
    expect_log("new tokens cannot be kept")
    async with opened(book) as client:
        fetch = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", _full_disk)
            assert (await fetch()).access_token.get_secret_value() == "a2"
        await token_refresh.renew(keep, login(access_token="anew"), tmp_path / "lock")
        assert (await fetch()).access_token.get_secret_value() == "anew"


def _full_disk(fd):
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_login_of_another_user_is_not_adopted(book, keep, tmp_path):
    keep.write(login(user_id="1"))
    async with opened(book) as client:
        fetch = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")
        await fetch()
        keep.write(login(user_id="2"))
        with pytest.raises(errors.NeedsLogin, match="Somebody else"):
            await fetch()
        keep.write(login(user_id="1", access_token="anew"))
        assert (await fetch()).access_token.get_secret_value() == "anew"


async def test_login_of_another_user_is_never_used(book, keep, tmp_path):
    """Not at a start, and not after a login that was kept when its user was not noted."""
    keep.write(login())
    async with opened(book) as client:
        fetch = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock", owner=lambda: "1")
        assert (await fetch()).access_token.get_secret_value() == "a1"
        keep.write(login(user_id="2", access_token="theirs"))
        with pytest.raises(errors.NeedsLogin, match="Somebody else"):
            await fetch()
        started = token_refresh.refreshing_fetch(client, keep, tmp_path / "lock", owner=lambda: "1")
        with pytest.raises(errors.NeedsLogin, match="Somebody else"):
            await started()
    assert book.read_text() == "1"


async def test_an_application_that_is_refused_is_said(keep, tmp_path):
    async def answer(request):
        return httpx.Response(401, json={"error": "invalid_client", "error_description": "its secret"})

    keep.write(login(expires_at=0))
    transport = httpx.MockTransport(answer)
    async with session.open_client(session.ServiceEndpoints.of_server(URL), transport=transport) as client:
        with pytest.raises(errors.NeedsLogin, match="--app FILE"):
            await token_refresh.refreshing_fetch(client, keep, tmp_path / "lock")()


async def test_token_file_without_user_is_accepted(book, keep, tmp_path):
    keep.write(login())
    path = tmp_path / "state" / "token"
    document = json.loads(path.read_text())
    del document["user_id"]
    path.write_text(json.dumps(document))
    assert keep.read() == login(expires_at=document["expires_at"])
    assert await fetched(book, keep, tmp_path) == "a1"


async def test_unusable_tokens_need_login_without_exit(book, keep, tmp_path):
    keep.write(login())
    path = tmp_path / "state" / "token"
    path.chmod(0o640)
    with pytest.raises(errors.NeedsLogin, match="Others can read"):
        await fetched(book, keep, tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(errors.TokensLocked, match="cannot be read"):
        await fetched(book, keep, tmp_path)


# ---- the end at a point ----

PROGRAM = """
import pathlib, sys, trio
sys.path.insert(0, sys.argv[4])
import importlib.util
spec = importlib.util.spec_from_file_location("of_the_test", sys.argv[1])
test = importlib.util.module_from_spec(spec); spec.loader.exec_module(test)
from cmsfs import config, crashpoints
from cmsfs.auth import token_store
crashpoints.arm(config.crash_plan())
here = pathlib.Path(sys.argv[2])
trio.run(test.fetched, here / "book", token_store.FileTokenStore(here / "state" / "token"), here)
"""


def crashed(tmp_path, point):
    plan = tmp_path / "plan"
    plan.write_text(f"{point.value} 1")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, __file__, tmp_path, "-", root],
        env=os.environ | {"CMSFS_CRASH_PLAN": str(plan)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


async def test_crash_after_storing_tokens_loses_nothing(book, keep, tmp_path):
    keep.write(login(expires_at=0))
    await trio.to_thread.run_sync(crashed, tmp_path, Point.TOKENS_KEPT)
    assert await fetched(book, keep, tmp_path) == "a2"
    keep.write(login(refresh_token=keep.read().refresh_token, expires_at=0))
    assert await fetched(book, keep, tmp_path) == "a3"


async def test_crash_before_store_leaves_whole_file(book, keep, tmp_path):
    keep.write(login(expires_at=0))
    await trio.to_thread.run_sync(crashed, tmp_path, Point.TOKENS_GIVEN)
    assert keep.read().refresh_token == "r1"
    with pytest.raises(errors.NeedsLogin, match="has ended"):
        await fetched(book, keep, tmp_path)


# ---- the places ----


def test_token_file_must_be_private(keep, tmp_path):
    keep.write(login())
    path = tmp_path / "state" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keep.read() == login(expires_at=keep.read().expires_at)
    path.chmod(0o640)
    with pytest.raises(errors.ConfigError, match="Others can read"):
        keep.read()
    path.chmod(0o600)
    path.write_text("{}")
    with pytest.raises(errors.ConfigError, match="no tokens"):
        keep.read()
    keep.clear()
    assert keep.read() is None


def test_token_file_is_fsynced_before_rename(keep, tmp_path, monkeypatch):
    keep.write(login())
    folder, done = tmp_path / "state", []
    synced, renamed = os.fsync, Path.rename

    def fsync(fd):
        size = os.fstat(fd).st_size
        done.append(("fsync", Path(f"/proc/self/fd/{fd}").readlink().name, size > 0))
        synced(fd)

    def rename(path, target):
        done.append(("rename", path.name, path.stat().st_size > 0))
        return renamed(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    keep.write(login(refresh_token="r2"))
    new = "token.new"
    assert done == [("fsync", new, True), ("rename", new, True), ("fsync", folder.name, True)]
    assert keep.read().refresh_token == "r2"


class Memory(keyring.backend.KeyringBackend):
    """A keyring of the library's kind that is no farther than this process."""

    priority = 5
    locked = False

    def __init__(self):
        super().__init__()
        self.entries = {}

    def _open(self):
        if self.locked:
            raise keyring.errors.KeyringLocked("dismissed")

    def get_password(self, service, username):
        self._open()
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        self._open()
        self.entries[service, username] = password

    def delete_password(self, service, username):
        self._open()
        if self.entries.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("not there")


@pytest.fixture
def ring():
    before, ring = keyring.get_keyring(), Memory()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_tokens_use_session_keyring(ring):
    keep = token_store.open_token_store(config.Settings(account="work"))
    assert isinstance(keep, token_store.KeyringTokenStore)
    assert keep.read() is None
    keep.write(login())
    assert json.loads(ring.entries["cmsfs", "work"])["refresh_token"] == "r1"
    assert keep.read().refresh_token == "r1"
    keep.clear()
    keep.clear()
    assert keep.read() is None


async def test_a_locked_keyring_is_no_missing_login(ring, book, tmp_path):
    keep = token_store.open_token_store(config.Settings())
    ring.locked = True
    with pytest.raises(errors.TokensLocked, match="unlock it"):
        await fetched(book, keep, tmp_path)
    assert isinstance(token_store.open_token_store(config.Settings()), token_store.FileTokenStore)


def test_secrets_are_not_shown():
    assert "r1" not in repr(login())
    assert "a1" not in repr(login())
    shown = tokens.Token(access_token=pydantic.SecretStr("a1"))
    assert "a1" not in repr(shown)
