"""What the file manager shows of a drive and asks its daemon, without the file manager.

Plain functions over the control socket's JSON lines, for the extensions of all file managers and for tests.
It runs in the system's Python, so nothing of cmsfs is imported here; what is spoken is described in
cmsfs/ipc/control.py.

Rule: nothing here waits or touches the drive: mounts are read from the kernel's list.
"""

import json
import re

STATES = {
    # What is shown first when several hold: emblem, the word for the column.  The emblems are ours: those of
    # the desktop's theme are too few to tell all of this apart, and newer themes have none of them.
    "held": ("emblem-cmsfs-held", "Rejected by the service"),
    "conflict": ("emblem-cmsfs-conflict", "Conflict copy"),
    "syncing": ("emblem-cmsfs-syncing", "Uploading"),
    "pinned": ("emblem-cmsfs-pinned", "Available offline"),
    "online": ("emblem-cmsfs-online", "Online only"),
    "local": ("", "Only on this computer"),
    "synced": ("emblem-cmsfs-synced", "Synced"),
}

# What a file's name ends in to mean its past versions: the drive's own rule (SEMANTICS.md, "File versions").
VERSIONS = "@versions"
# What is in the name of a conflict copy (SEMANTICS.md, "Conflicts").
CONFLICT = " (conflicted copy of "


def mountpoints(mountinfo):
    """The drives among the lines of /proc/self/mountinfo, the longest path first."""
    found = []
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("fuse.cmsfs "):
            path = fields.split(" ")[4]
            found.append(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path))
    return sorted(found, key=len, reverse=True)


def locate(path, drives):
    """The drive that a path is on and the path in it, from its top; None if it is on none."""
    for drive in drives:
        if path == drive:
            return drive, "/"
        if path.startswith(drive.rstrip("/") + "/"):
            return drive, path[len(drive.rstrip("/")) :]
    return None


def request(kind, **fields):
    """A request as the socket takes it."""
    return json.dumps({"kind": kind, **fields}).encode() + b"\n"


def answer(line):
    """The answer in a line, or None if it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "kind" in found else None


# The desktop's own, on what belongs to somebody else.
SHARED = "emblem-shared"


def owner(told):
    """Whose an item is, if it is somebody else's, from the answer about its path; "" for one's own."""
    return str(told.get("owner", "")) if told and told.get("kind") == "path" else ""


# On what is among the account's favorites, beside the state.
FAVORITE = "emblem-cmsfs-favorite"


def is_favorite(told):
    """Whether an item is a favorite, from the answer about its path."""
    return bool(told and told.get("kind") == "path" and told.get("favorite"))


def state(told):
    """The state of an item, a key of `STATES`, from the answer about its path; None if there is none."""
    if not told or told.get("kind") != "path":
        return None
    sync = str(told.get("sync", ""))
    if sync.startswith("held"):
        return "held"
    if told.get("conflict"):
        return "conflict"
    if sync in ("waiting", "uploading"):
        return "syncing"
    if sync == "local":
        return "local"
    if told.get("pinned"):
        return "pinned"
    if told.get("type") == "file" and told.get("size", 0) > 0 and not told.get("cached_bytes", 0):
        return "online"
    return "synced"


def shown(told):
    """What the marks on an item say; they are drawn anew when it says something else."""
    return state(told), is_favorite(told)


def emblems(told):
    """The emblems of an item, from the answer about its path."""
    found = [STATES[key][0]] if (key := state(told)) else []
    found += [SHARED] if owner(told) else []
    found += [FAVORITE] if is_favorite(told) else []
    return [one for one in found if one]


def words(told):
    """What the column says of an item, from the answer about its path."""
    found = [STATES[key][1]] if (key := state(told)) else []
    found += [f"shared by {owner(told)}"] if owner(told) else []
    found += ["favorite"] if is_favorite(told) else []
    return "; ".join(found)


# The entries of the menu of a folder that is shown.
FOLDER_MENU = (("status", "Show Sync Status"), ("trash", "Restore Deleted Files…"))


def menu(told):
    """The entries of the menu for items with these answers: `(action, label)`, in order.

    They are those of `cmsfs menu`.

    `pin` and `free` are for any number of items, the others for one, `versions` for one file.
    """
    known = [each for each in told if each and each.get("kind") == "path"]
    if not known:
        return []
    entries = []
    is_one = len(known) == 1
    # By its name, too: a file manager without emblems has not asked about it before it wants the menu.
    if is_one and (known[0].get("conflict") or CONFLICT in str(known[0].get("path", ""))):
        entries.append(("conflict", "Solve Conflicts…"))
    if is_one:
        entries.append(("status", "Show Sync Status"))
    if is_one and known[0].get("sync") != "local":
        entries += [("share", "Share…"), ("web", "Open on the Web")]
    if any(_takes_room(each) for each in known):
        entries.append(("free", "Free Up Space"))
    # Who is pinned through a folder above is let go there.
    if any(not each.get("pinned") for each in known):
        entries.append(("pin", "Make Available Offline"))
    if is_one and known[0].get("sync") != "local":
        entries.append(("link", "Copy Shared Link"))
        if known[0].get("type") == "file":
            entries.append(("versions", "Show Versions"))
    return entries


def versions_folder(path):
    """Where the drive shows the past versions of a file."""
    return path + VERSIONS


def _takes_room(told):
    """Whether an item may have bytes here that could be fetched again; of a folder only the daemon knows."""
    if told.get("sync") == "local" or told.get("pinned") not in (None, "", told.get("path")):
        return False
    return told.get("type") == "folder" or bool(told.get("pinned") or told.get("cached_bytes", 1))
