"""A folder that another user shares with the drive's account, and helpers for tests in it."""

from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import share
from tests.support.network import Network

SHELF = "Shared with me"
TEAM = f"{SHELF}/Team"


class Team:
    """Ben's folder `Team` with `plan`, `notes` and `Sub/deep` in it, and our collaboration on it."""

    def __init__(self, ben: Remote, user: int) -> None:
        self.ben = ben
        self.user = user
        self.collaboration = ""

    async def make(self) -> "Team":
        self.folder = await self.ben.folder("Team")
        self.plan = await self.ben.file("plan", b"Ben's plan", self.folder)
        await self.ben.file("notes", b"Ben's notes", self.folder)
        self.sub = await self.ben.folder("Sub", self.folder)
        self.deep = await self.ben.file("deep", b"Ben's deep", self.sub)
        await self.grant()
        return self

    async def grant(self, role: str = "editor") -> None:
        self.collaboration = await share(self.ben, "folder", self.folder, role, self.user)

    async def revoke(self) -> None:
        await self.ben.client.collaborations.delete(self.collaboration)


async def listed(drive: Drive) -> None:
    for path in (SHELF, TEAM, f"{TEAM}/Sub"):
        await drive.names(path)


async def revoke_while_offline(drive: Drive, team: Team, network: Network) -> None:
    """Change a file and create another one and a folder offline; the access ends before they are sent."""
    network.is_down = True
    await drive.write(f"{TEAM}/plan", b"my plan")
    await drive.write(f"{TEAM}/new", b"mine alone")
    await drive.mkdir(f"{TEAM}/made")
    await drive.write(f"{TEAM}/made/in it", b"mine, too")
    await team.revoke()
    network.is_down = False
    await drive.poll()
    await drive.sync()


def held(drive: Drive) -> list[str]:
    assert all(state == "held" for _, state, _ in drive.ops())
    return sorted({path for _, _, path in drive.ops()})
