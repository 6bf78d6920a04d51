"""The commands of `cmsfs` as its help groups them, with the module that each is in.

Rule: a summary is one line that begins with a verb; what a command does in full is its docstring.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: the module of `cmsfs.cli` that it is in, and what it does in one line."""

    module: str
    summary: str


GROUPS = {
    "Drive": {
        "mount": Entry("drive", "Mount the drive"),
        "umount": Entry("drive", "Upload pending changes and unmount the drive"),
        "open": Entry("opening", "Open the drive, or a file on it, in the file manager"),
        "demo": Entry("drive", "Mount a demo drive with sample files; needs no account"),
        "pin": Entry("pins", "Keep files and folders available offline"),
        "unpin": Entry("pins", "Stop keeping files and folders available offline"),
        "pins": Entry("pins", "List what is available offline"),
        "free": Entry("freeing", "Free up disk space by removing cached files"),
        "search": Entry("searching", "Search names, descriptions and contents"),
    },
    "Files": {
        "get": Entry("files", "Download a file"),
        "put": Entry("files", "Upload a file"),
        "text": Entry("text", "Print the text of a document"),
        "versions": Entry("versions", "List, download and restore versions of a file"),
        "trash": Entry("trash", "List, restore and permanently delete trashed items"),
        "lock": Entry("lock", "Lock a file against changes by others"),
        "unlock": Entry("lock", "Unlock a file"),
        "link": Entry("web_links", "Create a web link"),
        "share": Entry("sharing", "Create or print a shared link"),
        "shared": Entry("offers", "Accept or decline what others share with you"),
    },
    "Sync": {
        "status": Entry("status", "Show the status of the drive, or of single items"),
        "sync": Entry("drive", "Upload all pending changes now, and wait for it"),
        "pause": Entry("quiet", "Pause syncing"),
        "resume": Entry("quiet", "Resume syncing"),
        "conflicts": Entry("held", "List conflicts and items needing attention"),
        "retry": Entry("held", "Retry uploads that the service has refused"),
        "discard": Entry("held", "Discard a local change that the service refuses"),
        "missing": Entry("missing", "Review items that have disappeared from the service"),
        "adopt": Entry("adopting", "Move files from below the mountpoint into the drive"),
    },
    "Account": {
        "login": Entry("login", "Log in to a service"),
        "logout": Entry("login", "Log out and revoke the tokens"),
        "whoami": Entry("login", "Show the current user"),
        "token": Entry("token", "Issue downscoped tokens for other programs"),
    },
    "Content management": {
        "users": Entry("users", "Manage the users of the enterprise"),
        "templates": Entry("templates", "Manage metadata templates"),
        "retention": Entry("retention", "Show retention policies and their assignments"),
        "holds": Entry("holds", "Manage legal holds"),
        "exemptions": Entry("exemptions", "Manage exemptions from the collaboration allowlist"),
    },
    "Service": {
        "doctor": Entry("doctor", "Diagnose problems and suggest fixes"),
        "config": Entry("configuration", "Show, check and edit the configuration"),
        "fsck": Entry("fsck", "Check and repair the local state"),
        "log-level": Entry("quiet", "Change the log level of the running drive"),
        "serve": Entry("serve", "Serve the embedded service over HTTP"),
    },
}

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}

# Other words for a command, which the help does not list.
ALIASES = {"find": "search"}

# What would hide a builtin of Python, or a module, under its own name.
FUNCTIONS = {"open": "open_command", "versions": "versions_command"}
