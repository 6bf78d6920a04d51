"""`cmsfs service renumber`: tells a service that it was restored from a backup."""

from pathlib import Path

import click
import trio

from cmsfs import config, output
from cmsfs.cli.support import context
from cmsfs.service.storage import renumber as service_renumber


@click.command("renumber")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder (default: the demo's).")
@click.option("--database", metavar="URL", help="Where its database is, as given to serve.")
@context.pass_context
def renumber(ctx: context.Context, data: Path | None, *, database: str | None) -> None:
    """Tell a stopped service that its database was restored from a backup.

    Clients know what was written after the backup.  With this the service gives none of its numbers again,
    and every drive compares all it has with the service once.
    """
    folder = data or config.service_data(ctx.settings())
    trio.run(lambda: service_renumber.renumber(folder, database_url=database))
    output.say("The service continues with new numbers; every drive will compare all it has once.")
