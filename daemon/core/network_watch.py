"""Notices that the machine has moved to another network, or woke up: then there is a look at once.

The kernel tells of addresses and routes over netlink, the session manager of sleep over the system's D-Bus.
A machine that has either does without the other; nothing is asked again and again for it.

Rule: what is told is a reason to look, no more: the probe finds out whether the service answers.
"""

import logging
import socket
from collections.abc import Callable

import trio
from jeepney import DBusAddress, MatchRule, new_method_call
from jeepney.bus_messages import message_bus
from jeepney.io.trio import open_dbus_connection

log = logging.getLogger(__name__)

# Addresses and routes come and go in bursts; when there was none for so long, the network is there.
SETTLE_SECONDS = 1.0

# Where they never rest (containers that come and go), a look this often is enough.
REST_SECONDS = 15.0

# A system without D-Bus, or whose bus was restarted, is asked again after so long.
BUS_AGAIN_SECONDS = 600.0

# linux/rtnetlink.h: IPv4 addresses and routes, IPv6 addresses.
_GROUPS = 0x10 | 0x40 | 0x100

LOGIN = DBusAddress(
    "/org/freedesktop/login1", bus_name="org.freedesktop.login1", interface="org.freedesktop.login1.Manager"
)


class NetworkWatch:
    """Calls `look` when there is reason to believe that the service can be reached again, or no more."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    async def run(self) -> None:
        """Watch until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.follow_sleep)
            try:
                told = open_netlink()
            except OSError as error:
                log.info("changes of the network cannot be watched: %s", error.strerror)
                return
            with told:
                await self.follow_addresses(told)

    async def follow_addresses(self, told: socket.socket) -> None:
        """Look whenever the kernel tells of other addresses or routes, once they have settled."""
        while True:
            await trio.lowlevel.wait_readable(told)
            settled = False
            while not settled:
                _drain(told)
                with trio.move_on_after(SETTLE_SECONDS) as quiet:
                    await trio.lowlevel.wait_readable(told)
                settled = quiet.cancelled_caught
            log.info("the network has changed")
            self._look()
            await trio.sleep(REST_SECONDS)

    async def follow_sleep(self) -> None:
        """Look whenever the machine wakes up."""
        while True:
            try:
                await self._wakes()
            # Whatever a bus, or what claims to be one, may do: the library has no root of its exceptions.
            except Exception as error:
                log.debug("whether the machine sleeps is not told: %r", error)
            await trio.sleep(BUS_AGAIN_SECONDS)

    async def _wakes(self) -> None:
        """Until the bus is gone."""
        rule = MatchRule(
            type="signal", sender=LOGIN.bus_name, interface=LOGIN.interface, member="PrepareForSleep"
        )
        # The bus puts the sender's unique name in what it delivers, so this side matches without it.
        heard = MatchRule(type="signal", interface=LOGIN.interface, member="PrepareForSleep")
        async with await open_dbus_connection(bus="SYSTEM") as bus:
            await bus.send(new_method_call(message_bus, "AddMatch", "s", (rule.serialise(),)))
            while True:
                told = await bus.receive()
                if heard.matches(told) and told.body == (False,):
                    log.info("the machine woke up")
                    self._look()


def open_netlink() -> socket.socket:
    """What the kernel tells of addresses and routes.  Raises `OSError`."""
    told = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    try:
        told.bind((0, _GROUPS))
    except OSError:
        told.close()
        raise
    return told


def _drain(told: socket.socket) -> None:
    try:
        while told.recv(1 << 16):
            pass
    except BlockingIOError:
        pass
    except OSError:
        pass  # it told more than it kept: that is told, too
