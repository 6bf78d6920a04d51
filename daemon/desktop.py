"""Words on the person's desktop: the freedesktop notification service of the session's bus.

One message, one connection: notifications are rare, and a session may end and another begin.

Rule: a desktop that is not there, or does not answer, is nothing to trouble anybody with.
"""

import logging

import trio
from jeepney import DBusAddress, MessageType, new_method_call
from jeepney.io.trio import open_dbus_router

from cmsfs import config

log = logging.getLogger(__name__)

SECONDS = 5.0

_SERVICE = DBusAddress(
    "/org/freedesktop/Notifications",
    bus_name="org.freedesktop.Notifications",
    interface="org.freedesktop.Notifications",
)
APP = "cmsfs"
ICON = "folder-remote"
_LEFT_TO_THE_DESKTOP = -1  # how long it stays
_URGENCY = {"normal": 1, "critical": 2}


async def show(summary: str, body: str, *, replaces: int = 0, urgency: str = "normal") -> int | None:
    """Show a notification, instead of an earlier one if that is still there; its number.

    None if there is no session bus, or nobody on it shows notifications.
    """
    if (bus := config.session_bus()) is None:
        return None
    hints = {"urgency": ("y", _URGENCY[urgency]), "desktop-entry": ("s", APP)}
    values: tuple[object, ...] = (APP, replaces, ICON, summary, body, [], hints, _LEFT_TO_THE_DESKTOP)
    message = new_method_call(_SERVICE, "Notify", "susssasa{sv}i", values)
    try:
        with trio.fail_after(SECONDS):
            async with open_dbus_router(bus=bus) as router:
                reply = await router.send_and_get_reply(message)
    # Whatever a bus, or what claims to be one, may do: the library has no root of its exceptions.
    except Exception as error:
        log.info("the desktop shows no notification: %r", error)
        return None
    if reply.header.message_type is MessageType.error:
        log.info("the desktop refuses a notification: %s", reply.body)
        return None
    return int(reply.body[0])
