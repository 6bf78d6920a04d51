"""The icon on a bus of the test's own, as a panel finds it; and the daemon's word that changes it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.trio import open_dbus_connection, open_dbus_router

from cmsfs.cli.tray import drive_follower, tray_item, tray_menu, tray_state
from cmsfs.ipc import control
from tests.support import message_buses

SUMMARY = control.DriveSummary(account="default", mountpoint="/mnt", state="online")


@pytest.fixture
def bus() -> Iterator[str]:
    with message_buses.running() as address:
        yield address


@asynccontextmanager
async def panel(bus: str) -> AsyncIterator[Callable[[], Any]]:
    """A watcher; the function waits for the name of an item that registers."""
    async with await open_dbus_connection(bus) as connection:
        asked = new_method_call(message_bus, "RequestName", "su", (tray_item.WATCHER, 4))
        await connection.send(asked)

        async def registered() -> str:
            while True:
                message = await connection.receive()
                if message.header.fields.get(HeaderFields.member) == "RegisterStatusNotifierItem":
                    await connection.send(new_method_return(message))
                    return str(message.body[0])

        yield registered


async def ask(bus: str, name: str, path: str, interface: str, method: str, *call: Any) -> tuple[Any, ...]:
    async with open_dbus_router(bus) as router:
        address = DBusAddress(path, bus_name=name, interface=interface)
        reply: Message = await router.send_and_get_reply(new_method_call(address, method, *call))
        assert reply.header.message_type is MessageType.method_return, reply.body
        return tuple(reply.body)


async def test_a_panel_shows_the_icon_and_its_menu(bus: str, nursery: trio.Nursery) -> None:
    chosen: list[str] = []
    items: list[tray_item.TrayItem] = []

    async def choose(entry: tray_menu.MenuEntry) -> None:
        chosen.append(entry.action)

    async def started(item: tray_item.TrayItem) -> None:
        await item.show(tray_state.of(SUMMARY), tray_menu.entries([SUMMARY], {}))
        items.append(item)

    with trio.fail_after(20):
        # The panel comes after the icon, and goes, and another one comes.
        nursery.start_soon(tray_item.run, bus, choose, "", started)
        names = []
        for _ in range(2):
            async with panel(bus) as registered:
                names.append(await registered())
        name = names[0]
        assert names == [name, name]
        (found,) = await ask(
            bus,
            name,
            tray_item.PATH,
            "org.freedesktop.DBus.Properties",
            "GetAll",
            "s",
            (tray_item.ITEM,),
        )
        assert found["IconName"] == ("s", "cmsfs-tray-ok")
        assert found["Menu"] == ("o", tray_menu.PATH)
        menu = (bus, name, tray_menu.PATH, tray_menu.INTERFACE)
        _, (number, _, below) = await ask(*menu, "GetLayout", "iias", (0, -1, []))
        labels = {child[1]["label"][1]: child[0] for _, child in below if "label" in child[1]}
        assert number == 0
        assert {"Open Folder", "Open Page", "Pause for an Hour", "Quit"} <= set(labels)
        (groups,) = await ask(*menu, "GetGroupProperties", "aias", ([labels["Quit"]], []))
        assert groups == [(labels["Quit"], {"label": ("s", "Quit")})]
        clicked = (labels["Open Page"], "clicked", ("s", ""), 0)
        await ask(*menu, "Event", "isvu", clicked)
        assert chosen == ["page"]
        with pytest.raises(ExceptionGroup) as second:
            await tray_item.run(bus, choose, "", started)
        assert second.group_contains(tray_item.TrayIsShownError)


async def test_the_follower_hears_each_daemon_and_its_end(spoken_to: Any, nursery: trio.Nursery) -> None:
    moving = SUMMARY.model_copy(update={"pending": 1, "moving": ["/a", "/b"]})
    spoken_to(lambda request: [moving] if isinstance(request, control.Follow) else [])
    follower = drive_follower.DriveFollower()
    heard: list[Any] = []
    nursery.start_soon(follower.run)
    with trio.fail_after(20):
        while not follower.recent or follower.drives:
            await follower.changed.wait()
            heard.append(list(follower.drives))
    # It hung up after its word.
    assert follower.recent == {"default": ["/b", "/a"]}
    assert heard[-1] == []
