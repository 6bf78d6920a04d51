"""sd_notify(3) messages to systemd: ready, status, watchdog, stopping; and its file descriptor store.

Each message is one datagram.  Without `NOTIFY_SOCKET` nothing is sent, so callers need not check.
"""

import os
import socket
import struct
from collections.abc import Mapping, Sequence


def notify(**fields: object) -> None:
    """Send one message; ignore errors, since the service works without its manager."""
    if not is_enabled():
        return
    try:
        send(fields)
    except OSError:
        pass


def send(fields: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
    """Send one message with these descriptors.  Raises `OSError`."""
    # One field per line, so values must not contain line breaks.
    message = "\n".join(f"{key}={' '.join(str(value).split())}" for key, value in fields.items())
    address = os.environ["NOTIFY_SOCKET"]
    # A leading @ denotes an abstract socket address.
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    rights = struct.pack(f"{len(descriptors)}i", *descriptors)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # Without blocking: this runs on the event loop.
        sender.sendmsg([message.encode()], ancillary, socket.MSG_DONTWAIT, address)


def can_store_fds() -> bool:
    """Whether the manager stores descriptors for the next process, should this one die (systemd 254)."""
    return is_enabled() and os.environ.get("FDSTORE", "0") not in ("", "0")


def store_fd(name: str, descriptor: int) -> None:
    """Store a duplicate of this descriptor for the next process.  Raises `OSError`."""
    send({"FDSTORE": 1, "FDNAME": name}, [descriptor])


def remove_fd(name: str) -> None:
    """Have the manager close the descriptors stored under this name."""
    notify(FDSTOREREMOVE=1, FDNAME=name)


def stored_fds() -> dict[str, int]:
    """Return the descriptors stored for this process, by name; the caller now owns them."""
    pid, count, names = (os.environ.pop(f"LISTEN_{word}", "") for word in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdigit():
        return {}
    first = 3  # SD_LISTEN_FDS_START
    found = dict(zip(names.split(":"), range(first, first + int(count)), strict=False))
    for fd in found.values():
        os.set_inheritable(fd, False)
    return found


def claim_main_process() -> None:
    """Make this process the one that sends watchdog messages."""
    if "WATCHDOG_PID" in os.environ:
        os.environ["WATCHDOG_PID"] = str(os.getpid())


def is_enabled() -> bool:
    """Whether a service manager expects messages."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def watchdog_seconds() -> float | None:
    """Return the interval of watchdog messages, half of the manager's timeout as sd_watchdog_enabled(3)
    advises; None if this process need not send any."""
    wanted = os.environ.get("WATCHDOG_USEC", "")
    mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(wanted) / 2_000_000 if wanted.isdigit() and mine else None
