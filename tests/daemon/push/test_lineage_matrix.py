"""Every way in which a file changes or goes elsewhere, by every way in which it is held open here, by what
the program does next: each byte that was acknowledged is somewhere, and each byte read is the handle's."""

import pytest

from cmsfs import config
from tests.support import lineages
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import share
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    # Nothing is sent before the table says so; every upload that is held up has a worker.
    return config.Settings(settle_seconds=3600, network_seconds=5, upload_workers=16)


# One of each sort in every run.
USUAL = {"longer", "move", "trash", "rights"}
ELSEWHERE = [
    pytest.param(one, marks=[] if one in USUAL else pytest.mark.long) for one in lineages.REMOTE_CHANGES
]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
async def test_no_byte_is_lost_and_none_is_anothers(
    drive: Drive, other: Remote, ben: Remote, user: int, network: Network, elsewhere: str
) -> None:
    table = lineages.Table(drive, other, network, elsewhere)
    if elsewhere == "rights":

        async def shared(folder: str) -> str:
            return await share(ben, "folder", folder, "editor", user)

        await table.make(ben, shared)
    else:
        await table.make(other)
    await table.hold()
    await table.change()
    await table.use_all()
    await table.sync_both()
    await table.check()
