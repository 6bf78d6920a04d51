"""Recognizes programs that read files in the background: thumbnailers and indexers.

A thumbnailer would download all photos of a folder that is opened in a file manager, and an indexer the whole
drive.  Such programs can read cached files, and get EACCES for others; they continue with the next file.

Rule: programs are recognized by their executables, never by what they read; unknown programs may read all.
"""

import errno
import logging
import os
from enum import Enum
from pathlib import Path

from cmsfs.cache.blocks import BlockCache
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

log = logging.getLogger(__name__)


class Program(Enum):
    """The kinds of programs that the drive distinguishes."""

    FILE_MANAGER = "file manager"
    THUMBNAILER = "thumbnailer"
    INDEXER = "indexer"


_KINDS = dict.fromkeys(
    (
        "nautilus",
        "nemo",
        "caja",
        "thunar",
        "dolphin",
        "pcmanfm",
        "pcmanfm-qt",
        "io.elementary.files",
        "cosmic-files",
        "spacefm",
        "xdg-desktop-portal-gnome",
        "xdg-desktop-portal-gtk",
    ),
    Program.FILE_MANAGER,
)
_KINDS |= dict.fromkeys(("tumblerd", "gnome-thumbnail-font", "ffmpegthumbnailer"), Program.THUMBNAILER)
_KINDS |= dict.fromkeys(
    (
        "localsearch-3",
        "localsearch-extractor-3",
        "tracker-extract-3",
        "tracker-miner-fs-3",
        "baloo_file",
        "baloo_file_extractor",
        "recollindex",
        "updatedb",
        "updatedb.plocate",
    ),
    Program.INDEXER,
)

# KDE's workers share one name; their arguments tell whether they list for Dolphin or create thumbnails.
_KIO_WORKERS = ("kioslave5", "kioworker")
_KIO_THUMBNAIL = b"thumbnail"


def of_thread(thread: int) -> Program | None:
    """Return the kind of program that a thread belongs to; None for others, and if it cannot be read."""
    try:
        # Called for every open: `Path` takes five times as long.
        path = os.readlink(f"/proc/{thread}/exe")  # noqa: PTH115
        name = path.rpartition("/")[2].removesuffix(" (deleted)").lower()
        if name in _KIO_WORKERS:
            is_thumbnail = _KIO_THUMBNAIL in Path(f"/proc/{thread}/cmdline").read_bytes()
            return Program.THUMBNAILER if is_thumbnail else Program.FILE_MANAGER
    except OSError:
        return None
    if name.endswith("-thumbnailer"):
        return Program.THUMBNAILER
    return _KINDS.get(name)


class BackgroundReaders:
    """Decides which files thumbnailers and indexers may open; all of them if `may_download`."""

    def __init__(self, db: Database, blocks: BlockCache, *, may_download: bool) -> None:
        self._db = db
        self._blocks = blocks
        self._may_download = may_download
        self._logged: set[Program] = set()

    def check(self, thread: int, ino: Ino, flags: int) -> None:
        """Raise `OSError` (EACCES) if opening the file would have a background program download it."""
        if self._may_download or flags & (os.O_WRONLY | os.O_RDWR) or not thread:
            return
        program = of_thread(thread)
        if program not in (Program.THUMBNAILER, Program.INDEXER) or self._is_here(ino):
            return
        if program not in self._logged:
            self._logged.add(program)
            log.info(
                "a%s %s is not given files that are not on this disk; background_downloads = true allows it",
                "n" if program is Program.INDEXER else "",
                program.value,
            )
        raise errno_map.oserror(errno.EACCES, "not on this disk")

    def _is_here(self, ino: Ino) -> bool:
        node = tree.find(self._db, ino)
        if node is None or node.sha1 is None or not node.size or node.draft is not None:
            return True
        return self._blocks.is_complete(node.sha1)
