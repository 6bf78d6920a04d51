"""A browser session, and one with the administrator logged in."""

import html
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from cmsfs.service.oauth import passwords
from cmsfs.service.server import app
from cmsfs.service.storage import store

HOST = "http://service.test"
PASSWORD = "the password of ann"
PASSWORD_HASH = passwords.hashed(PASSWORD)


class Person:
    """A browser session; follows redirects."""

    def __init__(self, service: store.Store) -> None:
        self.store = service
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app.build(service)), base_url=HOST)
        self.page: Any = None
        self.at = "/admin"

    def address(self, path: str) -> str:
        """Return the path of a page for this session."""
        inside = path.startswith("/admin") and path != "/admin/login"
        return self.at + path.removeprefix("/admin") if inside else path

    async def open(self, path: str) -> str:
        self.page = await self.http.get(self.address(path), follow_redirects=True)
        return html.unescape(self.page.text)

    async def post(self, path: str, **form: str) -> str:
        """Submit a form of the open page, with these fields."""
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', self.page.text))
        self.page = await self.http.post(self.address(path), data=hidden | form, follow_redirects=True)
        if self.page.url.path.startswith("/admin/at/") and path == "/admin/login":
            self.at = self.page.url.path
        return html.unescape(self.page.text)

    async def log_in(self, login: str = "ann@example.com", password: str = PASSWORD) -> str:
        await self.open("/admin/login")
        return await self.post("/admin/login", login=login, password=password)

    def rows(self, sql: str, *args: Any) -> list[Any]:
        return self.store.read(sql, *args)

    def secrets(self) -> dict[str, str]:
        return dict(re.findall(r'data-secret="([^"]+)">([^<]+)<', self.page.text))


@pytest.fixture
async def person(service: store.Store) -> AsyncIterator[Person]:
    await service.write(lambda conn: passwords.store_hash(conn, 2001, PASSWORD_HASH))
    one = Person(service)
    yield one
    await one.http.aclose()


@pytest.fixture
async def admin(person: Person) -> Person:
    assert "Test Enterprise" in await person.log_in()
    return person
