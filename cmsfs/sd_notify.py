"""sd_notify(3) messages to systemd: ready, status, watchdog, stopping.

One datagram a message, by hand.  Without `NOTIFY_SOCKET` nothing is sent, so callers need not ask.
"""

import os
import socket


def tell(**fields: object) -> None:
    """Send one message; a manager that does not listen is no failure of ours."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A leading @ stands for the NUL of an abstract address.
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    # A field is a line; a line break in a sentence would begin another.
    message = "\n".join(f"{key}={' '.join(str(value).split())}" for key, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A manager that does not read must not stop us: we speak from the event loop.
            sender.sendto(message.encode(), socket.MSG_DONTWAIT, address)
    except OSError:
        pass


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
