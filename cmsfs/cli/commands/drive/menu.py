"""`cmsfs menu`: executes the entries of a file manager's context menu.

The files that the package installs for Dolphin, PCManFM and others call this with local paths.  A menu has no
terminal: the result is shown as a notification, a folder or a page.

Rule: nothing here accesses the mount: the daemon is asked.
"""

from pathlib import Path

import click

from cmsfs import config, errors, output
from cmsfs.cli.commands.drive import free
from cmsfs.cli.desktop import clipboard, opener
from cmsfs.cli.desktop.menu_entries import ENTRIES, TITLE
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control

# The suffix of a file's versions folder (`cmsfs.vfs.virtual.versions`).
_VERSIONS = "@versions"

# The actions that open a page of the drive, for the item or for everything.
_PAGES = {"share": "sharing", "restore": "item", "status": "item", "trash": "trash"}


@click.command("menu")
@click.argument("action", type=click.Choice([one.action for one in ENTRIES]))
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
def menu(action: str, paths: tuple[str, ...]) -> None:
    """Do what an entry of a file manager's menu says, and show the result on the desktop.

    PATH is a file or folder on a mounted drive, of whichever account.
    """
    try:
        told = " ".join(filter(None, (_carry_out(action, path) for path in paths)))
    except errors.CmsfsError as error:
        _show(str(error))
        raise
    if told:
        _show(told)
        output.say(told)


def _carry_out(action: str, given: str) -> str:
    """Execute an action; return a message, "" if the result is visible."""
    daemon = _daemon(given)
    path = daemonctl.on_drive(daemon, given)
    name = Path(path).name or TITLE
    match action:
        case "pin":
            done = daemonctl.carry_out(daemon, control.Pin(path=path))
            return done.message or f"{name} is kept available offline."
        case "free":
            freed = daemonctl.ask(daemon, control.Free(path=path, unpin=True), control.Freed)
            return f"{name}: {free.in_words(freed)}"
        case "link":
            return _copy_link(daemon, path)
        case "versions":
            opener.hand_over(f"{daemon.mountpoint}{path}{_VERSIONS}")
        case "web":
            opener.hand_over(_web_page(daemon, path))
        case "conflict":
            _open_page(daemon, *_conflict(daemon, path))
        case _:
            _open_page(daemon, _PAGES[action], path if action != "trash" else "")
    return ""


def _daemon(given: str) -> daemonctl.Daemon:
    """Return the daemon of the drive that a local path is on.  Raises `UserError` if it is on none."""
    running = daemonctl.running()
    for path in (Path(given).absolute(), Path(given).resolve()):
        above = [one for one in running if path.is_relative_to(one.mountpoint)]
        if above:
            return max(above, key=lambda one: len(one.mountpoint.parts))
    raise errors.UserError(f"{Path(given).name} is not on a cloud drive.")


def _account(daemon: daemonctl.Daemon) -> context.Context:
    """Return the account of a drive, for requests to its service.  Raises `UserError` for a partial drive."""
    # Paths on a partial drive are not those at the service.
    if daemon.socket != config.Paths(daemon.account).socket:
        raise errors.UserError("This drive shows a part of the account: use the drive of the whole account.")
    return context.Context(daemon.account)


def _web_page(daemon: daemonctl.Daemon, path: str) -> str:
    from cmsfs.cli.commands.drive import open as opening  # the libraries of the client
    from cmsfs.cli.support import asking

    return asking.run(opening.page_of, _account(daemon), path)


def _copy_link(daemon: daemonctl.Daemon, path: str) -> str:
    from cmsfs.cli.commands.files import share  # the libraries of the client
    from cmsfs.cli.support import asking

    link = asking.run(share.share_link, _account(daemon), path, None)
    if link is not None and clipboard.copy(str(link.url)):
        return f"The shared link of {Path(path).name} is in the clipboard."
    # Without a clipboard: the link can be copied from the page.
    _open_page(daemon, "sharing", path)
    return ""


def _conflict(daemon: daemonctl.Daemon, path: str) -> tuple[str, str]:
    """Return the page that resolves the conflict of a path; without a conflict, that of all conflicts."""
    known = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts).copies
    return ("conflict", path) if any(path in (one.path, one.original) for one in known) else ("attention", "")


def _open_page(daemon: daemonctl.Daemon, section: str, path: str) -> None:
    asked = control.OpenPage(section=section, path=path)
    opener.hand_over(daemonctl.ask(daemon, asked, control.PageAddress).url)


def _show(sentence: str) -> None:
    import trio  # imported here, so that commands start quickly

    from cmsfs.ipc import notification_bus

    trio.run(notification_bus.show, TITLE, sentence)
