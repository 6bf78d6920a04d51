"""Sends desktop notifications over the session's D-Bus (freedesktop).

One connection for each message: notifications are rare, and desktop sessions come and go.

Rule: a missing or silent desktop is only logged.  Notifications are plain text: they contain file names and
the service's messages, whose links and markup are shown, never interpreted.
"""

import logging
from typing import Any

import trio
from jeepney import DBusAddress, MessageType, new_method_call
from jeepney.io.trio import open_dbus_router

from cmsfs import config, printable

log = logging.getLogger(__name__)

SECONDS = 5.0

_SERVICE = DBusAddress(
    "/org/freedesktop/Notifications",
    bus_name="org.freedesktop.Notifications",
    interface="org.freedesktop.Notifications",
)
APP = "cmsfs"
ICON = "folder-remote"
_EXPIRE_TIMEOUT = -1  # the desktop decides how long a notification is shown
_URGENCY = {"normal": 1, "critical": 2}


async def show(summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int | None:
    """Show a notification, replacing the earlier one numbered `replaces` if it is still shown; return its
    number.

    None if there is no session bus, or no notification service on it.
    """
    if (bus := config.session_bus()) is None:
        return None
    ask = new_method_call(_SERVICE, "GetCapabilities")
    hints = {"urgency": ("y", _URGENCY[urgency]), "desktop-entry": ("s", APP)}
    try:
        with trio.fail_after(SECONDS):
            async with open_dbus_router(bus=bus) as router:
                capabilities = await router.send_and_get_reply(ask)
                text = _escape_body(body, capabilities.body)
                values: tuple[object, ...] = (
                    APP,
                    replaces,
                    ICON,
                    printable.escaped(summary),
                    text,
                    [],
                    hints,
                )
                message = new_method_call(_SERVICE, "Notify", "susssasa{sv}i", (*values, _EXPIRE_TIMEOUT))
                reply = await router.send_and_get_reply(message)
    # The library has no common base class of its exceptions.
    except Exception as error:
        log.info("desktop notifications are unavailable: %r", error)
        return None
    if reply.header.message_type is MessageType.error:
        log.info("the desktop rejected a notification: %s", reply.body)
        return None
    return int(reply.body[0])


def _escape_body(body: str, capabilities: tuple[Any, ...]) -> str:
    """Return the body so that this desktop shows it verbatim."""
    supported = capabilities[0] if capabilities and isinstance(capabilities[0], list) else []
    text = printable.without_links(body)
    return printable.without_markup(text) if "body-markup" in supported else text
