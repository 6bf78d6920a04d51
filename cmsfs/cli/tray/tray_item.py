"""The icon on the session's bus: org.kde.StatusNotifierItem, and com.canonical.dbusmenu for its menu.

Answers what a panel asks, tells it what has changed, and registers with whichever panel is there, also with
one that comes later or is started again.

Rule: a panel that is not there, or asks for what we do not have, is no error.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from jeepney import (
    DBusAddress,
    HeaderFields,
    MatchRule,
    Message,
    MessageType,
    new_error,
    new_method_call,
    new_method_return,
    new_signal,
)
from jeepney.bus_messages import message_bus
from jeepney.io.trio import DBusConnection, open_dbus_connection

from cmsfs.cli.tray import tray_menu, tray_state
from cmsfs.cli.tray.tray_introspection import XML

# One icon of ours a session.
OWN_NAME = "org.cmsfs.Tray"
WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
PATH = "/StatusNotifierItem"

_WATCHER = DBusAddress("/StatusNotifierWatcher", bus_name=WATCHER, interface=WATCHER)
_IS_OWNER = 1
_DO_NOT_QUEUE = 4

Chosen = Callable[[tray_menu.MenuEntry], Awaitable[None]]


class TrayIsShownError(Exception):
    """Another process shows the icon already."""


class TrayItem:
    """The icon, on one connection to a bus."""

    def __init__(self, connection: DBusConnection, chosen: Chosen, theme: str) -> None:
        self._connection = connection
        self._chosen = chosen
        self._theme = theme
        self._state = tray_state.NONE
        self._menu = tray_menu.TrayMenu()
        self._name = f"{ITEM}-{os.getpid()}-1"

    async def show(self, state: tray_state.TrayState, entries: tuple[tray_menu.MenuEntry, ...]) -> None:
        """Show another state and menu, if they are others."""
        if state != self._state:
            before, self._state = self._state, state
            if before.icon != state.icon:
                await self._tell(PATH, ITEM, "NewIcon")
                await self._tell(PATH, ITEM, "NewAttentionIcon")
            await self._tell(PATH, ITEM, "NewToolTip")
            await self._tell(PATH, ITEM, "NewTitle")
            if before.status != state.status:
                await self._tell(PATH, ITEM, "NewStatus", "s", (state.status,))
        if self._menu.change(entries):
            menu = (self._menu.revision, 0)
            await self._tell(tray_menu.PATH, tray_menu.INTERFACE, "LayoutUpdated", "ui", menu)

    async def serve(self) -> None:
        """Take the names, register, and answer until the connection ends.

        Raises `TrayIsShownError` if another process has the icon.
        """
        asked = await self._call(message_bus, "RequestName", "su", (OWN_NAME, _DO_NOT_QUEUE))
        await self._call(message_bus, "RequestName", "su", (self._name, _DO_NOT_QUEUE))
        # Before registering: a panel that comes between would not be noticed.
        rule = MatchRule(
            type="signal",
            sender=message_bus.bus_name,
            interface=message_bus.interface,
            member="NameOwnerChanged",
        )
        rule.add_arg_condition(0, WATCHER)
        await self._call(message_bus, "AddMatch", "s", (rule.serialise(),))
        await self._register()
        while True:
            message = await self._connection.receive()
            fields = message.header.fields
            kind = message.header.message_type
            if kind is MessageType.method_call:
                await self._answer(message)
            elif kind is MessageType.method_return and fields.get(HeaderFields.reply_serial) == asked:
                if message.body[0] != _IS_OWNER:
                    raise TrayIsShownError
            elif kind is MessageType.signal and fields.get(HeaderFields.member) == "NameOwnerChanged":
                name, _, owner = message.body
                if name == WATCHER and owner:
                    await self._register()

    async def _register(self) -> None:
        await self._call(_WATCHER, "RegisterStatusNotifierItem", "s", (self._name,))

    async def _call(self, address: DBusAddress, method: str, signature: str, body: tuple[Any, ...]) -> int:
        """Its number; what is answered, `serve` hears."""
        serial: int = next(self._connection.outgoing_serial)
        await self._connection.send(new_method_call(address, method, signature, body), serial=serial)
        return serial

    async def _tell(
        self, path: str, interface: str, signal: str, signature: str | None = None, body: tuple[Any, ...] = ()
    ) -> None:
        emitter = DBusAddress(path, interface=interface)
        await self._connection.send(new_signal(emitter, signal, signature, body))

    async def _answer(self, message: Message) -> None:
        fields = message.header.fields
        called = (fields.get(HeaderFields.interface, ""), fields[HeaderFields.member])
        try:
            signature, body = await self._said(fields[HeaderFields.path], called, message.body)
        except (KeyError, ValueError, IndexError):
            reply = new_error(message, "org.freedesktop.DBus.Error.UnknownMethod")
        else:
            reply = new_method_return(message, signature, body)
        await self._connection.send(reply)

    async def _said(
        self, path: str, called: tuple[str, str], body: tuple[Any, ...]
    ) -> tuple[str | None, tuple[Any, ...]]:
        """The answer to a call; `KeyError` if there is none."""
        match called:
            case ("org.freedesktop.DBus.Introspectable", "Introspect"):
                return "s", (XML[path],)
            case ("org.freedesktop.DBus.Peer", "Ping"):
                return None, ()
            case ("org.freedesktop.DBus.Properties", "Get"):
                return "v", (self._properties(body[0])[body[1]],)
            case ("org.freedesktop.DBus.Properties", "GetAll"):
                return "a{sv}", (self._properties(body[0]),)
            case (tray_menu.INTERFACE, method):
                return await self._menu_said(method, body)
            case (_, "Activate"):
                if entry := self._menu.first("open"):
                    await self._chosen(entry)
                return None, ()
            case (_, "ContextMenu" | "SecondaryActivate" | "Scroll" | "ProvideXdgActivationToken"):
                return None, ()
        raise KeyError(called)

    async def _menu_said(self, method: str, body: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
        menu = self._menu
        match method:
            case "GetLayout":
                return f"u{tray_menu.LAYOUT}", (menu.revision, menu.layout(body[0], body[1]))
            case "GetGroupProperties":
                return "a(ia{sv})", (list(menu.properties(body[0])),)
            case "GetProperty":
                return "v", (dict(menu.properties([body[0]]))[body[0]][body[1]],)
            case "Event":
                await self._event(body[0], body[1])
                return None, ()
            case "EventGroup":
                for number, event, _, _ in body[0]:
                    await self._event(number, event)
                return "ai", ([],)
            case "AboutToShow":
                return "b", (False,)
            case "AboutToShowGroup":
                return "aiai", ([], [])
        raise KeyError(method)

    async def _event(self, number: int, event: str) -> None:
        if event == "clicked" and (entry := self._menu.find(number)) and entry.action:
            await self._chosen(entry)

    def _properties(self, interface: str) -> dict[str, tuple[str, Any]]:
        if interface == tray_menu.INTERFACE:
            return {
                "Version": ("u", 3),
                "TextDirection": ("s", "ltr"),
                "Status": ("s", "normal"),
                "IconThemePath": ("as", [self._theme] if self._theme else []),
            }
        if interface != ITEM:
            raise KeyError(interface)
        state = self._state
        no_picture: list[Any] = []
        return {
            "Category": ("s", "ApplicationStatus"),
            "Id": ("s", "cmsfs"),
            "Title": ("s", f"Cloud Drive: {state.words}"),
            "Status": ("s", state.status),
            "WindowId": ("i", 0),
            "IconThemePath": ("s", self._theme),
            "IconName": ("s", state.icon),
            "IconPixmap": ("a(iiay)", no_picture),
            "OverlayIconName": ("s", ""),
            "OverlayIconPixmap": ("a(iiay)", no_picture),
            "AttentionIconName": ("s", state.icon),
            "AttentionIconPixmap": ("a(iiay)", no_picture),
            "AttentionMovieName": ("s", ""),
            "ToolTip": ("(sa(iiay)ss)", (state.icon, no_picture, "Cloud Drive", state.words)),
            "ItemIsMenu": ("b", False),
            "Menu": ("o", tray_menu.PATH),
        }


async def run(
    bus: str,
    chosen: Chosen,
    theme: str,
    started: Callable[[TrayItem], Awaitable[None]],
) -> None:
    """Show the icon on a bus until the bus goes; `started` keeps it up to date meanwhile.

    Raises what connecting raises, and `TrayIsShownError`.
    """
    connection = await open_dbus_connection(bus)
    async with connection, trio.open_nursery() as nursery:
        item = TrayItem(connection, chosen, theme)
        nursery.start_soon(started, item)
        await item.serve()
