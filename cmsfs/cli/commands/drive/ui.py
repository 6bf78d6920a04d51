"""`cmsfs ui`: opens the page of the drive in the browser.

The tray's icon, the launcher and the menus of the file managers call this.

Rule: the daemon creates the URL; it is valid once, and only for this user.
"""

import click

from cmsfs import output
from cmsfs.cli.desktop import opener
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control


@click.command("ui")
@click.argument("where", required=False)
@click.option("--conflict", is_flag=True, help="WHERE is a path: show both versions of it.")
@click.option("--print", "only_print", is_flag=True, help="Print the address instead; it is good once.")
@context.pass_context
def ui(ctx: context.Context, where: str | None, *, conflict: bool, only_print: bool) -> None:
    """Open the page of the drive in the browser.

    WHERE is a section of the page, such as "overview", or a path on the drive, with a slash in it.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    section, path = "", ""
    if where is not None and (conflict or _is_path(where)):
        section, path = "conflict" if conflict else "item", daemonctl.on_drive(daemon, where)
    elif where is not None:
        section = where
    elif conflict:
        raise click.UsageError("--conflict requires WHERE.")
    found = daemonctl.ask(daemon, control.OpenPage(section=section, path=path), control.PageAddress)
    if only_print:
        output.say(found.url)
    else:
        opener.hand_over(found.url)


def _is_path(where: str) -> bool:
    return "/" in where or where in (".", "..")
