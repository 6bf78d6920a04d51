"""`cmsfs holds`: legal hold policies, for administrators."""

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, tables
from cmsfs.client import session
from cmsfs.models.enterprise import legal_holds

COLUMNS = ("id", "policy_name", "status", "is_ongoing", "filter_started_at", "filter_ended_at")


@click.group()
def holds() -> None:
    """Legal hold policies: list, edit."""


@holds.command("list")
@click.argument("name", required=False)
@tables.limit_option
@tables.fields_option("id,created_by.name")
@output.json_option
@context.pass_context
def list_(
    ctx: context.Context, name: str | None, *, limit: int | None, fields: tuple[str, ...], as_json: bool
) -> None:
    """List the policies; with NAME those whose names begin with it."""

    async def work() -> list[legal_holds.LegalHoldPolicy]:
        async with connect.open_backend(ctx.settings()) as client:
            entries = client.legal_holds.list(name=name, fields=tables.requested_fields(fields or COLUMNS))
            return await tables.collected(entries, "policy", limit=limit)

    tables.show_all(trio.run(work), COLUMNS, noun="such policy", fields=fields, as_json=as_json)


@holds.command("edit")
@click.argument("policy")
@click.option("--name", "policy_name", metavar="TEXT", help="New name.")
@click.option("--description", metavar="TEXT")
@click.option("--release-notes", metavar="TEXT", help="Why the hold is released.")
@output.json_option
@context.pass_context
def edit(ctx: context.Context, /, policy: str, *, as_json: bool, **changes: str | None) -> None:
    """Change POLICY, given by its id or full name.  Options not given leave their fields unchanged."""
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("Nothing to change: give --name, --description or --release-notes.")
    if (given.get("policy_name") or "x").strip() == "":
        raise click.UsageError("--name must not be empty.")

    async def work() -> legal_holds.LegalHoldPolicy:
        async with connect.open_backend(ctx.settings()) as client:
            change = legal_holds.UpdateLegalHoldPolicy.model_validate(given)
            return await client.legal_holds.update(await _find(client, policy), change)

    changed = trio.run(work)
    if as_json:
        tables.show(changed, as_json=True)
    else:
        output.say(f"{changed.policy_name} ({changed.id}) is changed.")


async def _find(client: session.Client, policy: str) -> str:
    async for found in client.legal_holds.list(name=policy):
        if found.policy_name == policy:
            return found.id
    if policy.isascii() and policy.isdigit():
        return policy
    raise errors.UserError(f"No legal hold policy is called {policy!r}.")
