"""A browser session, logged in to the users' pages."""

import html
import json
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


class Visitor:
    """Follows redirects and submits forms as a browser does; paths are below that of the session."""

    def __init__(self, service: store.Store) -> None:
        self.store = service
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app.build(service, HOST)), base_url=HOST)
        self.page: Any = None
        self.at = "/web"

    async def log_in(self, login: str = "ann@example.com", password: str = PASSWORD, to: str = "") -> str:
        where = "/web/login" + (f"?to={to}" if to else "")
        self.page = await self.http.get(where)
        self.page = await self.http.post(
            where, data=self._hidden() | {"login": login, "password": password}, follow_redirects=True
        )
        if found := re.match("/web/at/[0-9a-f]+", self.page.url.path):
            self.at = found[0]
        return html.unescape(self.page.text)

    async def open(self, path: str) -> str:
        self.page = await self.http.get(self.at + path, follow_redirects=True)
        return html.unescape(self.page.text)

    async def post(self, path: str, **form: str) -> str:
        """Submit a form of the open page."""
        self.page = await self.http.post(self.at + path, data=self._hidden() | form, follow_redirects=True)
        return html.unescape(self.page.text)

    async def send(self, path: str, attributes: dict[str, Any], data: bytes, **headers: str) -> Any:
        """Upload as the page's script does."""
        files: dict[str, Any] = {"attributes": (None, json.dumps(attributes)), "file": ("x", data)}
        headers = {"x-form-proof": self._hidden().get("form_proof", "")} | headers
        return await self.http.post(self.at + path, files=files, headers=headers)

    def _hidden(self) -> dict[str, str]:
        return dict(re.findall(r'<input type="hidden" name="([\w.-]+)" value="(\w+)">', self.page.text))


@pytest.fixture
async def visitor(service: store.Store) -> AsyncIterator[Visitor]:
    await service.write(lambda conn: passwords.store_hash(conn, 2001, PASSWORD_HASH))
    one = Visitor(service)
    assert "All files" in await one.log_in()
    yield one
    await one.http.aclose()
