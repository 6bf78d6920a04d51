"""`cmsfs service`: maintains the data of the embedded service, while it runs or is stopped."""

import dataclasses
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import click
import trio

from cmsfs import config, errors, output
from cmsfs.cli.commands.service import store_move, store_relocate, store_renumber
from cmsfs.cli.support import context
from cmsfs.service.storage import blob_check, blobs, store
from cmsfs.service.storage.database_url import checked_url

# How many contents of each kind are listed; --json lists all.
_MAX_LISTED = 20


@click.group()
def service() -> None:
    """The embedded service's data: check, move, relocate, renumber."""


service.add_command(store_move.move)
service.add_command(store_relocate.relocate)
service.add_command(store_renumber.renumber)


@service.command("check")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder (default: the demo's).")
@click.option("--database", metavar="URL", help="Where its database is, as given to serve.")
@click.option("--blobs", "blobs_url", metavar="URL", help="Where its contents are, as given to serve.")
@click.option("--quick", is_flag=True, help="Compare lengths; do not read the contents.")
@click.option("--repair", is_flag=True, help="Set orphaned contents aside; bring back those that files need.")
@output.json_option
@context.pass_context
def check(
    ctx: context.Context,
    data: Path | None,
    *,
    database: str | None,
    blobs_url: str | None,
    quick: bool,
    repair: bool,
    as_json: bool,
) -> None:
    """Compare the service's files with their contents: missing, damaged, orphaned.

    The service may run meanwhile.  Exit code 1: contents are missing or damaged.
    """
    folder = data or config.service_data(ctx.settings())
    if database is None:
        _check_format(folder)
    else:
        _check_database(database)
    report = trio.run(_check, store_move.StorePlace(folder, database, blobs_url), quick, repair, as_json)
    if as_json:
        output.document(dataclasses.asdict(report))
    else:
        _print_report(report, repair=repair)
    sys.exit(1 if report.missing or report.damaged else 0)


def _check_database(url: str) -> None:
    """Check the format of a PostgreSQL database without upgrading it.  Raises `UserError`."""
    store.load_postgres()
    from cmsfs.service.storage.postgres import format

    if format.read_format(checked_url(url)) != store.VERSION:
        message = (
            "The database has no service's data, or that of another version of cmsfs; serve it with this one."
        )
        raise errors.UserError(message)


async def _check(
    place: store_move.StorePlace, quick: bool, repair: bool, as_json: bool
) -> blob_check.BlobReport:
    def progress(number: int) -> None:
        if sys.stderr.isatty() and not as_json:
            click.echo(f"\r{number * 100 // 256:3} %\r", nl=False, err=True)

    try:
        async with store.open_store(
            place.folder, place.blobs, database_url=place.database, sweep=False
        ) as opened:
            return await blob_check.BlobCheck(opened, read_all=not quick, repair=repair).run(progress)
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error


def _check_format(folder: Path) -> None:
    """Refuse data that opening would create, or upgrade while a service is running."""
    path = folder / "service.db"
    if not path.is_file():
        raise errors.UserError(f"{folder} has no service's data.")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
            found = conn.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise errors.UserError(f"{path} cannot be read: {error}.") from error
    if found != store.VERSION:
        message = f"{path} was written by another version of cmsfs; serve it once with this one."
        raise errors.UserError(message)


def _print_report(report: blob_check.BlobReport, *, repair: bool) -> None:
    for word, broken in (("missing", report.missing), ("damaged", report.damaged)):
        for one in broken[:_MAX_LISTED]:
            for file in one.files:
                output.say(
                    f"{word}: {one.sha1}, version {file['version']} of {file['name']}"
                    f" (file {file['file']}, {file['login']})"
                )
        if len(broken) > _MAX_LISTED:
            output.say(f"{word}: {len(broken) - _MAX_LISTED} more (--json)")
    output.say(
        f"{report.contents} contents, {output.size(report.size)}: {len(report.missing)} missing,"
        f" {len(report.damaged)} damaged; {len(report.orphans)} orphaned."
    )
    if report.uploads or report.stray_parts or report.stray_derived:
        output.say(
            f"{report.uploads} unfinished uploads: {len(report.broken_uploads)} lack parts;"
            f" {report.stray_parts} parts and {report.stray_derived} derived files are unreferenced."
        )
    if report.missing or report.damaged:
        output.say("Those contents are needed from a backup, or by another upload of the same bytes.")
    if repair:
        output.say(f"Set aside: {report.set_aside}.  Brought back: {report.brought_back}.")
    elif report.orphans or report.stray_parts or report.stray_derived:
        output.say("With --repair, what is orphaned or unreferenced is removed after an hour.")
