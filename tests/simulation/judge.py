"""The judgement of a story: what must be true when all is quiet again."""

import contextlib
import errno
import math
import sqlite3
import stat
import traceback
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import trio

from cmsfs import config, errors
from cmsfs.replica import naming, tree
from cmsfs.replica.sharing import lost_access
from cmsfs.service.oauth import access_tokens
from cmsfs.service.storage.store import Store
from daemon.fsck import __main__ as fsck
from daemon.fsck.findings import Report, StatePaths
from daemon.push import error_policy
from daemon.push.error_policy import LOST_BASE
from tests.simulation import gauges, second_account
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import sha1
from tests.simulation.machines import Machine
from tests.simulation.promises import PATHS, path_of
from tests.simulation.story import Plan

QUIET_SECONDS = 40.0

_LOGIN_SECONDS = access_tokens.REFRESH_LIFETIME / access_tokens.SECOND

if TYPE_CHECKING:
    from tests.simulation.simulation import _Simulation


def told(error: BaseException) -> str:
    """An error with the innermost places that it came from."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    places = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno}" for place in reversed(places))
    return f"{error!r} at {where}"


async def judge(one: "_Simulation") -> None:
    """Everything that can be seen while the machines run."""
    failures = one.outcome.failures
    lost: dict[str, set[str]] = {
        machine.name: _lost_with_service(one, machine) | _lost_with_versions(one, machine)
        for machine in one.machines
    }
    for machine, before in zip(one.machines, one.before_quiet, strict=True):
        if machine.wire.changes != before:
            failures.append(f"not quiet: {machine.name} still changes things at the service")
        rows = machine.agents.state.db.rows("SELECT kind, state, ino, error FROM op ORDER BY seq")
        for row in rows:
            if machine.name in one.rotten and row["error"] == LOST_BASE:
                continue
            if row["error"] == lost_access.REASON:
                one.outcome.states["not shared any more"] += 1
                continue
            path = tree.path(machine.agents.state.db, row["ino"])
            if path.lstrip("/") in lost[machine.name]:
                one.outcome.states["lost with the service"] += 1
                continue
            failures.append(f"unsent: {machine.name} {row['kind']} {row['state']} {path} {row['error']}")
    for programs in one.programs.values():
        failures += [f"wrong bytes: {said}" for said in programs.wrong]
    there = service_tree(one.service.store)
    sizes = {row["sha1"]: row["size"] for row in one.service.store.read("SELECT sha1, size FROM version")}
    kept: set[str] = set()
    if _is_alone(one.plan):
        copies = [path for path in there if naming.original_name(path.rpartition("/")[2]) is not None]
        failures += [f"conflict: {path}, and nobody else is there" for path in copies]
    for machine in one.machines:
        if one.is_second(machine):
            kept |= await second_account.judge(one, machine)
            continue
        if one.is_of_the_past:
            # Events that were told before are told anew as others: only a comparison finds all of that.  And
            # a folder that is gone stays until what is in it here is known to be elsewhere: the next one
            # removes it.
            for _ in range(2):
                await machine.agents.poll(full=True)
                await trio.sleep(QUIET_SECONDS)
        elif machine.wire.liar.has_hidden:
            # What was told as it was not, or never told.
            await machine.agents.poll(full=True)
            await trio.sleep(QUIET_SECONDS)
        elif _has_what_no_search_tells(machine, one.service.store):
            one.outcome.states["what no search tells"] += 1
            await machine.agents.poll(full=True)
            await trio.sleep(QUIET_SECONDS)
        if machine.name not in one.rotten:
            await _remembered(machine, there, sizes, failures, lost=lost[machine.name])
        is_rotten = machine.name in one.rotten
        here = await drive_tree(machine, failures, is_rotten=is_rotten, lost=lost[machine.name])
        kept |= {value for value in here.values() if value}
        kept |= recovered(machine)
        local = {path for path in here if is_local(path)} | lost[machine.name]
        shown = {path: value for path, value in here.items() if path not in local}
        theirs = {
            path: value
            for path, value in there.items()
            if not is_local(path) and path not in lost[machine.name]
        }
        if shown != theirs:
            failures.append(
                f"not the same: {machine.name} shows {_named(one, shown, theirs)}, the service has"
                f" {_named(one, theirs, shown)}"
            )
    for machine in one.machines:
        # Who does nothing for so long has to log in anew, too.
        is_undone = machine.undone or one.is_of_the_past or one.world.slept > _LOGIN_SECONDS
        if machine.login is not None and not is_undone and (said := machine.login.unexplained()):
            failures.append(f"login: {machine.name}: {said}")
        failures += [f"gauge: {machine.name}: {said}" for said in await gauges.not_back(machine)]
    _judge_contents(one, kept)


def _is_alone(plan: Plan) -> bool:
    """Whether only programs of one drive change anything, nothing is lost, and nobody lies."""
    hindered = plan.person or plan.other or plan.kills or plan.troubles or plan.backup or plan.lies
    return plan.drives == 1 and not hindered


def _lost_with_service(one: "_Simulation", machine: Machine) -> set[str]:
    """Paths of what a drive still knows, and had never fetched when the service lost it: it says so."""
    if not one.is_of_the_past:
        return set()
    db, found = machine.agents.state.db, set()
    had = {row["sha1"] for row in one.service.store.read("SELECT sha1 FROM version")}
    missing = error_policy.verdict_for(errors.MissingBlocks("", 0, 0), 0).reason
    for row in db.rows("SELECT ino FROM op WHERE state = 'held' AND error = ?", missing):
        node = tree.find(db, row["ino"])
        if node is not None and node.sha1 in one.ledger.replaced and node.sha1 not in had:
            found.add(tree.path(db, node.ino).lstrip("/"))
    return found


def _lost_with_versions(one: "_Simulation", machine: Machine) -> set[str]:
    """Paths of what is only here, with bytes that the service alone had until somebody purged them."""
    db, found = machine.agents.state.db, set()
    had = {row["sha1"] for row in one.service.store.read("SELECT sha1 FROM version")}
    only_here = "SELECT ino, sha1 FROM node WHERE kind = 'file' AND parent IS NOT NULL AND remote_id IS NULL"
    for row in db.rows(only_here):
        if row["sha1"] in one.ledger.replaced and row["sha1"] not in had:
            found.add(tree.path(db, row["ino"]).lstrip("/"))
    return found


async def _remembered(
    machine: Machine,
    there: dict[str, str],
    sizes: dict[str, int],
    failures: list[str],
    *,
    lost: Collection[str],
) -> None:
    """What the kernel remembers of the names that programs use is what the service has; not so the `lost`."""
    for path in map(path_of, range(PATHS)):
        if path in lost:
            continue
        found = await machine.kernel.exists(path)
        if found != (path in there):
            failures.append(f"stale: {machine.name}: {path} {'is' if found else 'is not'} there")
        elif found and (size := sizes.get(there[path])) is not None:
            told = (await machine.kernel.stat(path)).size
            if told != size:
                failures.append(
                    f"stale: {machine.name}: {path} has {told} bytes as told, {size} at the service"
                )


def _has_what_no_search_tells(machine: Machine, store: Store) -> bool:
    """Whether a drive that hears of changes by searches shows what was removed for good, or went into the
    trash with a folder that it was moved to a moment before: it learns that by the next full comparison."""
    if config.profile(machine.settings).feed == "events":
        return False
    there = {row["id"] for row in store.read("SELECT id FROM item WHERE status != 2")}
    known = machine.agents.state.db.rows(
        "SELECT remote_id FROM node WHERE remote_id IS NOT NULL AND parent IS NOT NULL AND ino > 2"
    )
    return any(int(row["remote_id"]) not in there for row in known)


def _judge_contents(one: "_Simulation", kept: set[str]) -> None:
    ledger, failures = one.ledger, one.outcome.failures
    for machine in one.machines:
        for moment in machine.cuts:
            ledger.power_cut(machine.name, moment)
        if machine.name in one.rotten:
            ledger.undone(machine.name, 0.0, math.inf)
        for since, until in machine.undone:
            ledger.undone(machine.name, since, until)
    chains: dict[int, list[str]] = {}
    for row in one.service.store.read("SELECT file, sha1 FROM version ORDER BY file, id"):
        chains.setdefault(row["file"], []).append(row["sha1"])
    kept |= {sha1 for chain in chains.values() for sha1 in chain}
    for content in ledger.vanished(kept):
        failures.append(f"vanished: {ledger.labels.get(content, content)}")
    for old, new in ledger.unseen(chains.values()):
        if old in ledger.labels and new in ledger.acknowledged and not one.is_of_the_past:
            failures.append(
                f"unseen: {ledger.labels[new]} went over {ledger.labels[old]}, written over"
                f" {ledger.labels.get(str(ledger.acknowledged[new]), ledger.acknowledged[new])}"
            )
    if not ledger.torn:
        failures.extend(f"foreign: {said}" for said in ledger.foreign)
        for file, chain in chains.items():
            failures.extend(
                f"foreign: the service's file {file} has {content}"
                for content in chain
                if content not in ledger.labels
            )


def is_local(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".goutputstream-") or name.endswith("~")


def _named(one: "_Simulation", these: dict[str, str], those: dict[str, str]) -> dict[str, str]:
    labels = one.ledger.labels
    return {path: labels.get(value, value) for path, value in these.items() if those.get(path) != value}


def service_tree(store: Store) -> dict[str, str]:
    """Paths of everything that the service shows, with the SHA-1 of each file's bytes."""
    rows = {
        row["id"]: row for row in store.read("SELECT id, parent, kind, name, sha1 FROM item WHERE status = 0")
    }

    # Theirs is what is below the first root; the other account has one, too.
    root = store.read("SELECT min(id) AS id FROM item WHERE status = 3")[0]["id"]

    def path(row: Any) -> str:
        above = rows.get(row["parent"])
        return f"{path(above)}/{row['name']}" if above is not None else row["name"]

    def is_ours(row: Any) -> bool:
        above = rows.get(row["parent"])
        return is_ours(above) if above is not None else bool(row["parent"] == root)

    return {
        path(row) + (".url" if row["kind"] == 2 else ""): row["sha1"] or ""
        for row in rows.values()
        if is_ours(row)
    }


