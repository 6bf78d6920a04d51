"""`retry`: the user wants what failed to be done now."""

import pytest
import trio

from cmsfs.runtime import chance
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_a_retry_while_offline_looks_for_the_service_at_once(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chance, "uniform", lambda _least, most: 1000 * most)  # no probe comes by itself
    health = drive.agents.health
    await drive.write("a.txt", b"ours")
    network.is_down = True
    health.suspect()
    with trio.fail_after(20):
        while health.can_ask:
            await health.changed()
    network.is_down = False
    await drive.agents.retry(None)
    with trio.fail_after(20):
        while not health.can_ask:
            await health.changed()
    await drive.sync()
    assert await other.read("a.txt") == b"ours"
