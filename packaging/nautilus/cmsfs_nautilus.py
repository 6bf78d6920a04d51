"""Nautilus shows how files of the drive stand, and offers what can be done with them.

Emblems and a column come from the daemon over its control socket, asked without waiting: the file manager
draws at once and is told later.  What takes longer is done by the `cmsfs` command in the background.

Rule: no call here blocks, and none touches the drive itself.
"""

import gi

gi.require_version("Nautilus", "4.0")

import os  # noqa: E402
import time  # noqa: E402
from collections import OrderedDict  # noqa: E402

import cmsfs_states as states  # noqa: E402
from gi.repository import Gio, GLib, GObject, Nautilus  # noqa: E402

# Mounts come and go seldom, and the list costs a read of /proc.
MOUNTS_SECONDS = 2.0
# Whoever asks for a menu has just been shown the folder; what was told then will do.
TOLD_SECONDS = 60.0
# What was told is asked again: of the last files, after so long, and sooner while one is on its way.
SHOWN_MOST = 200
SHOWN_SECONDS = 10
SYNCING_SECONDS = 2


class Drives:
    """The drives of this user, and the daemons that serve them."""

    def __init__(self):
        self._read = 0.0
        self._mounts = []
        self._sockets = {}
        self._client = Gio.SocketClient()

    def locate(self, path):
        now = time.monotonic()
        if now - self._read > MOUNTS_SECONDS:
            with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
                self._mounts = states.mountpoints(lines.read())
            self._read = now
        return states.locate(path, self._mounts)

    def ask(self, drive, request, done):
        """Have `done(answer)` called with the daemon's answer, or None."""
        if socket := self._sockets.get(drive):
            self._exchange(socket, request, done)
            return
        # Which socket is this drive's?  All that answer are asked where they are mounted.
        folder = os.path.join(GLib.get_user_runtime_dir(), "cmsfs")
        try:
            names = [name for name in os.listdir(folder) if name.endswith(".sock")]
        except OSError:
            names = []
        left = [len(names)]

        def heard(path, pong):
            left[0] -= 1
            if pong and pong.get("mountpoint") == drive:
                self._sockets[drive] = path
                self._exchange(path, request, done)
            elif not left[0] and drive not in self._sockets:
                done(None)

        if not names:
            done(None)
        for name in names:
            path = os.path.join(folder, name)
            self._exchange(path, states.request("ping"), lambda pong, path=path: heard(path, pong))

    def _exchange(self, socket, request, done):
        def connected(client, result):
            try:
                connection = client.connect_finish(result)
            except GLib.Error:
                self._sockets = {drive: path for drive, path in self._sockets.items() if path != socket}
                done(None)
                return
            connection.get_output_stream().write_all_async(
                request, GLib.PRIORITY_DEFAULT, None, written, connection
            )

        def written(stream, result, connection):
            try:
                stream.write_all_finish(result)
            except GLib.Error:
                done(None)
                return
            lines = Gio.DataInputStream.new(connection.get_input_stream())
            lines.read_line_async(GLib.PRIORITY_DEFAULT, None, read, connection)

        def read(lines, result, connection):
            try:
                line, _ = lines.read_line_finish_utf8(result)
            except GLib.Error:
                line = None
            connection.close_async(GLib.PRIORITY_DEFAULT, None, None)
            done(states.answer(line) if line else None)

        self._client.connect_async(Gio.UnixSocketAddress.new(socket), None, connected)


DRIVES = Drives()
TOLD = {}  # path: (when, answer)


class Shown:
    """Files whose marks are on the screen, maybe; the file manager asks about each once, and marks change.

    One is asked about at a time, so a daemon with other things to do is not crowded.
    """

    def __init__(self):
        self._files = OrderedDict()  # path: (weak reference, place, what is shown)
        self._busy = False

    def note(self, file, place, told):
        path = file.get_location().get_path()
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
                _changed(file, None)
            GLib.idle_add(self._next, left)

        DRIVES.ask(place[0], states.request("path", path=place[1]), heard)


SHOWN = Shown()


class CmsfsInfo(GObject.GObject, Nautilus.InfoProvider):
    """Emblems and the column's text."""

    def update_file_info_full(self, provider, handle, closure, file):
        place = _place(file)
        if place is None or place[1] == "/":
            return Nautilus.OperationResult.COMPLETE
        path = file.get_location().get_path()

        def done(told):
            TOLD[path] = (time.monotonic(), told)
            if state := states.state(told):
                SHOWN.note(file, place, told)
                emblem, word = states.STATES[state]
                if emblem:
                    file.add_emblem(emblem)
                if owner := states.owner(told):
                    file.add_emblem(states.SHARED)
                    word = f"{word}; shared by {owner}"
                if states.is_favorite(told):
                    file.add_emblem(states.FAVORITE)
                    word = f"{word}; favorite"
                file.add_string_attribute("cmsfs_state", word)
            Nautilus.info_provider_update_complete_invoke(
                closure, provider, handle, Nautilus.OperationResult.COMPLETE
            )

        # Not before this call has returned, or the answer would be to a question not yet noted.
        GLib.idle_add(lambda: DRIVES.ask(place[0], states.request("path", path=place[1]), done))
        return Nautilus.OperationResult.IN_PROGRESS

    def cancel_update(self, provider, handle):
        """Whatever comes for it is passed on all the same; the file manager does not listen."""


