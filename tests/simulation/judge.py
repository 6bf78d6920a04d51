"""The invariants of a story: what must be true once everything is idle again."""

import contextlib
import errno
import math
import sqlite3
import stat
import traceback
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from cmsfs import config, errors
from cmsfs.models import wire_names
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import NodeKind
from cmsfs.replica.sharing import lost_access
from cmsfs.service.oauth import access_tokens
from cmsfs.service.storage.store import Store
from daemon.fsck import __main__ as fsck
from daemon.fsck.findings import Report, StatePaths
from tests.simulation import gauges, lost, narrow, second_account
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import sha1
from tests.simulation.machines import Machine
from tests.simulation.promises import PATHS, path_of
from tests.simulation.story import Plan

QUIET_SECONDS = 40.0

_LOGIN_SECONDS = access_tokens.REFRESH_LIFETIME / access_tokens.SECOND

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation


def describe_error(error: BaseException) -> str:
    """Return the error with its innermost traceback locations."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno}" for place in reversed(places))
    return f"{error!r} at {where}"


async def judge(sim: "_Simulation") -> None:
    """Check everything that can be checked while the machines run."""
    failures = sim.outcome.failures
    bases = {machine.name: lost.lost_bases(sim, machine) for machine in sim.machines}
    given_up = {
        machine.name: lost.lost_with_service(sim, machine)
        | lost.lost_with_versions(sim, machine)
        | lost.lost_with_cache(sim, machine)
        | bases[machine.name].keys()
        for machine in sim.machines
    }
    for machine, before in zip(sim.machines, sim.before_quiet, strict=True):
        if machine.wire.changes != before:
            failures.append(f"not quiet: {machine.name} still changes things at the service")
        rows = machine.agents.state.db.rows("SELECT kind, state, ino, error FROM op ORDER BY seq")
        for row in rows:
            if row["error"] == lost_access.REASON:
                sim.outcome.states["not shared any more"] += 1
                continue
            path = tree.path(machine.agents.state.db, row["ino"])
            if path.lstrip("/") in given_up[machine.name]:
                sim.outcome.states["lost with the service"] += 1
                continue
            failures.append(f"unsent: {machine.name} {row['kind']} {row['state']} {path} {row['error']}")
    for programs in sim.programs.values():
        failures += [f"wrong bytes: {failure}" for failure in programs.wrong]
    there = service_tree(sim.service.store)
    sizes = {row["sha1"]: row["size"] for row in sim.service.store.read("SELECT sha1, size FROM version")}
    kept: set[str] = set()
    if is_alone(sim.plan):
        restored = set(map(wire_names.name_key, sim.ledger.perhaps_undeleted))
        for path in there:
            original = naming.original_name(path.rpartition("/")[2])
            if original is not None and wire_names.name_key(original) not in restored:
                failures.append(f"conflict: {path}, and nobody else is there")
    for machine in sim.machines:
        if sim.is_second(machine):
            kept |= await second_account.judge(sim, machine, lost=given_up[machine.name])
            continue
        if machine.agents.deletion_check.pending() is not None:
            # A comparison, as there is after events that were too old, has found much missing.
            await confirm_missing(sim, machine)
            await trio.sleep(QUIET_SECONDS)
        if sim.is_service_restored:
            # A restored service reuses event positions, so only a full comparison finds all changes.  A
            # folder that is gone stays until its local contents are known to be elsewhere: the second
            # comparison removes it.
            for _ in range(2):
                await compare(sim, machine)
                await trio.sleep(QUIET_SECONDS)
            # Folders that are not listed are compared when they are opened; what is older in them than what
            # was known is asked for after that.
            await _open_folders(machine)
            await trio.sleep(QUIET_SECONDS)
        elif machine.wire.liar.has_dropped:
            # Events or results were dropped or delayed.
            await compare(sim, machine)
            await trio.sleep(QUIET_SECONDS)
        elif _has_removals_unseen_by_search(machine, sim.service.store):
            sim.outcome.states["what no search tells"] += 1
            await compare(sim, machine)
            # A folder with something that is only here is made anew, a minute after its removal.
            await trio.sleep(2 * QUIET_SECONDS)
        there = service_tree(sim.service.store)
        expected = there if machine.root_id is None else narrow.below(sim.service.store, machine.root_id)
        if machine.name not in sim.rotten:
            await _check_kernel_cache(machine, expected, sizes, failures, lost=given_up[machine.name])
        is_rotten = machine.name in sim.rotten
        drop_unverified_pages(sim, machine)
        here = await drive_tree(machine, failures, is_rotten=is_rotten, lost=given_up[machine.name])
        kept |= {value for value in here.values() if value}
        kept |= recovered(machine)
        local = {path for path in here if is_local(path)} | given_up[machine.name]
        shown = {path: value for path, value in here.items() if path not in local}
        theirs = {
            path: value
            for path, value in expected.items()
            if not is_local(path) and path not in given_up[machine.name]
        }
        if shown != theirs:
            failures.append(
                f"not the same: {machine.name} shows {_differing(sim, shown, theirs)}, the service has"
                f" {_differing(sim, theirs, shown)}"
            )
    for machine in sim.machines:
        # Long inactivity requires a new login, too.
        is_undone = (
            machine.undone_spans or sim.is_service_restored or sim.world.skipped_seconds > _LOGIN_SECONDS
        )
        if (
            machine.login is not None
            and not is_undone
            and (failure := machine.login.find_unexplained_logins())
        ):
            failures.append(f"login: {machine.name}: {failure}")
        failures += [f"gauge: {machine.name}: {failure}" for failure in await gauges.find_leaks(machine)]
    lost_sources = {sha1 for of_machine in bases.values() for sha1 in of_machine.values()}
    _judge_contents(sim, kept, lost_sources)


async def compare(sim: "_Simulation", machine: Machine) -> None:
    """Have the drive compare everything with the service; first it may have to list its root again."""
    for _ in range(5):
        if not await machine.agents.poll(full=True):
            break
        await trio.sleep(QUIET_SECONDS)
    else:
        raise AssertionError(f"{machine.name} compares nothing")
    await confirm_missing(sim, machine)


async def confirm_missing(sim: "_Simulation", machine: Machine, *, may_fail: bool = False) -> None:
    """Answer the question about many missing items: nobody deletes by mistake here.

    While requests from before the last fault still fail (`may_fail`), the question stays.
    """
    if machine.agents.deletion_check.pending() is not None:
        sim.outcome.states["asked about missing items"] += 1
        with contextlib.suppress(errors.RemoteError) if may_fail else contextlib.nullcontext():
            await machine.agents.decide_missing(True)


def is_alone(plan: Plan) -> bool:
    """Return whether only programs of one drive change anything, nothing is lost or falsified."""
    hindered = plan.person or plan.other or plan.kills or plan.troubles or plan.backup or plan.lies
    return plan.drives == 1 and not hindered


async def _check_kernel_cache(
    machine: Machine,
    there: dict[str, str],
    sizes: dict[str, int],
    failures: list[str],
    *,
    lost: Collection[str],
) -> None:
    """Check that names and sizes cached by the kernel match the service, except for the `lost` paths."""
    for path in map(path_of, range(PATHS)):
        if path in lost:
            continue
        found = await machine.kernel.exists(path)
        if found != (path in there):
            failures.append(f"stale: {machine.name}: {path} {'is' if found else 'is not'} there")
        elif found and (size := sizes.get(there[path])) is not None:
            cached_size = (await machine.kernel.stat(path)).size
            if cached_size != size:
                failures.append(
                    f"stale: {machine.name}: {path} has {cached_size} bytes by stat, {size} at the service"
                )


def _has_removals_unseen_by_search(machine: Machine, store: Store) -> bool:
    """Return whether a drive that polls by search still shows items that were purged, that were trashed with
    a folder they had just been moved to, or that another account moved to itself: it learns of these only by
    the next full comparison."""
    if machine.root_id is not None:
        return narrow.has_left(machine, store)
    if config.profile(machine.settings).feed == "events":
        return False
    ours = store.read("SELECT id FROM item WHERE status != 2 AND owner = ?", machine.user)
    there = {row["id"] for row in ours}
    known = machine.agents.state.db.rows(
        "SELECT remote_id FROM node WHERE remote_id IS NOT NULL AND parent IS NOT NULL AND ino > 2"
    )
    return any(int(row["remote_id"]) not in there for row in known)


def _judge_contents(sim: "_Simulation", kept: set[str], lost_sources: set[str]) -> None:
    """`lost_sources`: contents that are lost, with what was derived from them."""
    ledger, failures = sim.ledger, sim.outcome.failures
    for machine in sim.machines:
        for moment in machine.power_cuts:
            ledger.power_cut(machine.name, moment)
        if machine.name in sim.rotten:
            ledger.discard_promises(machine.name, 0.0, math.inf)
        for since, until in machine.undone_spans:
            ledger.discard_promises(machine.name, since, until)
    chains: dict[int, list[str]] = {}
    for row in sim.service.store.read("SELECT file, sha1 FROM version ORDER BY file, id"):
        chains.setdefault(row["file"], []).append(row["sha1"])
    kept |= {sha1 for chain in chains.values() for sha1 in chain}
    for content in ledger.vanished(kept):
        if ledger.is_derived(content, lost_sources | ledger.unverified) or ledger.is_joined(content, kept):
            continue
        failures.append(f"vanished: {ledger.labels.get(content, content)}")
    for old, new in ledger.unseen(chains.values()):
        if old in ledger.labels and new in ledger.acknowledged and not sim.is_service_restored:
            failures.append(
                f"unseen: {ledger.labels[new]} went over {ledger.labels[old]}, written over"
                f" {ledger.labels.get(str(ledger.acknowledged[new]), ledger.acknowledged[new])}"
            )
    if not ledger.has_torn_writes:
        failures.extend(f"foreign: {failure}" for failure in ledger.foreign)
    if not ledger.has_torn_writes and not ledger.unverified:
        for file, chain in chains.items():
            failures.extend(
                f"foreign: the service's file {file} has {content}"
                for content in chain
                if content not in ledger.labels
            )


def is_local(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".goutputstream-") or name.endswith("~")


def _differing(sim: "_Simulation", these: dict[str, str], those: dict[str, str]) -> dict[str, str]:
    labels = sim.ledger.labels
    return {path: labels.get(value, value) for path, value in these.items() if those.get(path) != value}


def service_tree(store: Store, root: int | None = None) -> dict[str, str]:
    """Return the paths of all items at the service below this folder, with the SHA-1 of each file."""
    rows = store.read("SELECT id, parent, kind, name, sha1 FROM item WHERE status = 0")
    # Only items below the first root; the second account has a root, too.
    if root is None:
        root = store.read("SELECT min(id) AS id FROM item WHERE status = 3")[0]["id"]
    return paths_below(rows, root)


def paths_below(items: Iterable[Mapping[str, Any] | sqlite3.Row], root: int) -> dict[str, str]:
    """Return the paths as the drive names them; those of web links make way for files beside them."""
    rows = {row["id"]: row for row in items if row["id"] != root}

    def path(row: Any) -> str:
        above = rows.get(row["parent"])
        return f"{path(above)}/{row['name']}" if above is not None else row["name"]

    def is_ours(row: Any) -> bool:
        above = rows.get(row["parent"])
        return is_ours(above) if above is not None else bool(row["parent"] == root)

    ours = [row for row in rows.values() if is_ours(row)]
    files = {path(row) for row in ours if row["kind"] == 1}
    found = {}
    for row in ours:
        name = path(row)
        if row["kind"] == 2:
            above, _, last = name.rpartition("/")
            name = f"{above}/{naming.file_name(NodeKind.LINK, last)}".lstrip("/")
            if name in files:
                name = f"{above}/{naming.link_beside(name.rpartition('/')[2], str(row['id']))}".lstrip("/")
        found[name] = "" if name.endswith(".url") else row["sha1"] or ""
    return found


def drop_unverified_pages(sim: "_Simulation", machine: Machine) -> None:
    """Drop what the kernel may have cached of damaged downloads.

    Files that count as large are verified once they are complete: what a rotten disk, or a cache that has
    hardly room for them, could not keep until then was read without that.
    """
    is_kept = machine.name not in sim.rotten and not (sim.plan.parts and sim.plan.tight)
    if machine.wire.faults["damaged download"] and not is_kept:
        machine.kernel.drop_all_pages()


async def drive_tree(
    machine: Machine, failures: list[str], *, is_rotten: bool = False, lost: Collection[str] = ()
) -> dict[str, str]:
    """Return the same as programs see it on the drive; unreadable files are failures unless `lost`."""
    found: dict[str, str] = {}
    unreadable: list[str] = []
    await _walk(machine, "", found, unreadable, is_rotten=is_rotten)
    known = tuple(f"unreadable: {machine.name}: {path}: " for path in lost)
    failures += [failure for failure in unreadable if not (known and failure.startswith(known))]
    return found


async def _walk(
    machine: Machine, folder: str, found: dict[str, str], failures: list[str], *, is_rotten: bool
) -> None:
    kernel: Kernel = machine.kernel
    for name in sorted(await kernel.listdir(folder)):
        path = f"{folder}/{name}".lstrip("/")
        if stat.S_ISDIR((await kernel.stat(path)).mode):
            found[path] = ""
            await _walk(machine, path, found, failures, is_rotten=is_rotten)
            continue
        if name.endswith(".url"):
            found[path] = ""
            continue
        try:
            data, size = await _read(machine, path)
            found[path] = sha1(data)
            if len(data) != size:
                failures.append(f"stale: {machine.name}: {path} has {len(data)} bytes, {size} by stat")
        except OSError as error:
            if is_rotten and error.errno == errno.ESTALE:
                found.pop(path, None)
                continue
            failures.append(f"unreadable: {machine.name}: {path}: {error}")


async def _open_folders(machine: Machine, folder: str = "") -> None:
    for name in sorted(await machine.kernel.listdir(folder)):
        path = f"{folder}/{name}".lstrip("/")
        if stat.S_ISDIR((await machine.kernel.stat(path)).mode):
            await _open_folders(machine, path)


async def _read(machine: Machine, path: str) -> tuple[bytes, int]:
    """Return the bytes of a file, and its size according to stat."""
    kernel: Kernel = machine.kernel
    for is_last in (False, True):
        size = (await kernel.stat(path)).size
        file = await kernel.open(path, 0)
        try:
            return await kernel.read(file), size
        except OSError as error:
            # A damaged block is reported to the reader of the last one; the next read downloads it again.
            if is_last or error.errno != errno.EIO or not machine.wire.faults["damaged download"]:
                raise
        finally:
            await kernel.close(file)
    raise AssertionError


def recovered(machine: Machine) -> set[str]:
    folder = machine.settings.paths.recovered
    return {sha1(path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def _is_needed(sim: "_Simulation", failure: str) -> bool:
    """Return whether the finding names (by SHA-1 prefix) bytes that somebody was promised, and that neither
    the service has nor a program gave up."""
    there = sim.service.versions()
    needed = sim.ledger.acknowledged.keys() - there - sim.ledger.replaced
    return any(f"({sha1[:12]})" in failure for sha1 in needed)


def check_states(sim: "_Simulation") -> None:
    """Run fsck on each machine's local state, after the machines have ended."""
    for machine in sim.machines:
        place = StatePaths.of(machine.settings.paths)
        report = Report(repair=False)
        fsck._look(place, report, quick=False)
        for finding in report.findings:
            if machine.power_cuts and "a power failure damaged" in finding.text:
                continue  # not read before it is verified
            is_orphan = machine.power_cuts and "no longer belong to any file" in finding.text
            if is_orphan and not _is_needed(sim, finding.text):
                # The power cut undid the file's removal, or the row of what had not been durable yet.
                continue
            sim.outcome.failures.append(f"fsck: {machine.name}: {finding.area}: {finding.text}")
        with contextlib.closing(sqlite3.connect(place.database)) as conn:
            if conn.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                sim.outcome.failures.append(f"fsck: {machine.name}: the database is damaged")
