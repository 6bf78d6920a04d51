"""The table of clients in the documentation: each is tested, and the operations are there."""

from pathlib import Path

from cmsfs.service.server import app
from tests.support import clients_table

ROOT = Path(__file__).parents[3]


def test_each_client_has_a_test_that_holds_its_row():
    assert len(clients_table.rows()) >= 9
    for client, (test, _) in clients_table.rows().items():
        text = (ROOT / test).read_text(encoding="utf-8")
        # That of the generated client is held by the fixture that records it.
        assert f'"{client}"' in text or client == "Python SDK 10", client


def test_what_clients_use_are_groups_of_operations():
    groups = {one.name for one in app.API_GROUPS}
    used = frozenset().union(*(words for _, words in clients_table.rows().values()))
    assert used - groups == set()