class CmsfsColumn(GObject.GObject, Nautilus.ColumnProvider):
    """A column for lists."""

    def get_columns(self):
        return [
            Nautilus.Column(
                name="Cmsfs::state",
                attribute="cmsfs_state",
                label="Cloud",
                description="Sync status on the cloud drive",
            )
        ]


class CmsfsMenu(GObject.GObject, Nautilus.MenuProvider):
    """What can be done with the chosen files."""

    def get_file_items(self, *arguments):
        files = arguments[-1]
        chosen = [(file, place) for file in files if (place := _place(file)) and place[1] != "/"]
        if not chosen or len(chosen) != len(files):
            return []
        now = time.monotonic()
        told = []
        for file, place in chosen:
            when, answer = TOLD.get(file.get_location().get_path(), (0.0, None))
            known = answer if now - when < TOLD_SECONDS else None
            told.append(known or {"kind": "path", "path": place[1], "type": "file", "sync": ""})
        items = []
        for action, label in states.menu(told):
            item = Nautilus.MenuItem(name=f"Cmsfs::{action}", label=label)
            item.connect("activate", self._activated, action, chosen)
            items.append(item)
        return items

    def get_background_items(self, *arguments):
        return []

    def _activated(self, item, action, chosen):
        for file, (drive, path) in chosen:
            if action == "pin":
                DRIVES.ask(
                    drive, states.request(action, path=path), lambda told, file=file: _changed(file, told)
                )
            elif action == "free":
                # Of many files this takes a while, in which the daemon tells how it gets on.
                _run(drive, path, action, "--unpin", done=lambda file=file: _changed(file, None))
            elif action == "versions":
                _show(states.versions_folder(file.get_location().get_path()))
            else:
                _run(drive, path, action)


def _place(file):
    """The drive and the path in it of a file of the file manager; None if it is on none."""
    path = file.get_location().get_path() if file.get_uri_scheme() == "file" else None
    return DRIVES.locate(path) if path else None


def _changed(file, told):
    if told and told.get("kind") == "failure":
        _notify(told.get("message", ""))
    TOLD.pop(file.get_location().get_path(), None)
    file.invalidate_extension_info()


def _run(drive, path, action, *options, done=None):
    """Have the command do what takes a while, show what it says, and call `done`."""

    def pinged(pong):
        account = (pong or {}).get("account")
        if not account:
            _notify("The drive is not responding.")
            return
        command = ["cmsfs", "--account", account, action, *options, path]
        flags = Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_PIPE
        try:
            process = Gio.Subprocess.new(command, flags)
        except GLib.Error as error:
            _notify(error.message)
            return
        process.communicate_utf8_async(None, None, ended)

    def ended(process, result):
        _, out, complaint = process.communicate_utf8_finish(result)
        if not process.get_successful():
            _notify(complaint.strip())
        elif action == "share":
            _notify(
                "The shared link has been copied to the clipboard." if _copied(out.strip()) else out.strip()
            )
        else:
            _notify(out.strip())
        if done:
            done()

    DRIVES.ask(drive, states.request("ping"), pinged)


def _show(folder):
    """Have the file manager show a folder; nothing is asked of the folder here."""
    program = Gio.AppInfo.get_default_for_type("inode/directory", True)
    if program is None:
        _notify(f"No file manager found to open {folder}.")
        return
    program.launch_uris_async([GLib.filename_to_uri(folder)], None, None, _shown)


def _shown(program, result):
    try:
        program.launch_uris_finish(result)
    except GLib.Error as error:
        _notify(error.message)


def _copied(text):
    """Whether it is in the clipboard now; the bindings for that (gir1.2-gtk-4.0) may not be installed."""
    try:
        gi.require_version("Gdk", "4.0")
        from gi.repository import Gdk

        Gdk.Display.get_default().get_clipboard().set_content(
            Gdk.ContentProvider.new_for_value(GObject.Value(str, text))
        )
    except (ValueError, ImportError):
        return False
    return True


def _notify(text):
    application = Gio.Application.get_default()
    if application is None or not text:
        return
    notification = Gio.Notification.new("Cloud drive")
    notification.set_body(text)
    application.send_notification("cmsfs", notification)
