"""`cmsfs templates`: metadata templates, for administrators."""

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, tables
from cmsfs.client import session
from cmsfs.client.content import metadata as client_metadata
from cmsfs.models.content import metadata, search
from cmsfs.runtime import threads

COLUMNS = ("templateKey", "displayName", "scope", "hidden", "id")
FIELD_COLUMNS = ("key", "type", "displayName", "options")


@click.group()
def templates() -> None:
    """Metadata templates: list, show, remove."""


def _scope(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--scope",
        type=click.Choice(["enterprise", "global"]),
        default="enterprise",
        show_default=True,
        help="Whose template.",
    )(command)


@templates.command("list")
@_scope
@tables.limit_option
@tables.fields_option("templateKey,displayName")
@output.json_option
@context.pass_context
def list_(
    ctx: context.Context,
    *,
    scope: client_metadata.Scope,
    limit: int | None,
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the templates."""

    async def work() -> list[metadata.Template]:
        async with connect.open_backend(ctx.settings()) as client:
            return await tables.collected(client.metadata.templates(scope), "template", limit=limit)

    tables.show_all(trio.run(work), COLUMNS, noun="template", fields=fields, as_json=as_json)


@templates.command("show")
@click.argument("key")
@_scope
@output.json_option
@context.pass_context
def show(ctx: context.Context, key: str, *, scope: client_metadata.Scope, as_json: bool) -> None:
    """Show the template KEY and its fields."""

    async def work() -> metadata.Template:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.metadata.template(key, scope)

    found = trio.run(work)
    if as_json:
        tables.show(found, as_json=True)
        return
    tables.show(found, fields=COLUMNS, as_json=False)
    output.say("")
    tables.show_all(found.fields or [], FIELD_COLUMNS, noun="field", as_json=False)


@templates.command("remove")
@click.argument("key")
@_scope
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
@context.pass_context
def remove(ctx: context.Context, key: str, *, scope: client_metadata.Scope, yes: bool, as_json: bool) -> None:
    """Permanently delete the template KEY and all its instances."""

    async def work() -> int:
        async with connect.open_backend(ctx.settings()) as client:
            template = await client.metadata.template(key, scope)
            count = await _instances(client, key, scope)
            if not yes:
                told = (
                    f"{template.display_name or key} is on {output.plural(count, 'item')} that you can see."
                )
                output.note(f"{told} Its values are deleted permanently.")
                # A thread: the question may stay open for as long as a lunch.
                await threads.run_sync(_confirm, key)
            await client.metadata.delete_template(key, scope)
            return count

    count = trio.run(work)
    if as_json:
        output.document({"templateKey": key, "scope": scope, "instances": count})
    else:
        output.say(f"Deleted {key} and its values on {output.plural(count, 'item')}.")


def _confirm(key: str) -> None:
    if not output.confirm(f"Remove {key}?"):
        raise errors.UserError("Nothing was deleted.")


async def _instances(client: session.Client, key: str, scope: client_metadata.Scope) -> int:
    """Return the number of items with an instance, including trashed ones."""
    wanted = {
        "mdfilters": [{"scope": scope, "templateKey": key, "filters": {}}],
        "trash_content": "all_items",
        "fields": ["id"],
        "limit": 1,
    }
    return (await client.search.page(search.Query.model_validate(wanted))).total_count
