"""What Nautilus, Nemo and Caja show of a drive: they have one interface for extensions, under three names.

Emblems and a column come from the daemon over its control socket, asked without waiting: the file manager
draws at once and is told later.

Rule: no call here blocks, and none touches the drive itself.
"""

from collections import OrderedDict

import cmsfs_drives as drives
import cmsfs_states as states
from gi.repository import GLib, GObject

# What was told is asked again: of the last files, after so long, and sooner while one is on its way.
SHOWN_MOST = 200
SHOWN_SECONDS = 10
SYNCING_SECONDS = 2


class Shown:
    """Files whose marks are on the screen, maybe; the file manager asks about each once, and marks change.

    One is asked about at a time, so a daemon with other things to do is not crowded.
    """

    def __init__(self):
        self._files = OrderedDict()  # path: (weak reference, place, what is shown)
        self._busy = False

    def note(self, file, place, told):
        path = drives.path_of(file)
        self._files[path] = (file.weak_ref(), place, states.shown(told))
        self._files.move_to_end(path)
        while len(self._files) > SHOWN_MOST:
            self._files.popitem(last=False)
        self._wait()

    def _wait(self):
        if self._busy or not self._files:
            return
        self._busy = True
        syncing = any(shown[0] == "syncing" for _, _, shown in self._files.values())
        GLib.timeout_add_seconds(SYNCING_SECONDS if syncing else SHOWN_SECONDS, self._next, list(self._files))

    def _next(self, left):
        while left:
            path = left.pop()
            reference, place, shown = self._files.get(path, (lambda: None, None, None))
            if file := reference():
                self._ask(path, file, place, shown, left)
                return GLib.SOURCE_REMOVE
            self._files.pop(path, None)
        self._busy = False
        self._wait()
        return GLib.SOURCE_REMOVE

    def _ask(self, path, file, place, shown, left):
        def heard(told):
            # Nothing is said while the daemon restarts.
            if told and states.shown(told) != shown:
                self._files.pop(path, None)
                drives.TOLD.pop(path, None)
                file.invalidate_extension_info()
            GLib.idle_add(self._next, left)

        drives.DRIVES.ask(place[0], states.request("path", path=place[1]), heard)


SHOWN = Shown()


def classes(api, complete):
    """The providers that a file manager finds in its extension: of emblems, of a column, of the menu.

    `api` is its module of the bindings, `complete` the function there that ends a question about a file.
    """

    class CmsfsInfo(GObject.GObject, api.InfoProvider):
        """Emblems and the column's text."""

        def update_file_info_full(self, provider, handle, closure, file):
            place = drives.place_of(file)
            if place is None or place[1] == "/":
                return api.OperationResult.COMPLETE

            def done(told):
                _mark(file, place, told)
                complete(closure, provider, handle, api.OperationResult.COMPLETE)

            # Not before this call has returned, or the answer would be to a question not yet noted.
            GLib.idle_add(drives.ask_about, drives.path_of(file), place, done)
            return api.OperationResult.IN_PROGRESS

        def cancel_update(self, provider, handle):
            """Whatever comes for it is passed on all the same; the file manager does not listen."""

    class CmsfsColumn(GObject.GObject, api.ColumnProvider):
        """A column for lists."""

        def get_columns(self):
            return [
                api.Column(
                    name="Cmsfs::state",
                    attribute="cmsfs_state",
                    label="Cloud",
                    description="Sync status on the cloud drive",
                )
            ]

    class CmsfsMenu(GObject.GObject, api.MenuProvider):
        """What can be done with the chosen files, and with the folder that is shown."""

        def get_file_items(self, *arguments):
            files = drives.chosen(arguments[-1])
            return [
                self._item(action, label, self._perform, action, files)
                for action, label in (drives.entries(files) if files else [])
            ]

        def get_background_items(self, *arguments):
            path = drives.path_of(arguments[-1])
            if drives.place_of(arguments[-1]) is None:
                return []
            return [
                self._item(action, label, self._run, action, path) for action, label in states.FOLDER_MENU
            ]

        def _item(self, action, label, activated, *arguments):
            item = api.MenuItem(name=f"Cmsfs::{action}", label=label)
            item.connect("activate", activated, *arguments)
            return item

        def _perform(self, item, action, files):
            drives.perform(action, files, lambda file: file.invalidate_extension_info())

        def _run(self, item, action, path):
            drives.run(action, path)

    return CmsfsInfo, CmsfsColumn, CmsfsMenu


def _mark(file, place, told):
    """Have the file manager show how a file is."""
    if states.state(told) is None:
        return
    SHOWN.note(file, place, told)
    for emblem in states.emblems(told):
        file.add_emblem(emblem)
    file.add_string_attribute("cmsfs_state", states.words(told))
