"""`cmsfs retention`: retention policies and their assignments, for administrators."""

import click
import trio

from cmsfs import output
from cmsfs.auth import connect
from cmsfs.cli.support import context, tables
from cmsfs.models.enterprise import retention as models_retention

POLICIES = ("id", "policy_name", "retention_length", "disposition_action", "status")
ASSIGNMENTS = ("id", "assigned_to.type", "assigned_to.id", "assigned_by.name", "assigned_at")


@click.group()
def retention() -> None:
    """Retention policies: list them and their assignments, show an assignment."""


@retention.command("list")
@tables.limit_option
@tables.fields_option("id,created_by.name")
@output.json_option
@context.pass_context
def list_(ctx: context.Context, *, limit: int | None, fields: tuple[str, ...], as_json: bool) -> None:
    """List the policies."""

    async def work() -> list[models_retention.RetentionPolicy]:
        async with connect.open_backend(ctx.settings()) as client:
            entries = client.retention.list(fields=tables.requested_fields(fields or POLICIES))
            return await tables.collected(entries, "policy", limit=limit)

    tables.show_all(trio.run(work), POLICIES, noun="policy", fields=fields, as_json=as_json)


@retention.command("assignments")
@click.argument("policy")
@tables.limit_option
@tables.fields_option("id,assigned_to.type")
@output.json_option
@context.pass_context
def assignments(
    ctx: context.Context, policy: str, *, limit: int | None, fields: tuple[str, ...], as_json: bool
) -> None:
    """List what POLICY, given by its id, is assigned to."""

    async def work() -> list[models_retention.RetentionAssignment]:
        async with connect.open_backend(ctx.settings()) as client:
            entries = client.retention.assignments(
                policy, fields=tables.requested_fields(fields or ASSIGNMENTS)
            )
            return await tables.collected(entries, "assignment", limit=limit)

    tables.show_all(trio.run(work), ASSIGNMENTS, noun="assignment", fields=fields, as_json=as_json)


@retention.command("show")
@click.argument("assignment")
@tables.fields_option("id,assigned_by.name")
@output.json_option
@context.pass_context
def show(ctx: context.Context, assignment: str, *, fields: tuple[str, ...], as_json: bool) -> None:
    """Show an assignment, given by its id: the policy, what it is assigned to, by whom and since when."""

    async def work() -> models_retention.RetentionAssignment:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.retention.get_assignment(assignment, fields=tables.requested_fields(fields))

    tables.show(trio.run(work), fields=fields, as_json=as_json)
