"""The table of the public API's facts says what the public API's own client knows."""

import pytest

from tests.support import client_facts, public_api

# Where the table knows better: what the client's generator left out.
BETTER = {"ConflictError", "ConflictErrorContextInfo", "Metadata", "UpdateFileByIdLock"}


@pytest.mark.long
def test_the_table_is_true_to_the_clients_own_classes():
    shapes = client_facts.Shapes()
    known = client_facts.operations(shapes)
    for line, one in public_api.operations().items():
        method, path = line.split()
        facts = known[method, path]
        assert (one.gives, one.query) == (facts.gives, frozenset(facts.query)), line
        assert one.body == " ".join(facts.body), line
    for name, fields in public_api.shapes().items():
        if name not in BETTER and name in shapes.lines:
            assert fields == shapes.lines[name], name
