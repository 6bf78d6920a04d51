"""Detects a change of network and resume from sleep, and checks the connection then.

The kernel reports addresses and routes over netlink, the session manager sleep over the system D-Bus.  Either
works without the other; nothing is polled.

Rule: a report is only a reason to check: the probe determines whether the service answers.
"""

import logging
import socket
from collections.abc import Callable

import trio
from jeepney import DBusAddress, MatchRule, new_method_call
from jeepney.bus_messages import message_bus
from jeepney.io.trio import open_dbus_connection

log = logging.getLogger(__name__)

# Addresses and routes change in bursts; after this time without a change the network is stable.
SETTLE_SECONDS = 1.0

# If they never settle (containers that start and stop), check this often.
REST_SECONDS = 15.0

# Retry interval for a system without D-Bus, or whose bus was restarted.
BUS_AGAIN_SECONDS = 600.0

# linux/rtnetlink.h: IPv4 addresses and routes, IPv6 addresses.
_GROUPS = 0x10 | 0x40 | 0x100

LOGIN = DBusAddress(
    "/org/freedesktop/login1", bus_name="org.freedesktop.login1", interface="org.freedesktop.login1.Manager"
)


class NetworkWatch:
    """Calls `look` when the service may have become reachable or unreachable."""

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
        """Call `look` when addresses or routes have changed and settled."""
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
        """Call `look` when the machine resumes from sleep."""
        while True:
            try:
                await self._wakes()
            # A bus, or what claims to be one, may raise anything: the library has no base class of its
            # exceptions.
            except Exception as error:
                log.debug("whether the machine sleeps is not told: %r", error)
            await trio.sleep(BUS_AGAIN_SECONDS)

    async def _wakes(self) -> None:
        """Wait for resume signals until the bus is gone."""
        rule = MatchRule(
            type="signal", sender=LOGIN.bus_name, interface=LOGIN.interface, member="PrepareForSleep"
        )
        # Delivered signals carry the sender's unique name, so the local rule matches without it.
        heard = MatchRule(type="signal", interface=LOGIN.interface, member="PrepareForSleep")
        async with await open_dbus_connection(bus="SYSTEM") as bus:
            await bus.send(new_method_call(message_bus, "AddMatch", "s", (rule.serialise(),)))
            while True:
                told = await bus.receive()
                if heard.matches(told) and told.body == (False,):
                    log.info("the machine woke up")
                    self._look()


def open_netlink() -> socket.socket:
    """Open a socket for changes of addresses and routes.  Raises `OSError`."""
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
        pass  # messages were lost, which itself reports a change
