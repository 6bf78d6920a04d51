"""`cmsfs service relocate`: tells a service where its contents were copied to."""

from functools import partial
from pathlib import Path

import click
import trio

from cmsfs import config, output
from cmsfs.cli.commands.service import store_move
from cmsfs.cli.support import context
from cmsfs.service.storage import relocate as service_relocate


@click.command("relocate")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder (default: the demo's).")
@click.option("--database", metavar="URL", help="Where its database is, as given to serve.")
@click.option("--blobs", "blobs_url", metavar="URL", help="Where its contents are now: s3://bucket/prefix.")
@context.pass_context
def relocate(ctx: context.Context, data: Path | None, *, database: str | None, blobs_url: str | None) -> None:
    """Tell a stopped service that its contents have been copied to another bucket, prefix or folder.

    That is needed when a backup is restored at another place: the database names the place that it was taken
    from.  Without --blobs the contents are in the data folder.
    """
    folder = data or config.service_data(ctx.settings())
    place = trio.run(partial(service_relocate.relocate, folder, blobs_url, database_url=database))
    options = store_move.serve_options(store_move.StorePlace(folder, database, blobs_url))
    output.say(f"The contents are in {place} now.  Compare them: cmsfs service check {options}")
