"""A program's close and fsync have a large file hashed while it settles."""

import hashlib
import os

import pytest
import trio
import trio.testing

from cmsfs.journal import early_hashes
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from tests.vfs.conftest import Drive

DATA = b"0123456789" * 10_000


@pytest.mark.parametrize("call", ["fsync", "close"])
async def test_file_is_hashed_once_it_rests(
    drive: Drive, nursery: trio.Nursery, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_hashes, "LARGE", len(DATA))
    nursery.start_soon(drive.drafts.hashes.run)
    opened, made = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, DATA)
    node = tree.find(drive.db, made.ino)
    assert node is not None
    assert node.draft is not None
    draft = drive.drafts.find(node.draft)
    assert draft is not None
    await trio.testing.wait_all_tasks_blocked()
    assert await drive.drafts.hashes.of(draft, draft.generation) is None
    if call == "fsync":
        await drive.fs.fsync(opened.fh)
    else:
        await drive.fs.flush(opened.fh)
        await drive.fs.release(opened.fh)
    await trio.testing.wait_all_tasks_blocked()
    assert await drive.drafts.hashes.of(draft, draft.generation) == hashlib.sha1(DATA).hexdigest()
