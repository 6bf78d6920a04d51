"""Drives that show one folder of the account, with tokens that the service has limited to it."""

from typing import TYPE_CHECKING

from cmsfs import errors
from cmsfs.service.storage.store import Store
from tests.simulation import judge
from tests.simulation.machines import Machine

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation

NAME = "base"


async def begin(sim: "_Simulation", machine: Machine) -> None:
    """Create the folder, for this drive; the other drives' programs work in it, too."""
    folder = await sim.person.client.folders.create(NAME, "0")
    sim.person.protected.add(int(folder.id))
    machine.root_id = machine.wire.liar.root_id = folder.id
    machine.settings = machine.settings.model_copy(update={"folder": NAME})
    for other in sim.machines:
        if other is not machine:
            other.shared_prefix = f"{NAME}/"


def below(store: Store, root: str) -> dict[str, str]:
    """Return the paths below the folder, with the SHA-1 of each file."""
    return judge.service_tree(store, int(root))


def items(machine: Machine, store: Store) -> set[int]:
    """Return the ids of the items in the drive's folder."""
    rows = store.read(
        "WITH RECURSIVE below(id) AS (SELECT id FROM item WHERE id = ?1 AND status = 0"
        " UNION SELECT item.id FROM item JOIN below ON item.parent = below.id WHERE item.status = 0)"
        " SELECT id FROM below",
        int(machine.root_id or 0),
    )
    return {row["id"] for row in rows}


def has_left(machine: Machine, store: Store) -> bool:
    """Return whether the drive shows items that have left its folder: no search tells of these, only
    the next full comparison."""
    there = items(machine, store)
    known = machine.agents.state.db.rows(
        "SELECT remote_id FROM node WHERE remote_id IS NOT NULL AND parent IS NOT NULL AND ino > 2"
    )
    return any(int(row["remote_id"]) not in there for row in known)


async def bring_back(sim: "_Simulation", machine: Machine) -> None:
    """Restore the folder if it is in the trash: until then the drive keeps everything and sends nothing."""
    client, number = sim.person.client, int(machine.root_id or 0)
    while rows := sim.service.store.read(
        "SELECT trash, status FROM item WHERE id = ? AND status != 0", number
    ):
        top = str(rows[0]["trash"])
        try:
            await client.items.restore("folder", top)
        except errors.Conflict:
            await client.items.restore("folder", top, name=f"restored {top}")
        except errors.CmsfsError:
            await client.items.restore("folder", top, name=f"restored {top}", parent_id="0")
