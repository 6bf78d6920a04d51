"""`cmsfs log` and `watch`: show who changed what and when, and follow changes.

They read the service's events directly, so they work without a mounted drive.

Rule: a command of `watch --exec` gets the event through its environment; nothing of an event is ever part of
a command line.
"""

import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator

import click
import trio

from cmsfs import config, errors, output, process_env
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, path_argument
from cmsfs.client import remote_paths
from cmsfs.client.history.change_notes import ChangeNote, ChangeNotes
from cmsfs.client.session import Client
from cmsfs.models.content import events

# The service keeps weeks of events; a busy account has many thousand.
_LOG_SECONDS = 300.0

# Poll interval if the service has no long polling.
_AGAIN_SECONDS = 5.0


@click.command()
@click.argument("remote", type=path_argument.PATH, default="/")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Show the newest N.",
)
@output.json_option
@context.pass_context
def log(ctx: context.Context, remote: str, *, limit: int, as_json: bool) -> None:
    """Show who changed REMOTE and what is in it (default: everything), the newest last.

    This reaches back as far as the service's events do, usually some weeks; `versions` shows all versions of
    a file.
    """
    found = asking.run(_log, ctx, remote, limit, seconds=_LOG_SECONDS)
    if as_json:
        output.document([note.as_json() for note in found])
    elif not found:
        output.say(f"No changes of {remote_paths.normal(remote)} are recorded.")
    else:
        output.table([note.row() for note in found])


async def _log(ctx: context.Context, remote: str, limit: int) -> list[ChangeNote]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        notes = ChangeNotes(await _item(client, settings, remote))
        found: deque[ChangeNote] = deque(maxlen=limit)
        async for event in _all(client):
            if (note := notes.of(event)) is not None:
                found.append(note)
        return list(found)


async def _all(client: Client, position: events.Position = 0) -> AsyncIterator[events.Event]:
    """Yield the events after a position up to the end of the stream, each once."""
    seen: set[str] = set()
    while True:
        page = await client.events.since(position, stream="all")
        for event in page.entries:
            if event.event_id not in seen:
                seen.add(event.event_id)
                yield event
        if not page.entries or page.next_stream_position == position:
            return
        position = page.next_stream_position


@click.command()
@click.argument("remote", type=path_argument.PATH, default="/")
@click.option(
    "--exec",
    "command",
    metavar="COMMAND",
    help="Run this with the shell after each change; CMSFS_EVENT, CMSFS_PATH, CMSFS_ID, CMSFS_BY and CMSFS_AT"
    " say which.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N changes.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each change.")
@context.pass_context
def watch(
    ctx: context.Context, remote: str, *, command: str | None, count: int | None, as_json: bool
) -> None:
    """Print changes of REMOTE and of what is in it as they happen, until interrupted.

    Changes arrive within a second, whoever makes them.  A command that fails is reported; watching goes on.
    """
    trio.run(_watch, ctx, remote, command, count, as_json)


async def _watch(
    ctx: context.Context, remote: str, command: str | None, count: int | None, as_json: bool
) -> None:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        notes = ChangeNotes(await _item(client, settings, remote))
        position = await client.events.position()
        output.note(f"Watching {remote_paths.normal(remote)}; Ctrl+C ends it.")
        left = count
        seen: deque[str] = deque(maxlen=10_000)
        while left is None or left > 0:
            page = await client.events.since(position, stream="all")
            position = page.next_stream_position
            for event in page.entries:
                note = notes.of(event) if event.event_id not in seen else None
                seen.append(event.event_id)
                if note is None:
                    continue
                _tell(note, as_json=as_json)
                if command is not None:
                    await _run(command, note)
                if left is not None and (left := left - 1) == 0:
                    return
            if not page.entries and not await client.events.wait(position):
                await trio.sleep(_AGAIN_SECONDS)


def _tell(note: ChangeNote, *, as_json: bool) -> None:
    if as_json:
        click.echo(output.as_json(note.as_json()))
    else:
        output.say("  ".join(word for word in note.row() if word))
    sys.stdout.flush()


async def _run(command: str, note: ChangeNote) -> None:
    said = {
        "CMSFS_EVENT": note.event,
        "CMSFS_PATH": note.path,
        "CMSFS_ID": note.item_id,
        "CMSFS_BY": note.by,
        "CMSFS_AT": note.at.isoformat() if note.at else "",
    }
    done: subprocess.CompletedProcess[bytes] = await trio.run_process(
        ["/bin/sh", "-c", command],
        env=process_env.with_values({name: value.replace("\0", "") for name, value in said.items()}),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        output.note(f"The command ended with {done.returncode} for {note.path}.")


async def _item(client: Client, settings: config.Settings, remote: str) -> remote_paths.Found:
    if config.profile(settings).feed != "events":
        raise errors.UserError("This service has no events, so it cannot say who changed what.")
    return await remote_paths.RemotePaths(client, settings).get(remote)
