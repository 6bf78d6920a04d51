"""Thumbnails made of folders that are opened one after the other."""

import io
from pathlib import Path
from typing import Any

import pytest
import trio
from PIL import Image

from cmsfs.service.renditions import indexing
from cmsfs.service.storage.store import Store
from daemon.desktop import thumbnails
from tests.support.daemon_drive import Drive


def _photo(colour: str) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (400, 300), colour).save(made, "JPEG")
    return made.getvalue()


async def test_a_folder_opened_while_the_worker_ends(
    drive: Drive,
    service: Store,
    other: Any,
    tmp_path: Path,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thumbnails, "WAIT_SECONDS", 30)  # the second is opened when the first is done
    nursery.start_soon(indexing.run, service)
    for folder in ("one", "two"):
        item = await other.folder(folder)
        await other.file("photo.jpg", _photo("red" if folder == "one" else "navy"), item)
    await drive.poll()
    agents, cache, mountpoint = drive.agents, tmp_path / "thumbnails", Path("/drive")
    maker = thumbnails.Thumbnails(drive.db, agents.client, agents.health, mountpoint, cache)
    opened = {name: await drive.ino(name) for name in await drive.names() if await drive.names(name)}
    nursery.start_soon(maker.run)
    with trio.fail_after(25):
        for ino in opened.values():
            await maker.opened(ino)  # the second while the worker of the first is being ended
    assert maker.made == 2
