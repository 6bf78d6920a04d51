"""What is assigned to an item: the quick look at every deletion misses nothing of the thorough one."""

import json

import pytest

from cmsfs.replica import item_details, tree
from cmsfs.replica.item_details import MANY_ASSIGNMENTS, DetailSubject, PolicyAssignment
from cmsfs.replica.nodes import Ino, Node
from cmsfs.vfs.attrs import policies
from tests.vfs.conftest import Drive

ITEM = {"owned_by": {"id": "owner"}, "modified_by": {"id": "maker"}}
METADATA = [{"$type": "project-7", "$template": "project", "$scope": "enterprise", "$parent": "file_3"}]

TARGETS = [
    ("file", "3"),
    ("file_version", "v3"),
    ("folder", "2"),
    ("folder", "1"),
    ("folder", "0"),
    ("metadata_template", "7"),
    ("user", "owner"),
    ("user", "maker"),
    ("ownership", "owner"),
    ("interactions", "maker"),
    ("enterprise", ""),
]


@pytest.fixture
async def node(drive: Drive) -> Node:
    """A file two folders down, with an owner and metadata."""
    await drive.remote_folder(1, "a")
    await drive.remote_folder(2, "b", parent=1)
    ino: Ino = await drive.remote_file(3, "f", b"1", parent=2)
    await drive.db.write(
        lambda conn: item_details.put(conn, ino, DetailSubject.METADATA, METADATA, etag="1", at=1)
    )
    await drive.db.write(
        lambda conn: conn.execute("UPDATE node SET item = ? WHERE ino = ?", (json.dumps(ITEM), ino))
    )
    found = tree.find(drive.db, ino)
    assert found is not None
    return found


async def assign(drive: Drive, *targets: tuple[str, str]) -> None:
    value = {"id": "1", "legal_hold_policy": {"id": "1", "status": "active"}}
    found = [PolicyAssignment(policies.HOLD, str(at), *one, value) for at, one in enumerate(targets)]
    await drive.db.write(lambda conn: item_details.replace_assignments(conn, found))


@pytest.mark.parametrize(("target_type", "target"), TARGETS)
async def test_quick_look_finds_each_target(drive: Drive, node: Node, target_type: str, target: str) -> None:
    await assign(drive, ("folder", "99"), (target_type, target))
    assert policies.is_covered(drive.db, node)
    assert policies.may_be_covered(drive.db, node)


async def test_quick_look_ends_with_assignments_of_others(drive: Drive, node: Node) -> None:
    await assign(
        drive, *((target_type, "other") for target_type, _ in TARGETS if target_type != "enterprise")
    )
    assert not policies.may_be_covered(drive.db, node)
    await assign(drive)
    assert not policies.may_be_covered(drive.db, node)


async def test_quick_look_leaves_many_assignments_to_the_thorough_one(drive: Drive, node: Node) -> None:
    await assign(drive, *(("folder", f"9{number}") for number in range(MANY_ASSIGNMENTS)), ("file", "3"))
    assert policies.may_be_covered(drive.db, node)
