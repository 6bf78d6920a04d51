"""The icon on the session's bus: org.kde.StatusNotifierItem, and com.canonical.dbusmenu for its menu.

Answers the panel's method calls, emits signals for changes, and registers with the panel, also with one that
starts later or is restarted.

Rule: a missing panel, or a call that we do not support, is not an error.
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

# Owned by the process with the icon: one for each session.
OWN_NAME = "org.cmsfs.Tray"
WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
PATH = "/StatusNotifierItem"

_WATCHER = DBusAddress("/StatusNotifierWatcher", bus_name=WATCHER, interface=WATCHER)
_IS_OWNER = 1
_DO_NOT_QUEUE = 4

Chosen = Callable[[tray_menu.MenuEntry], Awaitable[None]]


class TrayIsShownError(Exception):
    """Another process already shows the icon."""


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
        """Update state and menu; emits signals only for changes."""
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
        """Acquire the bus names, register, and answer calls until the connection is closed.

        Raises `TrayIsShownError` if another process has the icon.
        """
        asked = await self._call(message_bus, "RequestName", "su", (OWN_NAME, _DO_NOT_QUEUE))
        await self._call(message_bus, "RequestName", "su", (self._name, _DO_NOT_QUEUE))
        # Before registering, or a panel that starts in between would be missed.
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
        """Send a method call and return its serial; `serve` receives the reply."""
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
            signature, body = await self._reply_to(fields[HeaderFields.path], called, message.body)
        except (KeyError, ValueError, IndexError):
            reply = new_error(message, "org.freedesktop.DBus.Error.UnknownMethod")
        else:
            reply = new_method_return(message, signature, body)
        await self._connection.send(reply)

    async def _reply_to(
        self, path: str, called: tuple[str, str], body: tuple[Any, ...]
    ) -> tuple[str | None, tuple[Any, ...]]:
        """Return signature and body of the reply to a call; `KeyError` for unknown calls."""
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
                return await self._menu_reply(method, body)
            case (_, "Activate"):
                if entry := self._menu.first("open"):
                    await self._chosen(entry)
                return None, ()
            case (_, "ContextMenu" | "SecondaryActivate" | "Scroll" | "ProvideXdgActivationToken"):
                return None, ()
        raise KeyError(called)

    async def _menu_reply(self, method: str, body: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
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
    """Show the icon until the bus connection is closed; `started` keeps it up to date meanwhile.

    Raises the errors of connecting, and `TrayIsShownError`.
    """
    connection = await open_dbus_connection(bus)
    async with connection, trio.open_nursery() as nursery:
        item = TrayItem(connection, chosen, theme)
        nursery.start_soon(started, item)
        await item.serve()
