"""Sends desktop notifications over the session's D-Bus (freedesktop).

One message, one connection: notifications are rare, and a session may end and another begin.

Rule: a desktop that is not there, or does not answer, is nothing to trouble anybody with.  What is said is
text: names and a service's sentences are in it, and whatever they hold is shown, never followed.
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
_STAYS = -1  # for as long as the desktop finds right
_URGENCY = {"normal": 1, "critical": 2}


async def show(summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int | None:
    """Show a notification, instead of an earlier one if that is still there; its number.

    None if there is no session bus, or nobody on it shows notifications.
    """
    if (bus := config.session_bus()) is None:
        return None
    ask = new_method_call(_SERVICE, "GetCapabilities")
    hints = {"urgency": ("y", _URGENCY[urgency]), "desktop-entry": ("s", APP)}
    try:
        with trio.fail_after(SECONDS):
            async with open_dbus_router(bus=bus) as router:
                can = await router.send_and_get_reply(ask)
                said = _said(body, can.body)
                values: tuple[object, ...] = (
                    APP,
                    replaces,
                    ICON,
                    printable.escaped(summary),
                    said,
                    [],
                    hints,
                )
                message = new_method_call(_SERVICE, "Notify", "susssasa{sv}i", (*values, _STAYS))
                reply = await router.send_and_get_reply(message)
    # Whatever a bus, or what claims to be one, may do: the library has no root of its exceptions.
    except Exception as error:
        log.info("desktop notifications are unavailable: %r", error)
        return None
    if reply.header.message_type is MessageType.error:
        log.info("the desktop rejected a notification: %s", reply.body)
        return None
    return int(reply.body[0])


def _said(body: str, capabilities: tuple[Any, ...]) -> str:
    """The body as this desktop shows it unchanged."""
    understood = capabilities[0] if capabilities and isinstance(capabilities[0], list) else []
    text = printable.without_links(body)
    return printable.without_markup(text) if "body-markup" in understood else text
