"""What comparing costs where each folder is a request, and requests are counted by the month."""

import time

import pytest

from cmsfs.replica import kv_store
from daemon.pull import reconciler
from tests.support.daemon_drive import Drive, Remote

DAY = 86_400


async def swept(drive: Drive, days: float) -> None:
    """Everything was compared so many days ago."""
    at = str(int(time.time() - days * DAY))
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.SWEPT_AT, at))


async def test_many_folders_are_compared_less_often(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        await other.folder(name)
    for path in ("", "a", "b", "c"):
        await drive.names(path)
    await swept(drive, 1.5)
    assert await drive.agents.reconciler.is_full_due()
    monkeypatch.setattr(reconciler, "FOLDERS_A_DAY", 2)
    assert not await drive.agents.reconciler.is_full_due()
    await swept(drive, 2.5)
    assert await drive.agents.reconciler.is_full_due()


async def test_what_was_missed_is_compared_at_once(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "FOLDERS_A_DAY", 0.001)
    await drive.names()
    await swept(drive, 1.5)
    await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
    assert await drive.agents.reconciler.is_full_due()
