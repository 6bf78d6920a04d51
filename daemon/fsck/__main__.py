"""The program behind `cmsfs fsck`: checks the state of an account whose drive is not mounted.

Exit codes: 0 all is well, or was repaired; 1 something is wrong and was not repaired; 8 the drive is mounted.

Rule: it holds the account's lock all the while, as the daemon does.
"""

import contextlib
import sqlite3
import sys
from dataclasses import asdict
from pathlib import Path

import click
import trio

from cmsfs import config, errors, logs, output
from cmsfs.replica import database
from daemon import instance_lock, local_state
from daemon.fsck import contents, journal, salvage
from daemon.fsck.findings import Report, StatePaths
from daemon.push import recovered_files


@click.command()
@click.option("--account", help="The account, or the folder of a restricted drive.")
@click.option("--repair", is_flag=True, help="Repair the errors found.")
@click.option("--quick", is_flag=True, help="Skip verifying cached contents.")
@output.json_option
def fsck(account: str | None, *, repair: bool, quick: bool, as_json: bool) -> None:
    """Check the local state of an account."""
    logs.configure("ERROR")
    try:
        settings = config.load(account)
        report = run(settings, repair=repair, quick=quick)
    except errors.UserError as error:
        output.complain(error.message)
        sys.exit(error.exit_code)
    if as_json:
        found = {"repaired": repair, "findings": [asdict(one) for one in report.findings]}
        output.document(
            found | {"recovered": [one.path for one in recovered_files.waiting(settings.paths.recovered)]}
        )
    else:
        _show(report, settings.paths.recovered)
    sys.exit(1 if report.findings and not repair else 0)


def run(settings: config.Settings, *, repair: bool, quick: bool = False) -> Report:
    """Check, and repair if so asked; all that was found.  Raises `UserError` if the drive is mounted."""
    report = Report(repair)
    place = StatePaths.of(settings.paths)
    if not settings.paths.state.exists():
        return report
    with instance_lock.single_instance(settings.paths.lock, account=settings.place):
        if salvage.check(place, report):
            _look(place, report, quick=quick)
        if repair and report.findings:
            settings.paths.ensure()
            # What every start puts in order after a crash is put in order now.
            trio.run(_start, settings)
    return report


def _look(place: StatePaths, report: Report, *, quick: bool) -> None:
    with contextlib.closing(sqlite3.connect(place.database, isolation_level=None)) as conn:
        conn.row_factory = sqlite3.Row
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        if version != database.VERSION:
            raise errors.UserError(
                f"{place.database} was written by another version of cmsfs (format {version}, this one "
                f"checks {database.VERSION}); `cmsfs mount` brings an older one up to date."
            )
        # Off: what it would refuse is what we are here to mend.
        conn.execute("PRAGMA foreign_keys=OFF")
        conn.execute("PRAGMA synchronous=FULL")
        conn.execute("BEGIN IMMEDIATE" if report.repair else "BEGIN")
        salvage.restore(conn, place, report)
        journal.check(conn, report)
        journal.check_drafts(conn, place.drafts, report)
        contents.check(conn, place, report, hashes=not quick)
        if report.repair and any(one.area in ("database", "tree") for one in report.findings):
            journal.schedule_relisting(conn)
        conn.execute("COMMIT" if report.repair else "ROLLBACK")


async def _start(settings: config.Settings) -> None:
    async with local_state.open_state(settings):
        pass


def _show(report: Report, kept: Path) -> None:
    for one in report.findings:
        output.say(f"{one.area}: {one.text}")
        output.say(f"    {'done: ' if report.repair else ''}{one.remedy}")
    count = output.plural(len(report.findings), "finding")
    if not report.findings:
        output.say("The local state is consistent.")
    elif report.repair:
        output.say(f"{count}, repaired.")
    else:
        output.say(f"{count}; `cmsfs fsck --repair` carries out the remedy below each.")
    if files := recovered_files.waiting(kept):
        output.say(f"{output.plural(len(files), 'file')} with no place on the drive, kept in {kept}.")


if __name__ == "__main__":
    fsck()
