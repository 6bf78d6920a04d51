"""The embedded service with an empty enterprise, and a small client that calls it in this process."""

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trio

from cmsfs.models.content import upload_sessions
from cmsfs.service.access import scopes
from cmsfs.service.oauth import access_tokens, clients, passwords
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app, serve
from cmsfs.service.storage import store
from cmsfs.service.uploads import upload_sessions as service_upload_sessions
from tests.support import openapi_check, postgres_server

if TYPE_CHECKING:
    from box_sdk_gen import BoxClient

SECRET = "a secret of the tests"
PASSWORD = "the password of uwe"
PASSWORD_HASH = passwords.hashed(PASSWORD)
UPLOADS = "http://service.test/api/2.0"
SESSIONS = f"{UPLOADS}/files/upload_sessions"

# Content of a multipart upload: two full parts and a shorter one.
PART = 1000
CONTENT = bytes(range(256)) * 10


class ServiceClient:
    """A client: paths are below the API's root, responses are httpx's."""

    def __init__(self, service: store.Store, user: int) -> None:
        self.store = service
        self.user = user
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app.build(service, "http://service.test")),
            base_url="http://service.test/2.0",
            event_hooks={"response": [openapi_check.check]},
            follow_redirects=True,  # a download is one
        )

    async def log_in(self) -> None:
        form = {
            "grant_type": "client_credentials",
            "client_id": "tests",
            "client_secret": SECRET,
            "service_subject_type": "user",
            "box_subject_id": str(self.user),
        }
        answer = await self.http.post("http://service.test/oauth2/token", data=form)
        assert answer.status_code == 200, answer.text
        self.http.headers["authorization"] = f"Bearer {answer.json()['access_token']}"

    async def oauth(self, form: dict[str, str], *, expect: int = 200) -> Any:
        """Return the token endpoint's response to a form with the application's credentials."""
        form = {"client_id": "tests", "client_secret": SECRET} | form
        answer = await self.http.post("http://service.test/oauth2/token", data=form)
        assert answer.status_code == expect, answer.text
        return answer.json()

    async def refused(self, form: dict[str, str], *, expect: int = 400) -> str:
        """Return the error of the token endpoint for a form."""
        body = await self.oauth(form, expect=expect)
        assert body.keys() == {"error", "error_description"}
        return str(body["error"])

    async def narrowed(self, *scopes: str, **form: str) -> str:
        """Exchange the caller's token for one with these scopes."""
        form |= {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": self.http.headers["authorization"].removeprefix("Bearer "),
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "scope": " ".join(scopes),
        }
        return str((await self.oauth(form))["access_token"])

    async def status(self, token: str, method: str = "GET", path: str = "/users/me", **options: Any) -> int:
        """Return the status of a request with this token."""
        headers = options.pop("headers", {}) | {"authorization": f"Bearer {token}"}
        return (await self.http.request(method, path, headers=headers, **options)).status_code

    async def ask(self, method: str, path: str, *, expect: int = 200, **options: Any) -> Any:
        """Return the decoded response, which must have this status."""
        answer = await self.http.request(method, path, **options)
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    async def folder(self, name: str, parent: str = "0") -> dict[str, Any]:
        body = {"name": name, "parent": {"id": parent}}
        return await self.ask("POST", "/folders", json=body, expect=201)

    async def link(self, name: str, parent: str = "0", url: str = "https://example.com/") -> dict[str, Any]:
        body = {"name": name, "parent": {"id": parent}, "url": url}
        return await self.ask("POST", "/web_links", json=body)

    @staticmethod
    def form(attributes: Any, content: bytes, *, boundary: str = "edge") -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of an upload."""
        text = attributes if isinstance(attributes, str) else json.dumps(attributes)
        body = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n{text}\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        ).encode() + content
        sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        headers = {"content-type": f"multipart/form-data; boundary={boundary}", "content-md5": sha1}
        return body + f"\r\n--{boundary}--\r\n".encode(), headers

    async def send(
        self, path: str, attributes: Any, content: bytes = b"", *, expect: int, **headers: str
    ) -> Any:
        """Upload, with additional headers."""
        body, needed = self.form(attributes, content)
        return await self.ask(
            "POST", f"{UPLOADS}{path}", content=body, headers=needed | headers, expect=expect
        )

    async def upload(
        self, name: str, content: bytes = b"", parent: str = "0", **attributes: Any
    ) -> dict[str, Any]:
        attributes |= {"name": name, "parent": {"id": parent}}
        return (await self.send("/files/content", attributes, content, expect=201))["entries"][0]

    async def version(self, wire_id: str, content: bytes, **attributes: Any) -> dict[str, Any]:
        return (await self.send(f"/files/{wire_id}/content", attributes, content, expect=200))["entries"][0]

    async def begin(
        self, name: str = "big.bin", size: int | None = None, *, expect: int = 201, folder: str = "0"
    ) -> Any:
        """Create an upload session, for CONTENT by default."""
        body = {"folder_id": folder, "file_size": len(CONTENT) if size is None else size, "file_name": name}
        return await self.ask("POST", SESSIONS, json=body, expect=expect)

    async def put(
        self, session: Any, offset: int, data: bytes | None = None, *, expect: int = 200, **more: Any
    ) -> Any:
        """Upload a part; `more` are headers, or the `total` size."""
        data = CONTENT[offset : offset + PART] if data is None else data
        total = more.pop("total", len(CONTENT))
        headers = {
            "digest": upload_sessions.digest(hashlib.sha1(data, usedforsecurity=False).digest()),
            "content-range": f"bytes {offset}-{offset + len(data) - 1}/{total}",
        } | {name.replace("_", "-"): value for name, value in more.items()}
        headers = {name: value for name, value in headers.items() if value}
        url = f"{SESSIONS}/{session['id']}"
        return await self.ask("PUT", url, content=data, headers=headers, expect=expect)

    async def put_all(self, session: Any) -> list[Any]:
        return [(await self.put(session, offset))["part"] for offset in range(0, len(CONTENT), PART)]

    async def commit(
        self, session: Any, parts: Any, *, expect: int = 201, attributes: Any = None, **more: Any
    ) -> Any:
        """Commit a session; `more` are headers, or the `whole` content."""
        body = {"parts": parts} | ({} if attributes is None else {"attributes": attributes})
        whole = hashlib.sha1(more.pop("whole", CONTENT), usedforsecurity=False).digest()
        headers = {"digest": upload_sessions.digest(whole)} | more
        url = f"{SESSIONS}/{session['id']}/commit"
        return await self.ask("POST", url, json=body, headers=headers, expect=expect)

    async def bytes(self, wire_id: str, **options: Any) -> bytes:
        answer = await self.http.get(f"/files/{wire_id}/content", **options)
        assert answer.status_code in (200, 206), answer.text
        return answer.content

    async def search(self, query: str = 'NOT "improbableword"', **params: Any) -> dict[str, Any]:
        return await self.ask("GET", "/search", params={"query": query, "limit": 200} | params)

    async def names(self, query: str = 'NOT "improbableword"', **params: Any) -> set[str]:
        return {one["name"] for one in (await self.search(query, **params))["entries"]}


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.PostgresServer]:
    """A PostgreSQL server; the test is skipped if it is not installed."""
    lacks = postgres_server.lacks()
    if lacks is not None:
        pytest.skip(lacks)
    with postgres_server.running() as server:
        yield server


# Run on both engines by default: tests that depend on the order of writes, on words, on paths and on numbers.
ON_BOTH = ("test_search", "test_events", "test_trash", "test_isolation", "test_refresh_tokens")
# Those of clients run on three processes, too.
OF_CLIENTS = "tests.service.sdks."


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with a store on both engines: with --long all of them, otherwise those of a few modules."""
    options, name = metafunc.config.option, metafunc.module.__name__
    is_long = options.long or name.rpartition(".")[2] in ON_BOTH
    if is_long and not (options.postgres or options.processes) and "root" in metafunc.fixturenames:
        is_embedded = any(mark.name == "embedded" for mark in metafunc.definition.iter_markers())
        engines = ["sqlite"] if is_embedded or postgres_server.lacks() else ["sqlite", "postgres"]
        engines += ["processes"] if options.long and name.startswith(OF_CLIENTS) else []
        metafunc.parametrize("on_postgres", engines, indirect=True)


