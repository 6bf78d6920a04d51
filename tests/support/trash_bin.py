"""The folder of deleted items on a drive without a kernel, as programs use it."""

from cmsfs.replica.nodes import ROOT
from tests.support.daemon_drive import Drive


class Bin:
    """`.trash` on this drive."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.shown = drive.agents.shown

    async def ino(self) -> int:
        return (await self.shown.lookup(ROOT, ".trash")).ino

    async def names(self) -> list[str]:
        fh = await self.shown.opendir(await self.ino())
        found: list[str] = []
        while lines := await self.shown.readdir(fh, len(found)):
            found += [line.name for line in lines]
        self.shown.releasedir(fh)
        return found

    async def xattrs(self, name: str) -> dict[str, str]:
        ino = (await self.shown.lookup(await self.ino(), name)).ino
        return {
            key: (await self.shown.getxattr(ino, key)).decode() for key in await self.shown.listxattr(ino)
        }

    async def out(self, name: str, path: str, flags: int = 0) -> None:
        parent, new_name = await self.drive.place(path)
        await self.shown.rename(await self.ino(), name, parent, new_name, flags)

    async def take(self, path: str, name: str) -> None:
        parent, old_name = await self.drive.place(path)
        await self.shown.rename(parent, old_name, await self.ino(), name, 0)

    async def purge(self, name: str, *, folder: bool = False) -> None:
        await (self.shown.rmdir if folder else self.shown.unlink)(await self.ino(), name)
