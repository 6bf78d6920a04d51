"""The table of clients in the service's documentation, and the operations that clients used in a test."""

import re
from pathlib import Path

from cmsfs.service.server import app
from tests.support import openapi_check
from tests.support.public_api import Exchange

TEXT = Path(__file__).parents[2] / "cmsfs" / "service" / "CLIENTS.md"


def rows() -> dict[str, tuple[str, frozenset[str]]]:
    """Return for each client the test that runs it, and the groups of operations that it uses there."""
    found = {}
    for line in TEXT.read_text(encoding="utf-8").splitlines():
        if cells := re.fullmatch(r"\| ([^|]+) \| `([^`|]+)` \| ([^|]+) \|", line):
            client, test, used = cells.groups()
            found[client] = (test, frozenset(re.findall(r"\w+", used)))
    return found


def used(exchanges: list[Exchange]) -> frozenset[str]:
    """Return the groups of the operations that succeeded."""
    groups = {id(route): group.name for group in app.API_GROUPS for route in group.routes}
    found = set()
    for one in exchanges:
        operation = openapi_check.find(one.method, one.path) if one.status < 400 else None
        if operation is not None and id(operation) in groups:
            found.add(groups[id(operation)])
    return frozenset(found)


def hold(client: str, exchanges: list[Exchange], *, newer: frozenset[str] = frozenset()) -> None:
    """Fail if a client used operations not in the table; `newer` are those of its later versions."""
    found, said = used(exchanges), rows()[client][1]
    assert said <= found <= said | newer, (
        f"{client} used {', '.join(sorted(found))}; the table has {', '.join(sorted(said))}"
    )
