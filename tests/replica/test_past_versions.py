"""Versions of items whose contents something here needs."""

import pytest

from cmsfs.replica import tree
from cmsfs.replica.merge import deletions
from cmsfs.replica.nodes import ROOT
from cmsfs.replica.rows import past_versions
from cmsfs.sqlite import Database
from tests.replica.merge.test_apply_remote import an_item, apply, local_file


@pytest.mark.parametrize("is_needed", [True, False])
async def test_item_that_is_gone_is_known_by_contents_that_are_needed(db: Database, is_needed: bool) -> None:
    """It may be in the trash, from where it can be restored."""
    await apply(db, an_item("file", 7, "f", file_version={"type": "file_version", "id": "70"}))
    node = tree.find_child(db, ROOT, "f")
    assert node is not None
    await local_file(db, "copy", sha1=node.base_sha1 if is_needed else None)
    await db.write(lambda conn: deletions.remove_gone(conn, node.ino))
    found = past_versions.find(db, node.base_sha1 or "")
    assert found == (("7", "70") if is_needed else None)
    await db.write(past_versions.forget_unused)
    assert past_versions.find(db, node.base_sha1 or "") == found
