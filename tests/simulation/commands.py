"""Actions that a user takes with commands of the drive: sync, pin, free, pause, ..."""

import trio

from cmsfs import errors
from tests.simulation.kernel import Kernel
from tests.simulation.promises import Promises


class Commands(Promises):
    """The commands of one machine."""

    async def do_shrink(self, kernel: Kernel) -> None:
        kernel.shrink()

    async def do_sync(self, kernel: Kernel) -> None:
        with trio.move_on_after(30):
            await self.machine.agents.sync()

    async def do_poll(self, kernel: Kernel, full: int) -> None:
        try:
            with trio.move_on_after(30):
                await self.machine.agents.poll(full=full % 4 == 0)
        except errors.RemoteError:
            pass

    async def do_pin(self, kernel: Kernel, where: int) -> None:
        await self.machine.agents.pin(f"/{self.path(where)}")

    async def do_unpin(self, kernel: Kernel, where: int) -> None:
        await self.machine.agents.unpin(f"/{self.path(where)}")

    async def do_free(self, kernel: Kernel, where: int) -> None:
        with trio.move_on_after(30):
            await self.machine.agents.free(f"/{self.path(where)}", unpin=False)

    async def do_pause(self, kernel: Kernel, seconds: int) -> None:
        await self.machine.agents.pause(float(1 + seconds % 200))

    async def do_resume(self, kernel: Kernel) -> None:
        await self.machine.agents.resume()

    async def do_accept(self, kernel: Kernel, which: int, is_wanted: int) -> None:
        """Accept or decline one of the offered shares."""
        if offered := self.machine.agents.offers.undecided():
            chosen = offered[which % len(offered)]
            await self.machine.agents.offers.decide([chosen.id], accept=bool(is_wanted % 4))

    async def do_retry(self, kernel: Kernel) -> None:
        await self.machine.agents.retry(None)
