"""Checks the exchanges of the public API's clients and the service against the public description."""

from collections.abc import Iterator

import pytest

from tests.support import clients_table, public_api, recorded

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
