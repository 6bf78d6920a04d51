"""`cmsfs status`: the sync status of the drive or of single items, once or continuously.

Rule: the daemon is asked and the mount is not accessed, so that the status works even if the drive hangs.
"""

import click

from cmsfs import errors, output
from cmsfs.cli.support import context, daemonctl, status_page, status_watch
from cmsfs.ipc import control


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--watch", is_flag=True, help="Keep updating until Ctrl-C.")
@output.json_option
@context.pass_context
def status(ctx: context.Context, paths: tuple[str, ...], *, watch: bool, as_json: bool) -> None:
    """Show the status of the drive, or the sync status of items; of several drives, a line for each.

    For the drive: connection, pending uploads, pinned items, cache, requests.  For an item: whether it is
    synced, whether it is pinned, and how much of it is downloaded.
    """
    settings = ctx.settings()
    if not ctx.account and not paths and not watch and len(drives := daemonctl.running()) > 1:
        _all(drives, as_json=as_json)
        return
    daemon = daemonctl.find_for(ctx.account, settings)
    if daemon is None:
        if as_json:
            output.document({"mounted": False})
        raise errors.UserError("No drive is mounted; `cmsfs mount` mounts one.")
    if paths:
        if watch:
            raise click.UsageError("--watch shows the whole drive and takes no paths.")
        _items(daemon, paths, as_json=as_json)
    elif watch and as_json:
        for found in daemonctl.watching(daemon):
            click.echo(output.as_json({"mounted": True, **_plain(found)}))
    elif watch:
        status_watch.show(daemonctl.watching(daemon))
    elif as_json:
        output.document({"mounted": True, **_plain(daemonctl.status(daemon))})
    else:
        status_page.show(daemonctl.status(daemon))


def _all(drives: list[daemonctl.Daemon], *, as_json: bool) -> None:
    found = [daemonctl.status(daemon) for daemon in drives]
    if as_json:
        output.document({"mounted": True, "drives": [_plain(one) for one in found]})
        return
    output.table([[one.account, one.mountpoint, status_page.summary(one)] for one in found])
    output.note(f"`{output.command()} --account NAME status` shows more of one.")


def _plain(found: control.DriveStatus) -> dict[str, object]:
    return found.model_dump(mode="json", exclude={"kind"})


def _items(daemon: daemonctl.Daemon, paths: tuple[str, ...], *, as_json: bool) -> None:
    found = [_item(daemon, daemonctl.on_drive(daemon, path)) for path in paths]
    if as_json:
        output.document([one.model_dump(mode="json", exclude={"kind"}) for one in found])
    else:
        output.table([[one.path, ", ".join(words(one))] for one in found])


def _item(daemon: daemonctl.Daemon, path: str) -> control.PathStatus:
    return daemonctl.ask(daemon, control.GetPathStatus(path=path), control.PathStatus)


def words(one: control.PathStatus) -> list[str]:
    """Describe the sync status of one item."""
    said = [one.sync]
    if one.conflict:
        said.append("conflict copy")
    if one.pinned:
        said.append("pinned" if one.pinned == one.path else f"pinned with {one.pinned}")
    if one.is_online_only:
        said.append(f"online only, {output.size(one.size)}")
    elif one.type == "file" and one.cached_bytes < one.size:
        said.append(f"{100 * one.cached_bytes // one.size} % of {output.size(one.size)} here")
    elif one.type == "file":
        said.append(f"{output.size(one.size)}, downloaded")
    return said
