"""What the public API's clients and the service say to each other, held against the public description."""

from collections.abc import Iterator

import pytest

from tests.support import public_api, recorded


@pytest.fixture(autouse=True)
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[public_api.Exchange]]:
    found = recorded.install(monkeypatch)
    yield found
    recorded.conform(found)
