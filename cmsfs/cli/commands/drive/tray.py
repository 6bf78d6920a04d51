"""`cmsfs tray`: an icon in the desktop's panel that shows the status of the drives, with a menu.

Rule: a missing bus or panel is not an error, there is just no icon; the drives do not depend on it.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import click
import trio

import cmsfs
from cmsfs import config, output
from cmsfs.cli.tray import drive_follower, tray_item, tray_menu, tray_state
from cmsfs.ipc import control

# How long to wait for a session bus that has gone before giving up.
PATIENCE_SECONDS = 30.0
AGAIN_SECONDS = 2.0

_ENTRY = """[Desktop Entry]
Type=Application
Name=Cloud Drive
Comment=Show in the panel how the cloud drive stands
Exec={command} tray
Icon=cmsfs
Terminal=false
X-GNOME-Autostart-enabled=true
"""


@click.command("tray")
@click.option("--autostart/--no-autostart", default=None, help="Show it at every login, or no longer.")
def tray(autostart: bool | None) -> None:
    """Show an icon in the panel: whether all is synced, with a menu.

    The menu opens the folder, the page and recent files, and pauses syncing; quitting it leaves the drive
    mounted.
    """
    if autostart is not None:
        _set_autostart(wanted=autostart)
        return
    trio.run(_Tray().run)


def _set_autostart(*, wanted: bool) -> None:
    entry = config.autostart_entry("cmsfs-tray")
    if not wanted:
        entry.unlink(missing_ok=True)
        output.say("The icon is not shown at login.")
        return
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(_ENTRY.format(command=shlex.join(_command())), encoding="utf-8")
    output.say("The icon is shown at every login, from the next one on.")


def _command() -> list[str]:
    script = Path(sys.executable).with_name("cmsfs")
    if script.exists():
        return [str(script)]
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "cmsfs"]


def _theme() -> str:
    """Return the folder with our icons, if they are not installed system-wide."""
    places = (Path(sys.prefix) / "share" / "icons", Path(cmsfs.__file__).parents[1] / "packaging" / "desktop")
    return next((str(place) for place in places if place.is_dir()), "")


class _Tray:
    """The session's icon; reconnects when the bus restarts."""

    def __init__(self) -> None:
        self._follower = drive_follower.DriveFollower()
        self._quit = trio.Event()
        self._was_shown = False

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follower.run)
            nursery.start_soon(self._show, nursery.cancel_scope)
            await self._quit.wait()
            nursery.cancel_scope.cancel()

    async def _show(self, whole: trio.CancelScope) -> None:
        lost = trio.current_time()
        while trio.current_time() - lost < PATIENCE_SECONDS:
            if (bus := config.session_bus()) is not None:
                try:
                    await tray_item.run(bus, self._chosen, _theme(), self._keep_up_to_date)
                except* tray_item.TrayIsShownError:
                    output.note("The icon is shown already.")
                    whole.cancel()
                # The D-Bus library has no common base class of its exceptions.
                except* Exception:
                    pass
            if self._was_shown:
                self._was_shown, lost = False, trio.current_time()
            await trio.sleep(AGAIN_SECONDS)
        output.note("There is no session bus to show an icon on.")
        whole.cancel()

    async def _keep_up_to_date(self, item: tray_item.TrayItem) -> None:
        follower = self._follower
        self._was_shown = True
        while True:
            drives = follower.drives
            await item.show(tray_state.of_all(drives), tray_menu.entries(drives, follower.recent))
            await follower.changed.wait()

    async def _chosen(self, entry: tray_menu.MenuEntry) -> None:
        account = ["--account", entry.account] if entry.account else []
        match entry.action:
            case "quit":
                self._quit.set()
            case "pause":
                await self._follower.ask(entry.account, control.Pause(seconds=tray_menu.HOUR))
            case "resume":
                await self._follower.ask(entry.account, control.Resume())
            case "page":
                _start(*account, "ui")
            case "open":
                _start(*account, "open", *([entry.path] if entry.path else []))


def _start(*arguments: str) -> None:
    """Start a cmsfs command that outlives this process."""
    subprocess.Popen(
        [*_command(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
