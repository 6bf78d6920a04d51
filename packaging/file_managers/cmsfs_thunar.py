"""Thunar's extension: the menu for files on a drive.

Thunar's interface for extensions has no emblems; what is chosen is asked about when the menu is made, and
remembered for the next time that it is.
"""

import os
import sys

import gi

gi.require_version("Thunarx", "3.0")

# What the extensions of all file managers share is installed beside them, in share/cmsfs.
_SHARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(_SHARE, "cmsfs", "file-managers"))

import cmsfs_drives as drives  # noqa: E402
import cmsfs_states as states  # noqa: E402
from gi.repository import GObject, Thunarx  # noqa: E402

# Of a large choice the first will do to know what can be done.
ASKED_MOST = 10


class CmsfsMenu(GObject.GObject, Thunarx.MenuProvider):
    """What can be done with the chosen files, and with the folder that is shown."""

    def get_file_menu_items(self, window, files):
        chosen = drives.chosen(files)
        if not chosen:
            return []
        items = [self._item(*entry, self._perform, entry[0], chosen) for entry in drives.entries(chosen)]
        for file, place in chosen[:ASKED_MOST]:
            drives.ask_about(drives.path_of(file), place, lambda told: None)
        return items

    def get_folder_menu_items(self, window, folder):
        path = drives.path_of(folder)
        if drives.place_of(folder) is None:
            return []
        return [self._item(*entry, self._run, entry[0], path) for entry in states.FOLDER_MENU]

    def _item(self, action, label, activated, *arguments):
        item = Thunarx.MenuItem(name=f"Cmsfs::{action}", label=label, tooltip="", icon="")
        item.connect("activate", activated, *arguments)
        return item

    def _perform(self, item, action, files):
        drives.perform(action, files, lambda file: file.changed())

    def _run(self, item, action, path):
        drives.run(action, path)