@pytest.fixture(autouse=True)
def on_postgres(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, str]]:
    """Put the database of every store that the test opens there, one for each folder; return their URLs.

    With --postgres this applies to all tests, except those of the embedded database only; with --processes to
    those of clients, and contents are in a bucket, and what is served, three processes serve.
    """
    urls: dict[Path, str] = {}
    if (wanted := getattr(request, "param", None) or _engine(request)) == "sqlite":
        yield urls
        return
    if wanted == "processes":
        from tests.support import three_processes  # imports what few tests need

        yield from three_processes.installed(request, request.getfixturevalue("engines"), monkeypatch)
        return
    server: postgres_server.PostgresServer = request.getfixturevalue("postgres")
    shipped = store.open_store

    def open_store(root: Path, *args: Any, **options: Any) -> Any:
        if root not in urls:
            urls[root] = server.lend()
        return shipped(root, *args, **({"database_url": urls[root]} | options))

    monkeypatch.setattr(store, "open_store", open_store)
    yield urls
    for url in urls.values():
        server.take_back(url)


def _engine(request: pytest.FixtureRequest) -> str:
    options = request.config.option
    if "embedded" in request.keywords:
        return "sqlite"
    if options.processes and request.module.__name__.startswith(OF_CLIENTS):
        return "processes"
    return "postgres" if options.postgres else "sqlite"


def give_from(conn: Connection, table: str, number: int) -> None:
    """Set the number of a table's next row."""
    if isinstance(conn, sqlite3.Connection):
        conn.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number - 1, table))
    else:
        conn.execute(f"SELECT setval('{table}_id_seq', ?, false)", (number,))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "service"


