"""A service in its own process, another client of the same account, and a drive on it."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import patience
from tests.support.mounted_drive import MountedDrive
from tests.support.server_process import ServerProcess

if TYPE_CHECKING:
    from tests.support.three_processes import ThreeProcesses

SECONDS = 20.0


class Api:
    """Another client of the same account."""

    def __init__(self, url: str, credentials: dict[str, str], server: Any = None) -> None:
        self.server = server
        self._http = httpx.Client(base_url=url, timeout=30)
        self._url, self._credentials = url, credentials
        self.user = credentials["user_id"]
        grant = {
            "grant_type": "client_credentials",
            "client_id": credentials["client_id"],
            "client_secret": credentials["client_secret"],
            "box_subject_type": "user",
            "box_subject_id": credentials["user_id"],
        }
        token = self._http.post("/oauth2/token", data=grant).json()["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        self._http.close()

    def colleague(self) -> "Api":
        """Create another user of the enterprise and return a client for it."""
        made = self._ask("POST", "/2.0/users", json={"name": "Cy Tester", "login": "cy.tester@example.com"})
        return Api(self._url, self._credentials | {"user_id": made["id"]})

    def share(self, kind: str, number: str, user: str, role: str = "editor") -> str:
        wish = {"item": {"type": kind, "id": number}, "role": role}
        body = wish | {"accessible_by": {"type": "user", "id": user}}
        return str(self._ask("POST", "/2.0/collaborations", json=body)["id"])

    def folder(self, name: str, parent: str = "0") -> str:
        return str(self._ask("POST", "/2.0/folders", json={"name": name, "parent": {"id": parent}})["id"])

    def file(self, name: str, data: bytes, parent: str = "0") -> str:
        return self._upload("/api/2.0/files/content", {"name": name, "parent": {"id": parent}}, data)

    def write(self, number: str, data: bytes) -> None:
        self._upload(f"/api/2.0/files/{number}/content", {}, data)

    def update(self, kind: str, number: str, **values: Any) -> None:
        self._ask("PUT", f"/2.0/{kind}s/{number}", json=values)

    def copy(self, number: str, name: str) -> str:
        copied = self._ask("POST", f"/2.0/files/{number}/copy", json={"name": name, "parent": {"id": "0"}})
        return str(copied["id"])

    def delete(self, kind: str, number: str) -> None:
        self._ask("DELETE", f"/2.0/{kind}s/{number}{'?recursive=true' if kind == 'folder' else ''}")

    def restore(self, kind: str, number: str) -> None:
        self._ask("POST", f"/2.0/{kind}s/{number}", json={})

    def _upload(self, path: str, attributes: dict[str, Any], data: bytes) -> str:
        sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        parts = {"attributes": (None, json.dumps(attributes)), "file": ("file", data)}
        found = self._ask("POST", path, files=parts, headers={"Content-MD5": sha1})
        return str(found["entries"][0]["id"])

    def _ask(self, method: str, path: str, **rest: Any) -> Any:
        answer = self._http.request(method, path, **rest)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def settings_of(url: str, credentials: dict[str, str], folder: Path) -> dict[str, str]:
    """The environment of a drive at this service; its secret is in a file in the folder."""
    secret = folder / "secret"
    secret.write_text(credentials["client_secret"])
    settings = {
        "PROFILE": "server",
        "BASE_URL": f"{url}/2.0",
        "UPLOAD_URL": f"{url}/api/2.0",
        "AUTH_URL": url,
        "CLIENT_ID": credentials["client_id"],
        "CLIENT_SECRET_FILE": str(secret),
        "SUBJECT_ID": credentials["user_id"],
    }
    return {f"CMSFS_{name}": value for name, value in settings.items()}


@pytest.fixture
def api(
    stopped: MountedDrive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    service_options: list[str],
    processes: "ThreeProcesses | None",
) -> Iterator[Api]:
    """A service in a process of its own, or in three, and the drive mounted on it."""
    server = processes or ServerProcess(tmp_path / "service", *service_options).start()
    url, credentials = server.url, server.credentials
    settings = settings_of(url, credentials, tmp_path)
    # Nothing here is found by asking again and again.
    settings |= {"CMSFS_POLL_SECONDS": "3600", "CMSFS_IDLE_POLL_SECONDS": "3600"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        stopped.top.mkdir()
        stopped.cmsfs("mount", stopped.top)
        api = Api(url, credentials, server)
        yield api
        api.close()
    finally:
        stopped.cmsfs("umount", stopped.top, "--force", check=False)
        if isinstance(server, ServerProcess):
            server.stop()


def until(what: Callable[[], bool]) -> None:
    patience.until(what, SECONDS, "the change was not seen")
