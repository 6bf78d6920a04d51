"""`cmsfs exemptions`: users exempt from the collaboration allowlist, for administrators."""

import click
import trio

from cmsfs import output
from cmsfs.auth import connect
from cmsfs.cli.support import context, tables
from cmsfs.models.enterprise import exemptions as models_exemptions

COLUMNS = ("id", "user.name", "user.login", "created_at")


@click.group()
def exemptions() -> None:
    """Exemptions from the list of domains to collaborate with: list, show."""


@exemptions.command("list")
@tables.limit_option
@tables.fields_option("id,user.login")
@output.json_option
@context.pass_context
def list_(ctx: context.Context, *, limit: int | None, fields: tuple[str, ...], as_json: bool) -> None:
    """List the exemptions."""

    async def work() -> list[models_exemptions.Exemption]:
        async with connect.open_backend(ctx.settings()) as client:
            return await tables.collected(client.exemptions.list(), "exemption", limit=limit)

    tables.show_all(trio.run(work), COLUMNS, noun="exemption", fields=fields, as_json=as_json)


@exemptions.command("show")
@click.argument("exemption")
@tables.fields_option("id,user.login")
@output.json_option
@context.pass_context
def show(ctx: context.Context, exemption: str, *, fields: tuple[str, ...], as_json: bool) -> None:
    """Show an exemption, given by its id."""

    async def work() -> models_exemptions.Exemption:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.exemptions.get(exemption)

    tables.show(trio.run(work), fields=fields, as_json=as_json)
