"""The kernel carries a remembered inode along when a program renames a name that has just changed."""

import pytest

from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.inodes import MOMENT_SECONDS
from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.vfs.tree.renaming import EXCHANGE
from cmsfs.vfs.virtual.router import Router
from tests.vfs.conftest import Drive


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def told(hub: Hub) -> list[str]:
    """The names that the kernel is told of."""
    names: list[str] = []
    hub.subscribe(lambda changes: names.extend(change.name for change in changes))
    return names


@pytest.fixture
def shown(drive: Drive, hub: Hub) -> Router:
    return Router(drive.fs, drive.blocks, drive.shelf, hub)


async def replaced_remotely(drive: Drive, name: str) -> Change:
    """Another drive's file gets the name of ours, which goes elsewhere: the change to publish."""
    ours = await drive.write_file(name, b"ours")
    await drive.fs.rename(ROOT, name, ROOT, f"{name} (copy)", 0)
    await drive.remote_file(1, name, b"theirs")
    return Change(ChangeKind.ENTRY, ours, ROOT, name)


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_rename_of_a_name_that_has_just_changed_invalidates_the_new_one(
    shown: Router, hub: Hub, drive: Drive, told: list[str], is_late: bool
) -> None:
    change = await replaced_remotely(drive, "f")
    if not is_late:
        hub.publish([change])
    await shown.rename(ROOT, "f", ROOT, "g", 0)
    if is_late:
        hub.publish([change])
    assert sorted(told) == ["f", "g"]
    moved = tree.find_child(drive.db, ROOT, "g")
    assert moved is not None and moved.size == len(b"theirs")


async def test_further_renames_invalidate_their_names_too(
    shown: Router, hub: Hub, drive: Drive, told: list[str]
) -> None:
    hub.publish([await replaced_remotely(drive, "f")])
    await shown.rename(ROOT, "f", ROOT, "g", 0)
    await shown.rename(ROOT, "g", ROOT, "h", 0)
    assert told == ["f", "g", "h"]


async def test_an_exchange_invalidates_the_other_name(
    shown: Router, hub: Hub, drive: Drive, told: list[str]
) -> None:
    hub.publish([await replaced_remotely(drive, "f")])
    await drive.write_file("g", b"g")
    await shown.rename(ROOT, "g", ROOT, "f", EXCHANGE)
    assert told == ["f", "g"]


async def test_other_renames_invalidate_nothing(
    shown: Router, hub: Hub, drive: Drive, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish([await replaced_remotely(drive, "f")])
    await drive.write_file("x", b"x")
    await shown.rename(ROOT, "x", ROOT, "y", 0)
    hub.publish([Change(ChangeKind.ENTRY, 0, ROOT, "x", is_new=True)])
    later = clock.monotonic() + MOMENT_SECONDS
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    await shown.rename(ROOT, "f", ROOT, "g", 0)
    assert told == ["f", "x"]
