"""`cmsfs open`: opens the drive in the file manager, or a web link in the browser.

The desktop's entries call this; a failure there has no terminal to be read in, so it is a notification, too.

Rule: of a web link only http and https are opened; a file that somebody shared does not start programs.
"""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from cmsfs import errors, printable
from cmsfs.cli.commands.drive import drive
from cmsfs.cli.support import context, daemonctl

# A link is a few lines; what is longer is none.
LINK_BYTES = 64 * 1024

# In this order: gio follows the desktop's settings also where xdg-open knows the desktop and does nothing.
OPENERS = (("gio", "open"), ("xdg-open",))


@click.command("open")
@click.argument("path", required=False, type=Path)
@context.pass_context
def open_command(ctx: context.Context, path: Path | None) -> None:
    """Open the drive, or PATH on it, in the file manager; mount it if necessary.

    A web link (a *.url file) opens in the browser.
    """
    try:
        _open(ctx, path)
    except errors.CmsfsError as error:
        _notify(str(error))
        raise


def _open(ctx: context.Context, path: Path | None) -> None:
    if path is None:
        daemon = daemonctl.find_for(ctx.account, ctx.settings())
        hand_over(str(daemon.mountpoint if daemon else drive.mount_configured(ctx)))
    elif path.suffix.lower() == ".url":
        hand_over(address(path))
    else:
        hand_over(str(path.absolute()))


def address(link: Path) -> str:
    """The address in a web link.  Raises `UserError` if there is none, or it is not one of the web."""
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
    try:
        parts = urlsplit(found)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() not in ("http", "https") or not parts.netloc:
        raise errors.UserError(f"{link} is not a web URL and was not opened.")
    return found


def hand_over(target: str) -> None:
    """Have the desktop open it.  Raises `UserError` where there is none."""
    for opener in OPENERS:
        if program := shutil.which(opener[0]):
            done = subprocess.run([program, *opener[1:], target], stdin=subprocess.DEVNULL, check=False)
            if done.returncode == 0:
                return
    raise errors.UserError(f"No desktop found to open {target}.")


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
