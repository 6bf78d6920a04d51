"""A shutdown of the machine waits for uploads."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from jeepney import Message, MessageType, new_method_return, new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.trio import DBusConnection, open_dbus_connection

from daemon.core.network_watch import LOGIN
from daemon.desktop.shutdown_inhibitor import ShutdownInhibitor
from tests.support import message_buses


class Login:
    """A session manager: gives locks away, and tells when the last one was released."""

    def __init__(self, bus: DBusConnection) -> None:
        self._bus = bus

    async def give_a_lock(self) -> tuple[Message, int]:
        """Answer the next one who asks for a lock; what was asked, and what ends when it is released."""
        while True:
            asked = await self._bus.receive()
            if asked.header.message_type is MessageType.method_call:
                break
        ours, theirs = os.pipe()
        await self._bus.send(new_method_return(asked, "h", (theirs,)))
        os.close(theirs)
        return asked, ours

    async def tell(self, shuts_down: bool) -> None:
        await self._bus.send(new_signal(LOGIN, "PrepareForShutdown", "b", (shuts_down,)))


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with message_buses.running() as address:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        yield address


@pytest.fixture
async def login(bus: str) -> AsyncIterator[Login]:
    async with await open_dbus_connection(bus, enable_fds=True) as connection:
        await connection.send(message_bus.RequestName(LOGIN.bus_name))
        yield Login(connection)


class Uploads:
    """One change; uploaded when `may_end` is set."""

    def __init__(self, pending: int = 1) -> None:
        self.pending = pending
        self.begun, self.may_end = trio.Event(), trio.Event()

    async def upload(self) -> None:
        self.begun.set()
        await self.may_end.wait()
        self.pending = 0


async def _released(lock: int) -> bool:
    with trio.move_on_after(20):
        await trio.lowlevel.wait_readable(lock)
        return os.read(lock, 1) == b""
    return False


async def test_a_shutdown_waits_for_uploads(login: Login, nursery: trio.Nursery) -> None:
    uploads = Uploads()
    nursery.start_soon(ShutdownInhibitor(lambda: uploads.pending, uploads.upload).run)
    with trio.fail_after(60):
        asked, lock = await login.give_a_lock()
        assert (asked.header.fields[3], asked.body[0], asked.body[3]) == ("Inhibit", "shutdown", "delay")
        await login.tell(shuts_down=True)
        await uploads.begun.wait()
        os.set_blocking(lock, False)
        with pytest.raises(BlockingIOError):
            os.read(lock, 1)  # still held
        uploads.may_end.set()
        assert await _released(lock)
        os.close(lock)

        await login.tell(shuts_down=False)
        _, again = await login.give_a_lock()
        await login.tell(shuts_down=True)
        assert await _released(again)
    os.close(again)


async def test_a_shutdown_does_not_wait_for_nothing(login: Login, nursery: trio.Nursery) -> None:
    uploads = Uploads(pending=0)
    nursery.start_soon(ShutdownInhibitor(lambda: uploads.pending, uploads.upload).run)
    with trio.fail_after(60):
        _, lock = await login.give_a_lock()
        await login.tell(shuts_down=True)
        assert await _released(lock)
    assert not uploads.begun.is_set()
    os.close(lock)
