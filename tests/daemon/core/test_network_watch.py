"""A machine that moves to another network, or wakes up, looks at once."""

import ctypes
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing
from jeepney import new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.trio import open_dbus_connection

from daemon.core import network_watch
from daemon.core.network_watch import LOGIN, NetworkWatch
from tests.support import message_buses

CLONE_NEWNET = 0x40000000


class Looks:
    """How often there was a look."""

    def __init__(self) -> None:
        self.count = 0
        self.looked = trio.Event()

    def __call__(self) -> None:
        self.count += 1
        self.looked.set()


@pytest.fixture
def network() -> Iterator[tuple[socket.socket, "queue.Queue[str]"]]:
    """What the kernel tells of a network of the test's own, and where `ip` commands for it go."""
    made: queue.Queue[socket.socket | None] = queue.Queue()
    wanted: queue.Queue[str] = queue.Queue()

    def live() -> None:
        if ctypes.CDLL(None).unshare(CLONE_NEWNET):
            made.put(None)
            return
        made.put(network_watch.open_netlink())
        while command := wanted.get():
            subprocess.run(["ip", *command.split()], check=True)

    thread = threading.Thread(target=live)
    thread.start()
    if (told := made.get()) is None:
        thread.join()
        pytest.skip("only root has networks to try this with")
    yield told, wanted
    wanted.put("")
    thread.join()
    told.close()


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a system's message bus of the test's own."""
    with message_buses.running() as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        yield address


async def test_another_address_is_looked_at_once(
    network: tuple[socket.socket, "queue.Queue[str]"], nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_watch, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(network_watch, "REST_SECONDS", 0.0)
    told, wanted = network
    looks = Looks()
    nursery.start_soon(NetworkWatch(looks).follow_addresses, told)
    await trio.testing.wait_all_tasks_blocked()
    assert looks.count == 0
    for number in range(3):
        wanted.put(f"addr add 127.0.0.{70 + number}/32 dev lo")
    with trio.fail_after(20):
        await looks.looked.wait()
    assert looks.count == 1


async def test_waking_up_is_looked_at(bus: str, nursery: trio.Nursery) -> None:
    looks = Looks()
    nursery.start_soon(NetworkWatch(looks).follow_sleep)
    async with await open_dbus_connection(bus) as connection, connection.router() as login:
        await login.send_and_get_reply(message_bus.RequestName(LOGIN.bus_name))
        with trio.fail_after(20):
            # Heard once the bus has taken its match.
            while not looks.looked.is_set():
                await login.send(new_signal(LOGIN, "PrepareForSleep", "b", (False,)))
                with trio.move_on_after(0.05):
                    await looks.looked.wait()


async def test_without_a_bus_the_network_is_watched(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path=/nonexistent/{os.getpid()}")
    nursery.start_soon(NetworkWatch(Looks()).run)
    await trio.testing.wait_all_tasks_blocked()
    assert len(nursery.child_tasks) == 1
