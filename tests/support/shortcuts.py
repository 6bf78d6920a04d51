"""Helpers for tests of web links: texts of shortcuts, and short calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from cmsfs.models.content import items
from tests.support.daemon_drive import Remote
from tests.support.network import Network

URL = "https://example.com/a?b=c#d"
TEXT = b"[InternetShortcut]\nURL=https://example.com/a?b=c#d\n"
WINDOWS = b"[InternetShortcut]\r\nURL=https://example.com/\r\n"
RICH = WINDOWS + b"IconFile=https://example.com/favicon.ico\r\nIconIndex=1\r\n"


async def link(other: Remote, name: str) -> items.WebLink:
    found = await other.find(name)
    assert isinstance(found, items.WebLink)
    return found


@asynccontextmanager
async def meanwhile(network: Network, method: str, *, before: bool = True) -> AsyncIterator[None]:
    """Hold the next request until the end of the block; after the service handled it, or before."""
    arrived, go = network.gate(method, "/web_links", before=before)
    with trio.fail_after(5):
        await arrived.wait()
    yield
    go.set()
