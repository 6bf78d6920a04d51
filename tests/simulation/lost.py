"""Which files of a drive can no longer be complete, because the service lost or deleted contents that only it
had; the drive keeps what it has of them, and reports them.
"""

from typing import TYPE_CHECKING

from cmsfs import config, errors
from cmsfs.replica import tree
from cmsfs.replica.rows import past_versions
from daemon.push import error_policy
from tests.simulation import narrow
from tests.simulation.machines import Machine

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation

# Held uploads of files whose contents, or unmodified contents, are not on this disk.
_LOST_BASES = """
  SELECT o.ino, d.base_sha1 AS sha1 FROM op o JOIN node n ON n.ino = o.ino JOIN draft d ON d.id = n.draft
   WHERE o.state = 'held' AND o.error = ?
  UNION ALL SELECT o.ino, n.sha1 FROM op o JOIN node n ON n.ino = o.ino WHERE o.state = 'held' AND o.error = ?
"""

_MISSING = error_policy.verdict_for(errors.MissingBlocks("", 0, 0), 0).reason

# Files with these contents that are not in the trash, or are there by themselves; those that have them as an
# older version only if the drive knows of it.
_RESTORABLE = """
  SELECT item.owner FROM version JOIN item ON item.id = version.file
   WHERE version.sha1 = ?1 AND item.status < 2 AND (item.sha1 = ?1 OR item.id = ?2)
"""

_ALIVE = """
  SELECT item.owner FROM version JOIN item ON item.id = version.file
   WHERE version.sha1 = ? AND item.status = 0
"""

# Files with these contents that are the account's, or shared with it.
_ACCESSIBLE = """
  WITH RECURSIVE above(id, owner, parent) AS (
    SELECT item.id, item.owner, item.parent FROM version JOIN item ON item.id = version.file
      WHERE version.sha1 = ?1 AND item.status < 2
    UNION SELECT item.id, item.owner, item.parent FROM above JOIN item ON item.id = above.parent)
  SELECT 1 FROM above WHERE owner = ?2 OR EXISTS (
    SELECT 1 FROM collaboration AS c WHERE c.item = above.id AND c.account = ?2 AND c.status = 'accepted')
"""

# Files there that have these contents now, and the item that the drive knows them from.
_IN_USE = "SELECT id FROM item WHERE (sha1 = ?1 OR id = ?2) AND status = 0"


def lost_bases(sim: "_Simulation", machine: Machine) -> dict[str, str]:
    """Return the paths of such files, with the SHA-1 of what they need.

    A drive restores that from the trash where the API offers that, so there only these are lost: purged
    ones, those in a folder in the trash, and those that a failing disk had.  Somebody has to have deleted or
    replaced it, moved it to another account, or ended the sharing.  A token that is limited to a folder
    restores nothing.  An older version of some file is lost once the item that the drive knows it from is
    purged; for a drive that cannot restore, once that is deleted, or is in none of its folders any more.
    """
    db = machine.agents.state.db
    has_trash = config.profile(machine.settings).trash
    found = {}
    for row in db.rows(_LOST_BASES, error_policy.LOST_BASE, _MISSING):
        known = past_versions.find(db, row["sha1"])
        item = known[0] if known else None
        if machine.settings.is_narrowed:
            restorable = sim.service.store.read(_ALIVE, row["sha1"])
        else:
            restorable = sim.service.store.read(_RESTORABLE, row["sha1"], item)
        owners = {one["owner"] for one in restorable}
        is_taken = bool(owners) and not sim.service.store.read(_ACCESSIBLE, row["sha1"], machine.user)
        is_given_up = is_taken or row["sha1"] in sim.ledger.replaced | sim.ledger.thrown_away
        is_restorable = has_trash and bool(owners) and not is_taken
        if not has_trash or machine.settings.is_narrowed:
            in_use = sim.service.store.read(_IN_USE, row["sha1"], item)
            ids = {one["id"] for one in in_use}
            if machine.settings.is_narrowed:
                ids &= narrow.items(machine, sim.service.store)
            is_restorable &= bool(ids)
            is_given_up |= not ids
        # It was in the deleted cache only, and in the trash.
        is_given_up |= machine.name in sim.cacheless and not sim.service.store.read(_ALIVE, row["sha1"])
        is_undone = bool(machine.undone_spans) or sim.is_service_restored
        if (not is_restorable and (is_given_up or is_undone)) or machine.name in sim.rotten:
            found[tree.path(db, row["ino"]).lstrip("/")] = row["sha1"]
    return found


def lost_with_service(sim: "_Simulation", machine: Machine) -> set[str]:
    """Return paths that the drive knows but had not downloaded when the service lost them (it reports so)."""
    if not sim.is_service_restored:
        return set()
    db, found = machine.agents.state.db, set()
    had = sim.service.versions()
    for row in db.rows("SELECT ino FROM op WHERE state = 'held' AND error = ?", _MISSING):
        node = tree.find(db, row["ino"])
        if node is not None and node.sha1 in sim.ledger.replaced and node.sha1 not in had:
            found.add(tree.path(db, node.ino).lstrip("/"))
    return found


def lost_with_cache(sim: "_Simulation", machine: Machine) -> set[str]:
    """Return paths whose contents were in the deleted cache, and at the service only in the trash."""
    if machine.name not in sim.cacheless:
        return set()
    db, found = machine.agents.state.db, set()
    for row in db.rows("SELECT ino FROM op WHERE state = 'held' AND error = ?", _MISSING):
        node = tree.find(db, row["ino"])
        if node is not None and not sim.service.store.read(_ALIVE, node.sha1):
            found.add(tree.path(db, node.ino).lstrip("/"))
    return found


def lost_with_versions(sim: "_Simulation", machine: Machine) -> set[str]:
    """Return paths that exist only here, whose bytes only the service had until somebody purged them; or put
    them in the trash, if the file is never uploaded, so that no upload restores them from there."""
    db, found = machine.agents.state.db, set()
    had = sim.service.versions()
    only_here = """
      SELECT ino, sha1, EXISTS (SELECT 1 FROM op WHERE op.ino = node.ino) AS is_sent FROM node
       WHERE kind = 'file' AND parent IS NOT NULL AND remote_id IS NULL AND sha1 IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM content WHERE content.sha1 = node.sha1 AND dirty)
    """
    for row in db.rows(only_here):
        is_there = row["sha1"] in had
        is_trashed = is_there and not (row["is_sent"] or sim.service.store.read(_ALIVE, row["sha1"]))
        if is_trashed or (row["sha1"] in sim.ledger.replaced and not is_there):
            found.add(tree.path(db, row["ino"]).lstrip("/"))
    return found
