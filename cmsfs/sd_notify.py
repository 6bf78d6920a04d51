"""sd_notify(3) messages to systemd: ready, status, watchdog, stopping; and what it keeps open for us.

One datagram a message, by hand.  Without `NOTIFY_SOCKET` nothing is sent, so callers need not ask.
"""

import os
import socket
import struct
from collections.abc import Sequence


def tell(**fields: object) -> None:
    """Send one message; a manager that does not listen is no failure of ours."""
    if not is_heard():
        return
    # A field is a line; a line break in a sentence would begin another.
    message = "\n".join(f"{key}={' '.join(str(value).split())}" for key, value in fields.items())
    try:
        _send(message)
    except OSError:
        pass


def _send(message: str, descriptors: Sequence[int] = ()) -> None:
    address = os.environ["NOTIFY_SOCKET"]
    # A leading @ stands for the NUL of an abstract address.
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    rights = struct.pack(f"{len(descriptors)}i", *descriptors)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # A manager that does not read must not stop us: we speak from the event loop.
        sender.sendmsg([message.encode()], ancillary, socket.MSG_DONTWAIT, address)


def keeps_descriptors() -> bool:
    """Whether the manager keeps descriptors open for the next process, should this one die (systemd 254)."""
    return is_heard() and os.environ.get("FDSTORE", "0") not in ("", "0")


def keep(name: str, descriptor: int) -> None:
    """Have a duplicate of this descriptor kept for the next process.  Raises `OSError`."""
    _send(f"FDSTORE=1\nFDNAME={name}", [descriptor])


def drop(name: str) -> None:
    """What is kept under this name is closed."""
    tell(FDSTOREREMOVE=1, FDNAME=name)


def kept() -> dict[str, int]:
    """What was kept for this process, by name; from then on it is the caller's."""
    pid, count, names = (os.environ.pop(f"LISTEN_{word}", "") for word in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdigit():
        return {}
    first = 3  # SD_LISTEN_FDS_START
    found = dict(zip(names.split(":"), range(first, first + int(count)), strict=False))
    for fd in found.values():
        os.set_inheritable(fd, False)
    return found


def is_main_process() -> None:
    """This process is the service's main one from now on: the watchdog's limit is meant for it."""
    if "WATCHDOG_PID" in os.environ:
        os.environ["WATCHDOG_PID"] = str(os.getpid())


def is_heard() -> bool:
    """Whether a manager wants to be told."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def watchdog_seconds() -> float | None:
    """How often the manager wants to hear that we live, or None: half its limit, as
    sd_watchdog_enabled(3) advises."""
    wanted = os.environ.get("WATCHDOG_USEC", "")
    mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(wanted) / 2_000_000 if wanted.isdigit() and mine else None
