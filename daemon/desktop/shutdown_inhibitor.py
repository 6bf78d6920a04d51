"""Delays a shutdown of the machine until what was saved is at the service, as long as logind allows.

A delay lock is taken at the start and held; logind tells that the machine is about to shut down, and goes on
when the lock is released or `InhibitDelayMaxSec` is over (5 seconds unless logind.conf says otherwise).  The
unit's own stop then still waits for `drain_seconds`.

Rule: nothing depends on it.  What is not uploaded is in the journal, and is uploaded after the next start.
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

# Longer than any sensible limit of logind's, which ends the waiting there.
LIMIT_SECONDS = 60.0

_TOLD = MatchRule(type="signal", interface=LOGIN.interface, member="PrepareForShutdown")


class ShutdownInhibitor:
    """Has a shutdown wait for `upload`, where `pending` says that something is not uploaded."""

    def __init__(self, pending: Callable[[], int], upload: Callable[[], Awaitable[None]]) -> None:
        self._pending = pending
        self._upload = upload

    async def run(self) -> None:
        """Hold the lock until cancelled; a system without logind does without."""
        while True:
            try:
                await self._follow()
            # Whatever a bus, or what claims to be one, may do: the library has no root of its exceptions.
            except Exception as error:
                log.debug("shutdowns of the machine cannot be delayed: %r", error)
            await trio.sleep(BUS_AGAIN_SECONDS)

    async def _follow(self) -> None:
        """Until the bus is gone."""
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
                        await _ask(bus)  # called off
            finally:
                if held is not None:
                    held.close()

    async def _finish(self, held: FileDescriptor | None) -> None:
        """Upload what there is, and let go."""
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
