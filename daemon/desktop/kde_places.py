"""The drive in the side pane of KDE's file managers and file dialogs.

They list only known kinds of disks; entries that users add are in `user-places.xbel`, and the drive is added
there when it is mounted at a folder for the first time.

Rule: only if KDE has created the file, and only once: an entry that the user removes is not added again.
"""

import html
import logging
import os
from pathlib import Path

from cmsfs import config, process_env
from cmsfs.replica import kv_store
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database
from daemon.desktop import drive_title

log = logging.getLogger(__name__)

_END = "</xbel>"
_BOOKMARK = """ <bookmark href={address}>
  <title>{title}</title>
  <info>
   <metadata owner="http://freedesktop.org">
    <bookmark:icon name="{icon}"/>
   </metadata>
   <metadata owner="http://www.kde.org">
    <ID>{number}/cmsfs</ID>
    <isSystemItem>false</isSystemItem>
   </metadata>
  </info>
 </bookmark>
"""


async def show(db: Database, settings: config.Settings, mountpoint: Path) -> None:
    """Add the drive, unless it was added for this folder before."""
    if kv_store.get(db, kv_store.PLACES) == str(mountpoint):
        return
    title = drive_title.title(settings, kv_store.get(db, kv_store.LOGIN))
    if await threads.run_sync(_add, _file(), mountpoint, title, drive_title.icon()):
        await db.write(lambda conn: kv_store.put(conn, kv_store.PLACES, str(mountpoint)))


def _file() -> Path:
    home = process_env.variable("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "user-places.xbel"


def _add(file: Path, mountpoint: Path, title: str, icon: str) -> bool:
    """Add the entry; return whether it exists now."""
    try:
        file = file.resolve()
        before = file.stat()
        text = file.read_text(encoding="utf-8")
        address = f'"{html.escape(mountpoint.as_uri())}"'
        if f"href={address}" in text:
            return True
        head, end, rest = text.rpartition(_END)
        if not end or "xmlns:bookmark=" not in head:
            return False
        made = _BOOKMARK.format(
            address=address, title=html.escape(title), icon=icon, number=int(clock.time())
        )
        new = file.with_name(f"{file.name}.cmsfs-{os.getpid()}")
        try:
            new.write_text(head + made + end + rest, encoding="utf-8")
            new.chmod(before.st_mode & 0o777)
            if file.stat().st_mtime_ns != before.st_mtime_ns:
                return False  # try again at the next mount
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
    except FileNotFoundError:
        return False
    except (OSError, UnicodeError) as error:
        log.info("the drive cannot be added to the places of KDE: %s", error)
        return False
    return True
