"""When a close records the upload anew, and when it finds it recorded."""

import os
from collections.abc import Mapping

import pytest

from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.vfs.tree import writes
from tests.vfs.conftest import Drive


async def closed(drive: Drive, changes: Mapping[str, object]) -> tuple[int, int]:
    """A file is made, its operation is changed, and it is closed; revision and time of the operation."""
    opened, made = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"bytes")
    settings = ", ".join(f"{column} = ?" for column in changes)
    if changes:
        await drive.db.write(
            lambda conn: conn.execute(
                f"UPDATE op SET {settings} WHERE ino = ?", (*changes.values(), made.ino)
            )
        )
    await drive.fs.flush(opened.fh)
    row = drive.db.row("SELECT revision, not_before FROM op WHERE ino = ?", made.ino)
    assert row is not None
    return row["revision"], row["not_before"]


async def test_upload_of_new_file_is_recorded_once(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "MOMENT_NS", 3600 * 10**9)
    revision, _ = await closed(drive, {})
    assert revision == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "running"},
        {"state": "held", "error": "no room"},
        {"attempts": 1},
        {"not_before": 0},
        {"not_before": 2**62},
    ],
    ids=lambda changes: next(iter(changes)) if changes != {"not_before": 0} else "long due",
)
async def test_upload_is_recorded_anew(drive: Drive, changes: Mapping[str, object]) -> None:
    at = clock.time_ns()
    revision, due = await closed(drive, {"not_before": at, **changes})
    assert revision == 1
    assert at <= due < 2**62