async def drive_tree(
    machine: Machine, failures: list[str], *, is_rotten: bool = False, lost: Collection[str] = ()
) -> dict[str, str]:
    """The same, as programs see it on the drive; what they cannot read is a failure, unless it is `lost`."""
    found: dict[str, str] = {}
    unreadable: list[str] = []
    await _walk(machine, "", found, unreadable, is_rotten=is_rotten)
    known = tuple(f"unreadable: {machine.name}: {path}: " for path in lost)
    failures += [said for said in unreadable if not (known and said.startswith(known))]
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
                failures.append(f"stale: {machine.name}: {path} has {len(data)} bytes, not {size} as told")
        except OSError as error:
            if is_rotten and error.errno == errno.ESTALE:
                found.pop(path, None)
                continue
            failures.append(f"unreadable: {machine.name}: {path}: {error}")


async def _read(machine: Machine, path: str) -> tuple[bytes, int]:
    """The bytes of a file, and how many there are as told."""
    kernel: Kernel = machine.kernel
    for is_last in (False, True):
        size = (await kernel.stat(path)).size
        file = await kernel.open(path, 0)
        try:
            return await kernel.read(file), size
        except OSError as error:
            # Who reads the last piece is told of one that came wrong before; it comes anew for the next one.
            if is_last or error.errno != errno.EIO or not machine.wire.faults["damaged download"]:
                raise
        finally:
            await kernel.close(file)
    raise AssertionError


def recovered(machine: Machine) -> set[str]:
    folder = machine.settings.paths.recovered
    return {sha1(path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def _is_known(one: "_Simulation", said: str) -> bool:
    """Whether the service has, or somebody gave up, the bytes whose SHA-1 begins as it is said here."""
    known = {row["sha1"] for row in one.service.store.read("SELECT sha1 FROM version")} | one.ledger.replaced
    return any(f"({sha1[:12]})" in said for sha1 in known)


def check_states(one: "_Simulation") -> None:
    """What is on the disks when the machines have ended."""
    for machine in one.machines:
        place = StatePaths.of(machine.settings.paths)
        report = Report(repair=False)
        fsck._look(place, report, quick=False)
        for finding in report.findings:
            if (
                machine.cuts
                and "no longer belong to any file" in finding.text
                and _is_known(one, finding.text)
            ):
                continue  # the row went, and its file came back: of what the service has or had
            one.outcome.failures.append(f"fsck: {machine.name}: {finding.area}: {finding.text}")
        with contextlib.closing(sqlite3.connect(place.database)) as conn:
            if conn.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                one.outcome.failures.append(f"fsck: {machine.name}: the database is damaged")
