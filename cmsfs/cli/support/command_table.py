"""The table of commands: help group, name and module of each.

Rule: a summary is one line that begins with a verb; the full description is the command's docstring.
"""

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: its module in `cmsfs.cli.commands`, and its one-line summary."""

    module: str
    summary: str


GROUPS = {
    "Drive": {
        "mount": CommandEntry("drive.drive", "Mount the drive"),
        "umount": CommandEntry("drive.drive", "Upload pending changes and unmount the drive"),
        "open": CommandEntry("drive.open", "Open the drive, or a file on it, in the file manager"),
        "ui": CommandEntry("drive.ui", "Open the page of the drive in the browser"),
        "tray": CommandEntry("drive.tray", "Show an icon in the panel, with the status and a menu"),
        "menu": CommandEntry("drive.menu", "Do what an entry of a file manager's menu says"),
        "demo": CommandEntry("drive.drive", "Mount a demo drive with sample files; needs no account"),
        "pin": CommandEntry("drive.pins", "Keep files and folders available offline"),
        "unpin": CommandEntry("drive.pins", "Stop keeping files and folders available offline"),
        "pins": CommandEntry("drive.pins", "List what is available offline"),
        "free": CommandEntry("drive.free", "Free up disk space by removing cached files"),
        "search": CommandEntry("drive.search", "Search names, descriptions and contents"),
    },
    "Files": {
        "get": CommandEntry("files.files", "Download a file or folder"),
        "put": CommandEntry("files.files", "Upload a file or folder"),
        "text": CommandEntry("files.text", "Print the text of a document"),
        "copy": CommandEntry("files.copy", "Copy a file or folder at the service"),
        "versions": CommandEntry("files.versions", "List, download and restore versions of a file"),
        "restore": CommandEntry("files.restore", "Bring a folder back to what it was at a time"),
        "log": CommandEntry("files.log", "Show who changed what, and when"),
        "watch": CommandEntry("files.log", "Print changes as they happen, and run a command on each"),
        "trash": CommandEntry("files.trash", "List, restore and permanently delete trashed items"),
        "favorites": CommandEntry("files.favorites", "List, add and remove favorites"),
        "lock": CommandEntry("files.lock", "Lock a file against changes, or a folder against being moved"),
        "unlock": CommandEntry("files.lock", "Unlock a file or folder"),
        "link": CommandEntry("files.link", "Create a web link"),
        "share": CommandEntry("files.share", "Create, change or remove a shared link"),
        "invite": CommandEntry("files.people", "Share a file or folder with people"),
        "people": CommandEntry("files.people", "List who collaborates on a file or folder"),
        "shared": CommandEntry("files.shared", "Accept or decline what others share with you"),
    },
    "Sync": {
        "status": CommandEntry("sync.status", "Show the status of the drive, or of single items"),
        "sync": CommandEntry("drive.drive", "Upload all pending changes now, and wait for it"),
        "pause": CommandEntry("sync.daemon_controls", "Pause syncing"),
        "resume": CommandEntry("sync.daemon_controls", "Resume syncing"),
        "conflicts": CommandEntry("sync.conflicts", "List conflicts and items needing attention"),
        "retry": CommandEntry("sync.conflicts", "Retry uploads that the service has refused"),
        "discard": CommandEntry("sync.conflicts", "Discard a local change that the service refuses"),
        "guard": CommandEntry("sync.guard", "Review mass changes by programs that are held back"),
        "missing": CommandEntry("sync.missing", "Review items that have disappeared from the service"),
        "adopt": CommandEntry("sync.adopt", "Move files from below the mountpoint into the drive"),
    },
    "Account": {
        "setup": CommandEntry("account.setup", "Set up the drive step by step"),
        "login": CommandEntry("account.login", "Log in to a service"),
        "logout": CommandEntry("account.login", "Log out and revoke the tokens"),
        "whoami": CommandEntry("account.whoami", "Show the current user"),
        "token": CommandEntry("account.token", "Issue downscoped tokens for other programs"),
    },
    "Maintenance": {
        "doctor": CommandEntry("service.doctor", "Diagnose problems and suggest fixes"),
        "config": CommandEntry("service.configuration", "Show, check and edit the configuration"),
        "upgrade": CommandEntry("drive.upgrade", "Switch the mounted drive to the installed version"),
        "fsck": CommandEntry("service.fsck", "Check and repair the local state"),
        "log-level": CommandEntry("sync.daemon_controls", "Change the log level of the running drive"),
    },
    # Not for ordinary users: for those who run a service, or are administrators of one.
    "Administration": {
        "users": CommandEntry("management.users", "Manage the users of the enterprise"),
        "templates": CommandEntry("management.templates", "Manage metadata templates"),
        "retention": CommandEntry("management.retention", "Show retention policies and their assignments"),
        "holds": CommandEntry("management.holds", "Manage legal holds"),
        "exemptions": CommandEntry(
            "management.exemptions", "Manage exemptions from the collaboration allowlist"
        ),
        "serve": CommandEntry("service.serve", "Serve the embedded service over HTTP"),
        "service": CommandEntry("service.store_check", "Check or move the embedded service's data"),
    },
}

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}

# Aliases of commands, which the help does not list.
ALIASES = {"find": "search"}

# Functions whose command's name would shadow a builtin or a module.
FUNCTIONS = {"open": "open_command", "versions": "versions_command"}