@pytest.fixture
def blobs_url() -> str | None:
    """The place of the contents, if not in the folder."""
    return None


@pytest.fixture
async def service(root: Path, blobs_url: str | None) -> AsyncIterator[store.Store]:
    """A store with one enterprise, an administrator, a user, and an application."""
    async with store.open_store(root, blobs_url) as opened:
        await opened.write(lambda conn: _fill(conn, opened.now()))
        yield opened


def _fill(conn: Connection, now: int) -> None:
    enterprise = demo.add_enterprise(conn, "Test Enterprise", now=now)
    admin = demo.add_user(conn, enterprise, "Ann Admin", "ann@example.com", role="admin", now=now)
    uwe = demo.add_user(conn, enterprise, "Uwe User", "uwe@example.com", now=now)
    passwords.store_hash(conn, uwe["id"], PASSWORD_HASH)
    clients.add(
        *(conn, "tests", SECRET),
        name="Tests & Co",
        enterprise=enterprise,
        service_user=admin["id"],
        scopes=" ".join(scopes.APPLICATION),
        grants=" ".join(clients.GRANTS),
        redirect_uris=("http://127.0.0.1/callback", "https://app.example.com/in?x=1"),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few parts of a thousand bytes."""
    monkeypatch.setattr(service_upload_sessions, "PART_SIZE", PART)
    monkeypatch.setattr(upload_sessions, "MIN_FILE_SIZE", 100)


@pytest.fixture
def fill() -> Callable[[store.Store], Awaitable[None]]:
    """`await fill(store)`: create the enterprise of `service` in the test's own store."""

    async def run(opened: store.Store) -> None:
        await opened.write(lambda conn: _fill(conn, opened.now()))

    return run


@pytest.fixture
async def as_user() -> AsyncIterator[Any]:
    """`await as_user(store, login)`: a caller."""
    callers = []

    async def run(opened: store.Store, login: str) -> ServiceClient:
        callers.append(await _caller(opened, login))
        return callers[-1]

    yield run
    for caller in callers:
        await caller.http.aclose()


async def _caller(service: store.Store, login: str) -> ServiceClient:
    row = service.read("SELECT id FROM account WHERE login = ?", login)[0]
    caller = ServiceClient(service, row["id"])
    await caller.log_in()
    return caller


@pytest.fixture
async def api(service: store.Store) -> AsyncIterator[ServiceClient]:
    """The administrator."""
    caller = await _caller(service, "ann@example.com")
    yield caller
    await caller.http.aclose()


@pytest.fixture
async def uwe(service: store.Store) -> AsyncIterator[ServiceClient]:
    """A client for a user without rights."""
    caller = await _caller(service, "uwe@example.com")
    yield caller
    await caller.http.aclose()


class People:
    """Clients for further users; those with an address in `elsewhere.example` are of another enterprise."""

    def __init__(self, service: store.Store) -> None:
        self._service = service
        self._made: list[ServiceClient] = []

    async def add(self, login: str) -> ServiceClient:
        service = self._service

        def txn(conn: Connection) -> tuple[int, str]:
            now = service.now()
            found = conn.execute("SELECT id FROM enterprise WHERE name = 'Elsewhere'").fetchone()
            other = found["id"] if found else demo.add_enterprise(conn, "Elsewhere", now=now)
            enterprise = other if login.endswith("@elsewhere.example") else 1
            name = login.partition("@")[0].title()
            row = demo.add_user(conn, enterprise, name, login, now=now)
            return row["id"], access_tokens.access_token(conn, "tests", row["id"], now=now)["access_token"]

        number, token = await service.write(txn)
        caller = ServiceClient(service, number)
        caller.http.headers["authorization"] = f"Bearer {token}"
        self._made.append(caller)
        return caller

    async def close(self) -> None:
        for caller in self._made:
            await caller.http.aclose()


@pytest.fixture
async def people(service: store.Store) -> AsyncIterator[People]:
    found = People(service)
    yield found
    await found.close()


@pytest.fixture
async def sample(root: Path) -> AsyncIterator[tuple[store.Store, demo.Credentials]]:
    """A store with the sample enterprise."""
    async with store.open_store(root) as opened:
        yield opened, await demo.ensure_sample(opened)


@pytest.fixture
async def client(sample: tuple[store.Store, demo.Credentials], nursery: trio.Nursery) -> "BoxClient":
    """The public API's own client, on the sample's service on a socket."""
    # Each process of a run imports this file, but few use that client, which is slow to import.
    from box_sdk_gen import BaseUrls, BoxCCGAuth, BoxClient, CCGConfig

    opened, credentials = sample
    url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
    config = CCGConfig(
        client_id=credentials.client_id, client_secret=credentials.client_secret, user_id=credentials.user_id
    )
    urls = BaseUrls(base_url=url, upload_url=f"{url}/api", oauth_2_url=f"{url}/api/oauth2")
    return BoxClient(auth=BoxCCGAuth(config=config)).with_custom_base_urls(urls)
