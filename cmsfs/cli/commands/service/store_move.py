"""`cmsfs service move`: copies a service's data into another store, possibly with other engines."""

import shlex
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import trio

from cmsfs import config, errors, output
from cmsfs.cli.support import context
from cmsfs.service.storage import blobs, store
from cmsfs.service.storage.move import contents, postgres_load, rows, sqlite_load
from cmsfs.service.storage.move.tables import BulkLoad


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The location of a store."""

    folder: Path
    database: str | None
    blobs: str | None


@click.command("move")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder to copy (default: the demo's).")
@click.option("--database", metavar="URL", help="Its database, as given to serve.")
@click.option("--blobs", "blobs_url", metavar="URL", help="Where its contents are, as given to serve.")
@click.option("--to-data", type=click.Path(path_type=Path), required=True, help="Data folder of the copy.")
@click.option("--to-database", metavar="URL", help="Database of the copy: postgresql://host/name.")
@click.option("--to-blobs", metavar="URL", help="Where the copy has its contents: s3://bucket/prefix.")
@click.option("--incomplete", is_flag=True, help="Go on although contents are missing or damaged.")
@output.json_option
@context.pass_context
def move(
    ctx: context.Context,
    data: Path | None,
    *,
    database: str | None,
    blobs_url: str | None,
    to_data: Path,
    to_database: str | None,
    to_blobs: str | None,
    incomplete: bool,
    as_json: bool,
) -> None:
    """Copy a service's data into a new store: to PostgreSQL and a bucket, or back into a folder.

    Both services must be stopped. The copy is compared before it counts, and the original stays as it is.
    After an interruption run it again: contents that have arrived are not sent twice.
    """
    source = StorePlace(data or config.service_data(ctx.settings()), database, blobs_url)
    target = StorePlace(to_data, to_database, to_blobs)
    if database is None and not (source.folder / "service.db").is_file():
        raise errors.UserError(f"{source.folder} has no service's data.")
    if source.folder.resolve() == target.folder.resolve():
        raise errors.UserError("The copy needs a data folder of its own.", exit_code=2)
    if (database is not None and database == to_database) or (
        blobs_url is not None and blobs_url == to_blobs
    ):
        raise errors.UserError("The copy needs a database and a prefix of its own.", exit_code=2)
    moved, counts = trio.run(partial(_move, source, target, incomplete=incomplete, quiet=as_json))
    if as_json:
        output.document(
            {
                "contents": moved.moved,
                "bytes": moved.size,
                "already_there": moved.already_there,
                "broken": sorted(moved.broken),
                "rows": counts,
            }
        )
    else:
        output.say(
            f"Moved: {sum(counts.values())} rows of {len(counts)} tables; {moved.moved} contents,"
            f" {output.size(moved.size)}, and {moved.already_there} were there already."
        )
        output.say(f"The original is as it was.  Serve the copy: cmsfs serve {serve_options(target)}")
    if moved.broken:
        broken = f"{len(moved.broken)} contents are missing or damaged"
        message = f"{broken}; cmsfs service check names their files."
        click.echo(message, err=True)


def serve_options(place: StorePlace) -> str:
    """Return the options that name a store, for a shell."""
    found = ["--data", str(place.folder)]
    found += ["--database", place.database] if place.database else []
    return shlex.join(found + (["--blobs", place.blobs] if place.blobs else []))


async def _move(
    source: StorePlace, target: StorePlace, *, incomplete: bool, quiet: bool
) -> tuple[contents.MovedContents, dict[str, int]]:
    def show(message: str) -> None:
        if sys.stderr.isatty() and not quiet:
            click.echo(f"\r\x1b[K{message}\r", nl=False, err=True)

    try:
        async with _open(source) as old, _open(target) as new:
            if await new.query(rows.is_used):
                raise errors.UserError("The copy's place has data of a service already; choose an empty one.")
            moved = await contents.move(old, new, lambda number: show(f"contents: {number * 100 // 256} %"))
            if moved.broken and not incomplete:
                raise errors.UserError(
                    f"{len(moved.broken)} contents are missing or damaged (cmsfs service check names their"
                    " files); --incomplete goes on without them."
                )
            counts = await rows.move(
                old, _bulk_loader(source), new, _bulk_loader(target), lambda name: show(f"rows: {name}")
            )
    except blobs.BlobsUnavailable as error:
        raise errors.UserError(f"The contents cannot be reached: {error.strerror}.") from error
    show("")
    return moved, counts


def _open(place: StorePlace) -> AbstractAsyncContextManager[store.Store]:
    # No sweep: contents of an interrupted move are not referenced by rows yet.
    return store.open_store(
        place.folder, place.blobs, database_url=place.database, sweep=False, exclusive=True
    )


def _bulk_loader(place: StorePlace) -> BulkLoad:
    if place.database is None:
        return sqlite_load
    return postgres_load
