"""Programs that keep files open for a long time, whatever happens to the files meanwhile."""

import os

from tests.simulation.commands import Commands
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import sha1
from tests.simulation.promises import HeldFile

# How many files stay open at a time.
MAX_HELD = 4


class Holding(Commands):
    """The long-lived file handles of one machine's programs."""

    async def do_hold(self, kernel: Kernel, where: int) -> None:
        await self._hold(kernel, where, is_read_only=False)

    async def do_look(self, kernel: Kernel, where: int) -> None:
        """Open for reading only, as a document viewer or a running executable does."""
        await self._hold(kernel, where, is_read_only=True)

    async def _hold(self, kernel: Kernel, where: int, *, is_read_only: bool) -> None:
        path = self.path(where)
        file = await kernel.open(path, os.O_RDONLY if is_read_only else os.O_RDWR)
        data = await self._read_opened(kernel, file, path)
        self._check_alive()
        self.held.append(HeldFile(file, path, data, data, is_read_only))
        if len(self.held) > MAX_HELD:
            await self._close(kernel, 0)

    async def do_held(self, kernel: Kernel, which: int, at: int, size: int) -> None:
        """Write through an old handle, whatever the file is by now."""
        if not self.held:
            return
        held = self.held[which % len(self.held)]
        await self._check(kernel, held)
        if held.is_read_only or held.is_shared:
            return
        data = self._new_text(size % 9)
        place = at % (len(held.model) + 20)
        after = held.model[:place].ljust(place, b"\0") + data + held.model[place + len(data) :]
        self.ledger.record_derived(after, held.model)
        self._mark_at_risk(held.model)
        await kernel.write(held.file, place, data)
        self._check_alive()
        if not held.wrote:
            held.base, held.wrote = held.model, True
        self._record_replaced(held.path, held.model)
        self._update_models(held.file, held.model, after)
        if size % 3 == 0:
            await kernel.fsync(held.file)
            self._acknowledge(held, durable=True)

    async def do_orphan(self, kernel: Kernel, where: int, size: int) -> None:
        """Open a file, write to it and remove it: the handle goes on."""
        await self._hold(kernel, where, is_read_only=False)
        await self.do_held(kernel, len(self.held) - 1, 0, size)
        await self._remove_file(kernel, self.path(where))

    def _acknowledge(self, held: HeldFile, *, durable: bool = False) -> None:
        self._check_alive()
        if held.wrote and not held.given_up:
            self._record_write(held.path, held.model, sha1(held.base), durable=durable)
            held.base, held.wrote = held.model, False

    async def _check(self, kernel: Kernel, held: HeldFile) -> None:
        found = await kernel.read(held.file)
        may_be_damaged = len(found) == len(held.model) and self._may_be_unverified(len(found))
        if found != held.model and not (held.is_shared or may_be_damaged):
            self._check_alive()
            self.wrong.append(
                f"{self.machine.name}: a handle on {held.path} shows {self.ledger.label(found)} and not"
                f" {self.ledger.label(held.model)}"
            )
            held.model = found

    async def do_held_read(self, kernel: Kernel, which: int) -> None:
        if self.held:
            await self._check(kernel, self.held[which % len(self.held)])

    async def do_held_close(self, kernel: Kernel, which: int) -> None:
        if self.held:
            await self._close(kernel, which % len(self.held))

    async def _close(self, kernel: Kernel, place: int) -> None:
        held = self.held.pop(place)
        await kernel.close(held.file)
        self._acknowledge(held)

    async def close_all(self) -> None:
        """Close all handles: all programs end."""
        while self.held or self.cwd is not None:
            if not self.machine.is_alive or self.machine.is_dying:
                self.drop_handles()
                return
            await (self.act("held_close", (0,)) if self.held else self.act("leave", ()))
