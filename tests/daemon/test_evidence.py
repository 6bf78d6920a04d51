"""What goes away here: only what the service itself says is gone."""

import errno
from typing import Any

import httpx
import pytest
import trio

PAGE = b"<html><h1>404 Not Found</h1><hr>gateway</html>"


def gateway(request: httpx.Request) -> httpx.Response:
    """What a gateway says of everything while it does not find the service."""
    return httpx.Response(404, content=PAGE, headers={"content-type": "text/html"})


async def tried(drive: Any) -> None:
    """Until a change has been sent, and failed."""
    with trio.fail_after(20):
        while drive.db.row("SELECT 1 FROM op WHERE attempts > 0") is None:
            await drive.agents.push._moved.wait()


async def test_a_gateways_404_makes_nothing_gone(drive: Any, other: Any, network: Any) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"theirs", parent=docs)
    assert await drive.names("docs") == ["f"]
    network.instead = gateway
    await drive.write("docs/ours", b"ours")
    with pytest.raises(OSError) as caught:
        await drive.read("docs/f")
    assert caught.value.errno == errno.EIO
    await tried(drive)
    assert await drive.names() == ["docs"]
    assert await drive.names("docs") == ["f", "ours"]
    network.instead = None
    await drive.agents.push.retry_all()
    await drive.sync()
    assert await other.paths() == ["docs/", "docs/f", "docs/ours"]


async def test_a_gateways_404_to_a_deletion_is_no_deletion(drive: Any, other: Any, network: Any) -> None:
    await other.file("f", b"x")
    assert await drive.names() == ["f"]
    network.instead = gateway
    await drive.unlink("f")
    await tried(drive)
    network.instead = None
    await drive.agents.push.retry_all()
    await drive.sync()
    assert await other.paths() == []
