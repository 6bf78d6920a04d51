"""`cmsfs open`: opens the drive in the file manager, or a web link or an item's page in the browser.

The desktop's launcher entries call this; they have no terminal, so a failure is also shown as a notification.

Rule: only http and https web links are opened; a file shared by somebody else never starts other programs.
"""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

import click

from cmsfs import config, errors, output, printable, process_env
from cmsfs.auth import connect
from cmsfs.cli.commands.drive import drive
from cmsfs.cli.desktop import opener
from cmsfs.cli.support import asking, context, daemonctl, path_argument
from cmsfs.client import remote_paths

# A web link's file has a few lines; a larger file is not one.
LINK_BYTES = 64 * 1024

# Terminal emulators, each with its option to run a command; the first is the desktop's choice on Debian.
TERMINALS = (
    ("x-terminal-emulator", "-e"),
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("xterm", "-e"),
)


@click.command("open")
@click.argument("path", required=False, type=Path)
@click.option(
    "--web", metavar="REMOTE", type=path_argument.PATH, help="Open the service's page of this item."
)
@context.pass_context
def open_command(ctx: context.Context, path: Path | None, *, web: str | None) -> None:
    """Open the drive, or PATH on it, in the file manager; mount it if necessary.

    A web link (a *.url file) opens in the browser, and so does what --web names: a path at the service, or
    one on the drive.
    """
    if web is not None and path is not None:
        raise click.UsageError("--web and PATH are mutually exclusive.")
    try:
        if web is not None:
            opener.hand_over(asking.run(page_of, ctx, web))
        else:
            _open(ctx, path)
    except errors.CmsfsError as error:
        _notify(str(error))
        raise


def _open(ctx: context.Context, path: Path | None) -> None:
    if path is None:
        daemon = daemonctl.find_for(ctx.account, ctx.settings())
        if daemon is None and not ctx.settings().names_service and _set_up():
            return
        opener.hand_over(str(daemon.mountpoint if daemon else drive.mount_configured(ctx)))
    elif path.suffix.lower() == ".url":
        opener.hand_over(address(path))
    else:
        opener.hand_over(str(path.absolute()))


async def page_of(ctx: context.Context, remote: str) -> str:
    """Return the URL that shows the item in a browser: its page, or its shared link.  Raises `UserError`."""
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
        if page := config.profile(settings).item_page:
            return page.format(type=found.type, id=quote(found.id, safe=""))
        is_root = found.id == remote_paths.ROOT_ID
        link = None if is_root else await client.shared_links.get(found.type, found.id)
        if link is None or not link.url or not _is_web(link.url):
            raise errors.UserError(
                f"This service has no page for {remote_paths.normal(remote)};"
                f" `{output.command()} share` makes a link that a browser shows."
            )
        return link.url


def address(link: Path) -> str:
    """Return the URL in a web link.  Raises `UserError` if there is none, or it is not http or https."""
    try:
        with link.open("rb") as file:
            text = file.read(LINK_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise errors.UserError(f"{link} cannot be read: {error.strerror}.") from None
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
        found = parser.get("InternetShortcut", "URL").strip()
    except configparser.Error:
        raise errors.UserError(f"{link} is not a web link.") from None
    if not _is_web(found):
        raise errors.UserError(f"{link} is not a web URL and was not opened.")
    return found


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc)


def _set_up() -> bool:
    """Open a terminal with the setup, since a launcher has none; whether that was possible."""
    is_desktop = process_env.variable("DISPLAY") or process_env.variable("WAYLAND_DISPLAY")
    if sys.stdin.isatty() or not is_desktop:
        return False
    for terminal in TERMINALS:
        if program := shutil.which(terminal[0]):
            python = (sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "cmsfs")
            command = [program, *terminal[1:], *python, "setup"]
            subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            return True
    return False


def _notify(sentence: str) -> None:
    if not sys.stderr.isatty() and (program := shutil.which("notify-send")):
        command = [
            program,
            "--app-name=cmsfs",
            "--icon=cmsfs",
            "Cloud drive",
            printable.without_markup(sentence),
        ]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
