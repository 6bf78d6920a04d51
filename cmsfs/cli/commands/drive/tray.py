"""`cmsfs tray`: an icon in the desktop's panel that tells how the drives stand, with a menu.

Rule: without a bus or a panel there is no icon, and that is no error; the drives do not depend on it.
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

# A session's bus that goes does not come again after this.
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
    """The folder with our icons, where they are not among the system's."""
    places = (Path(sys.prefix) / "share" / "icons", Path(cmsfs.__file__).parents[1] / "packaging" / "desktop")
    return next((str(place) for place in places if place.is_dir()), "")


class _Tray:
    """The icon of this session, from bus to bus."""

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
                # Whatever a bus, or what claims to be one, may do: the library has no root of its exceptions.
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
    """Have a command do it: what it starts outlives this process."""
    subprocess.Popen(
        [*_command(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
