"""`cmsfs service`: looks after the data of the embedded service, beside it or while it is stopped."""

import dataclasses
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import click
import trio

from cmsfs import config, errors, output
from cmsfs.cli.commands.service import store_move
from cmsfs.cli.support import context
from cmsfs.service.storage import blob_check, blobs, store
from cmsfs.service.storage.database_url import checked_url

# How many contents of a kind are named; --json names them all.
_SHOWN = 20


@click.group()
def service() -> None:
    """The embedded service's data: check, move."""


service.add_command(store_move.move)


@service.command("check")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder (default: the demo's).")
@click.option("--database", metavar="URL", help="Where its database is, as given to serve.")
@click.option("--blobs", "blobs_url", metavar="URL", help="Where its contents are, as given to serve.")
@click.option("--quick", is_flag=True, help="Compare lengths; do not read the contents.")
@click.option("--repair", is_flag=True, help="Set aside what no file has; bring back what was set aside.")
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
    """Compare the service's files with their contents: missing, damaged, named by no file.

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
        _show(report, repair=repair)
    sys.exit(1 if report.missing or report.damaged else 0)


def _check_database(url: str) -> None:
    """The same for a database on a server."""
    store.load_postgres()
    from cmsfs.service.storage.postgres import format

    if format.found(checked_url(url)) != store.VERSION:
        said = (
            "The database has no service's data, or that of another version of cmsfs; serve it with this one."
        )
        raise errors.UserError(said)


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
    """Refuse data that opening would make, or bring to a newer format under a running service's hands."""
    path = folder / "service.db"
    if not path.is_file():
        raise errors.UserError(f"{folder} has no service's data.")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
            found = conn.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise errors.UserError(f"{path} cannot be read: {error}.") from error
    if found != store.VERSION:
        said = f"{path} was written by another version of cmsfs; serve it once with this one."
        raise errors.UserError(said)


def _show(report: blob_check.BlobReport, *, repair: bool) -> None:
    for word, broken in (("missing", report.missing), ("damaged", report.damaged)):
        for one in broken[:_SHOWN]:
            for file in one.files:
                output.say(
                    f"{word}: {one.sha1}, version {file['version']} of {file['name']}"
                    f" (file {file['file']}, {file['login']})"
                )
        if len(broken) > _SHOWN:
            output.say(f"{word}: {len(broken) - _SHOWN} more (--json)")
    output.say(
        f"{report.contents} contents, {output.size(report.size)}: {len(report.missing)} missing,"
        f" {len(report.damaged)} damaged; {len(report.orphans)} that no file has."
    )
    if report.uploads or report.stray_parts or report.stray_derived:
        output.say(
            f"{report.uploads} unfinished uploads: {len(report.broken_uploads)} lack parts;"
            f" {report.stray_parts} parts and {report.stray_derived} derived files that nothing names."
        )
    if repair:
        output.say(f"Set aside: {report.set_aside}.  Brought back: {report.brought_back}.")
    elif report.orphans or report.stray_parts or report.stray_derived:
        output.say("--repair has those removed that no file has, after an hour.")
