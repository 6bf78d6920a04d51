"""Checks the exchanges of the public API's clients and the service against the public description."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
import trio

from cmsfs.service.oauth import access_tokens
from cmsfs.service.provisioning import demo
from cmsfs.service.server import serve
from cmsfs.service.storage import store
from tests.bench import rival
from tests.support import certificates, clients_table, public_api, recorded

# Those of the generated Python client, which has many tests; the others hold all of their rows.
GENERATED = "test_python_sdk"
OLDER = "test_python_sdk_3"


@pytest.fixture(autouse=True)
def exchanges(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[list[public_api.Exchange]]:
    found = recorded.install(monkeypatch)
    yield found
    recorded.conform(found)
    if request.path.stem.startswith(GENERATED) and request.path.stem != OLDER:
        assert clients_table.used(found) <= clients_table.rows()["Python SDK 10"][1]


class AtService(Protocol):
    """`await at_service(WORDS)`: what a program prints that finds the service as `rival:`."""

    async def __call__(self, *words: str, cwd: Path | None = None, seconds: float = 100) -> str: ...


@pytest.fixture
async def at_service(
    sample: tuple[store.Store, demo.Credentials], nursery: trio.Nursery, tmp_path: Path
) -> AsyncIterator[AtService]:
    """rclone speaks to hosts of its own only, so the service has a certificate for their names, and programs
    go by a proxy that leads every name to it."""
    opened, credentials = sample
    certfile, keyfile = certificates.self_signed(tmp_path, *rival.HOSTS)

    async def run(task_status: trio.TaskStatus[str]) -> None:
        await serve.serve(opened, port=0, certfile=certfile, keyfile=keyfile, task_status=task_status)

    url = await nursery.start(lambda task_status: run(task_status))
    token: dict[str, Any] = await opened.write(
        lambda conn: access_tokens.access_token(
            conn, credentials.client_id, int(credentials.user_id), now=opened.now()
        )
    )
    login = {"access_token": token["access_token"], "token_type": "bearer", "expiry": "2099-01-01T00:00:00Z"}
    with rival.proxy(urlsplit(url).port or 443) as address:
        environment = os.environ | {
            "HOME": str(tmp_path),
            "HTTPS_PROXY": address,
            "NO_PROXY": "",
            "SSL_CERT_FILE": str(certfile),
            "RCLONE_CONFIG": str(tmp_path / "rclone.conf"),
            "RCLONE_CONFIG_RIVAL_TYPE": "box",
            "RCLONE_CONFIG_RIVAL_TOKEN": json.dumps(login),
            "RESTIC_PASSWORD": "of the tests",
            "PASSPHRASE": "of the tests",
        }

        async def ask(*words: str, cwd: Path | None = None, seconds: float = 100) -> str:
            with trio.fail_after(seconds):
                done = await trio.run_process(
                    words, env=environment, cwd=cwd, capture_stdout=True, capture_stderr=True, check=False
                )
            assert done.returncode == 0, (done.stdout + done.stderr).decode()[-5000:]
            return done.stdout.decode()

        yield ask
