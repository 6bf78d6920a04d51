"""Delays a shutdown of the machine until pending changes are uploaded, as long as logind allows.

A delay lock is taken at the start and held; logind signals that the machine is about to shut down, and
continues when the lock is released or after `InhibitDelayMaxSec` (5 seconds by default, see logind.conf).
Stopping the unit then waits for `drain_seconds`.

Rule: nothing depends on it.  Changes that are not uploaded are in the journal, and are uploaded after the
next start.
Source: org.freedesktop.login1(5), "Inhibitor Locks".
"""

import logging
from collections.abc import Awaitable, Callable

import trio
from jeepney import FileDescriptor, MatchRule, Message, MessageType, new_method_call
from jeepney.bus_messages import message_bus
from jeepney.io.trio import DBusConnection, open_dbus_connection

from cmsfs.ipc import notification_bus
from daemon.core.network_watch import BUS_AGAIN_SECONDS, LOGIN

log = logging.getLogger(__name__)

# An upper bound in seconds, above any sensible limit of logind, which normally ends the wait.
LIMIT_SECONDS = 60.0

_TOLD = MatchRule(type="signal", interface=LOGIN.interface, member="PrepareForShutdown")


class ShutdownInhibitor:
    """Delays a shutdown for `upload` if `pending` returns a number of pending changes."""

    def __init__(self, pending: Callable[[], int], upload: Callable[[], Awaitable[None]]) -> None:
        self._pending = pending
        self._upload = upload

    async def run(self) -> None:
        """Hold the lock until cancelled; does nothing on a system without logind."""
        while True:
            try:
                await self._follow()
            # Any error of the bus: the library's exceptions have no common base class.
            except Exception as error:
                log.debug("shutdowns of the machine cannot be delayed: %r", error)
            await trio.sleep(BUS_AGAIN_SECONDS)

    async def _follow(self) -> None:
        """Handle signals until the bus disconnects."""
        rule = MatchRule(
            type="signal", sender=LOGIN.bus_name, interface=LOGIN.interface, member="PrepareForShutdown"
        )
        held: FileDescriptor | None = None
        async with await open_dbus_connection(bus="SYSTEM", enable_fds=True) as bus:
            try:
                await bus.send(new_method_call(message_bus, "AddMatch", "s", (rule.serialise(),)))
                await _ask(bus)
                while True:
                    told = await bus.receive()
                    if (lock := _lock(told)) is not None:
                        held = lock
                    elif _TOLD.matches(told) and told.body == (True,):
                        await self._finish(held)
                    elif _TOLD.matches(told):
                        await _ask(bus)  # the shutdown was cancelled
            finally:
                if held is not None:
                    held.close()

    async def _finish(self, held: FileDescriptor | None) -> None:
        """Upload pending changes, then release the lock."""
        async with trio.open_nursery() as nursery:
            if before := self._pending():
                changes = f"{before} change{'s are' if before > 1 else ' is'} uploaded to the service first"
                log.info("the machine shuts down; %s", changes)
                nursery.start_soon(notification_bus.show, "Shutting down", f"{changes}.")
                with trio.move_on_after(LIMIT_SECONDS):
                    await self._upload()
                if left := self._pending():
                    log.info("%d pending changes are kept on this machine until the next start", left)
            if held is not None:
                held.close()


async def _ask(bus: DBusConnection) -> None:
    values = ("shutdown", "cmsfs", "Changes are being uploaded", "delay")
    await bus.send(new_method_call(LOGIN, "Inhibit", "ssss", values))


def _lock(told: Message) -> FileDescriptor | None:
    answered = told.header.message_type is MessageType.method_return
    return told.body[0] if answered and told.body and isinstance(told.body[0], FileDescriptor) else None
