"""The drives of this user, as a file manager's extension meets them: asked without waiting, told later.

For the extensions of all file managers; it needs GLib and Gio, and of the toolkit only the clipboard.  What
takes longer than a question is done by the `cmsfs` command in the background.

Rule: no call here blocks, and none touches the drive itself.
"""

import os
import time

import cmsfs_states as states
import gi
from gi.repository import Gio, GLib, GObject

# Mounts come and go seldom, and the list costs a read of /proc.
MOUNTS_SECONDS = 2.0
# Whoever asks for a menu has just been shown the folder; what was told then will do.
TOLD_SECONDS = 60.0

# The version of GTK that the file manager has loaded; its extension says so.
TOOLKIT = "3.0"


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
TOLD_MOST = 1000


def path_of(file):
    """The path of a file of the file manager; None if it is none of this machine."""
    return file.get_location().get_path() if file.get_uri_scheme() == "file" else None


def place_of(file):
    """The drive and the path in it of a file of the file manager; None if it is on none."""
    path = path_of(file)
    return DRIVES.locate(path) if path else None


def ask_about(path, place, done):
    """Have `done(answer)` called with what the daemon says of an item; it is remembered for the menu."""

    def heard(told):
        TOLD.pop(path, None)
        TOLD[path] = (time.monotonic(), told)
        while len(TOLD) > TOLD_MOST:
            del TOLD[next(iter(TOLD))]
        done(told)

    DRIVES.ask(place[0], states.request("path", path=place[1]), heard)


def told_of(file, place):
    """What was told of an item lately; what holds of any if nothing was."""
    when, answer = TOLD.get(path_of(file), (0.0, None))
    known = answer if time.monotonic() - when < TOLD_SECONDS else None
    kind = "folder" if file.is_directory() else "file"
    return known or {"kind": "path", "path": place[1], "type": kind, "sync": ""}


def chosen(files):
    """The chosen files with their places; nothing unless all are on a drive."""
    found = [(file, place) for file in files if (place := place_of(file)) and place[1] != "/"]
    return found if found and len(found) == len(files) else []


def entries(files):
    """The entries of the menu for `chosen` files: `(action, label)`."""
    return states.menu([told_of(file, place) for file, place in files])


def perform(action, files, changed):
    """Do what an entry says for `chosen` files; `changed(file)` is called for each that may look different
    then."""
    for file, (drive, path) in files:

        def look_again(told=None, *, file=file):
            if told and told.get("kind") == "failure":
                notify(told.get("message", ""))
            TOLD.pop(path_of(file), None)
            changed(file)

        if action == "pin":
            DRIVES.ask(drive, states.request(action, path=path), look_again)
        elif action == "versions":
            _show(states.versions_folder(path_of(file)))
        elif action == "link":
            _copy_link(drive, path)
        else:
            run(action, path_of(file), look_again)


def run(action, path, done=None):
    """Have `cmsfs menu` do what an entry says, which shows the result itself, and call `done`."""

    def ended(process, result):
        process.wait_finish(result)
        if done:
            done()

    flags = Gio.SubprocessFlags.STDOUT_SILENCE | Gio.SubprocessFlags.STDERR_SILENCE
    try:
        process = Gio.Subprocess.new(["cmsfs", "menu", action, path], flags)
    except GLib.Error as error:
        notify(error.message)
        return
    process.wait_async(None, ended)


def _copy_link(drive, path):
    """The shared link of an item to the clipboard: the file manager has one, on whatever display."""

    def pinged(pong):
        account = (pong or {}).get("account")
        if not account:
            notify("The drive is not responding.")
            return
        flags = Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_PIPE
        try:
            process = Gio.Subprocess.new(["cmsfs", "--account", account, "share", path], flags)
        except GLib.Error as error:
            notify(error.message)
            return
        process.communicate_utf8_async(None, None, ended)

    def ended(process, result):
        _, out, complaint = process.communicate_utf8_finish(result)
        link = out.strip()
        if not process.get_successful():
            notify(complaint.strip())
        else:
            notify("The shared link has been copied to the clipboard." if _copied(link) else link)

    DRIVES.ask(drive, states.request("ping"), pinged)


def _show(folder):
    """Have the file manager show a folder; nothing is asked of the folder here."""
    program = Gio.AppInfo.get_default_for_type("inode/directory", True)
    if program is None:
        notify(f"No file manager found to open {folder}.")
        return
    program.launch_uris_async([GLib.filename_to_uri(folder)], None, None, _shown)


def _shown(program, result):
    try:
        program.launch_uris_finish(result)
    except GLib.Error as error:
        notify(error.message)


def _copied(text):
    """Whether it is in the clipboard now; the bindings for that (gir1.2-gtk-4.0) may not be installed."""
    try:
        if TOOLKIT == "4.0":
            gi.require_version("Gdk", TOOLKIT)
            from gi.repository import Gdk

            Gdk.Display.get_default().get_clipboard().set_content(
                Gdk.ContentProvider.new_for_value(GObject.Value(str, text))
            )
        else:
            gi.require_version("Gtk", TOOLKIT)
            from gi.repository import Gdk, Gtk

            Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD).set_text(text, -1)
    except (ValueError, ImportError):
        return False
    return True


def notify(text):
    """Have the desktop show a sentence."""
    application = Gio.Application.get_default()
    if application is None or not text:
        return
    notification = Gio.Notification.new("Cloud drive")
    notification.set_body(text)
    application.send_notification("cmsfs", notification)
