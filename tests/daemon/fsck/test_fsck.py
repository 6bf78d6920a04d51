"""fsck: every kind of damage is planted, found, repaired, and costs nothing that was only here."""

import contextlib
import hashlib
import sqlite3
from pathlib import Path

import pytest
import trio

from cmsfs import config, errors
from cmsfs.config import Settings
from daemon import instance_lock
from daemon.fsck import __main__ as fsck
from daemon.fsck.findings import Report
from tests.support.daemon_drive import Remote, Starting
from tests.support.log_watch import ExpectLog

SENT = b"the service has this" * 9000
LOCAL = b"nobody else has this" * 9000


@pytest.fixture
async def state(starting: Starting, settings: Settings, other: Remote) -> config.Paths:
    """A drive that was left with a file that is sent, one that is not, a draft's folder, and a cache."""
    folder = await other.folder("docs")
    await other.file("sent", SENT, folder)
    async with starting() as drive:
        await drive.names()
        await drive.names("docs")
        assert await drive.read("docs/sent") == SENT
    async with starting(agents=()) as drive:
        await drive.write("local", LOCAL)
        await drive.write("docs/second", b"second")
        await drive.agents.commit.commit()
    return settings.paths


def change(paths: config.Paths, sql: str, *values: object) -> None:
    with contextlib.closing(sqlite3.connect(paths.replica_db)) as conn, conn:
        conn.execute("PRAGMA foreign_keys=OFF")
        assert conn.execute(sql, values).rowcount > 0, sql


async def check(settings: Settings, *, repair: bool = False) -> Report:
    return await trio.to_thread.run_sync(lambda: fsck.run(settings, repair=repair))


async def told(settings: Settings) -> set[str]:
    return {one.area for one in (await check(settings)).findings}


async def repaired(settings: Settings, *areas: str) -> None:
    """What is found is in these areas; a repair leaves nothing; a look alone changes nothing."""
    assert await told(settings) == set(areas)
    assert await told(settings) == set(areas)
    await check(settings, repair=True)
    assert (await check(settings)).findings == []


async def whole(starting: Starting, other: Remote) -> None:
    """With the next start everything is there, here and at the service."""
    async with starting() as drive:
        await drive.sync()
        assert await drive.read("docs/sent") == SENT
        assert await drive.read("local") == LOCAL
        assert await drive.read("docs/second") == b"second"
    assert await other.read("local") == LOCAL
    assert await other.read("second") == b"second"


def _cached(paths: config.Paths) -> Path:
    return next(path for path in paths.blocks.glob("??/*") if path.stat().st_size == len(SENT))


async def test_a_sound_state_is_said_to_be_so(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings
) -> None:
    await repaired(settings)
    await whole(starting, other)


async def test_an_empty_file_that_was_sent_is_sound(
    starting: Starting, other: Remote, settings: Settings
) -> None:
    async with starting() as drive:
        await drive.write("empty", b"")
        await drive.sync()
    assert await other.read("empty") == b""
    assert (await check(settings)).findings == []


@pytest.mark.parametrize("how", ["missing", "short", "other bytes"])
async def test_a_damaged_cache(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings, how: str
) -> None:
    path = _cached(state)
    match how:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(SENT[:100])
        case "other bytes":
            path.write_bytes(bytes(len(SENT)))
    await repaired(settings, "cache")
    await whole(starting, other)


async def test_a_stray_cache_file_is_no_finding(
    state: config.Paths, starting: Starting, settings: Settings
) -> None:
    stray = state.blocks / "ab" / ("ab" * 20)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"x")
    assert (await check(settings)).findings == []
    async with starting():
        assert not stray.exists()


@pytest.mark.parametrize("parent", ["nowhere", "a file", "itself", "a ring"])
async def test_a_row_that_hangs_nowhere(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings, parent: str
) -> None:
    match parent:
        case "nowhere":
            change(state, "UPDATE node SET parent = 4711 WHERE name = 'docs'")
        case "a file":
            change(
                state, "UPDATE node SET parent = (SELECT ino FROM node WHERE name='local') WHERE name='docs'"
            )
        case "itself":
            change(state, "UPDATE node SET parent = ino WHERE name = 'docs'")
        case "a ring":
            insert = (
                "INSERT INTO node(parent, name, name_key, kind, mtime_ns, ctime_ns, mode, remote_id)"
                " SELECT ino, 'loop', 'loop', 'folder', 0, 0, 493, 'r' FROM node WHERE name = 'docs'"
            )
            change(state, insert)
            change(
                state, "UPDATE node SET parent = (SELECT ino FROM node WHERE name='loop') WHERE name='docs'"
            )
    await repaired(settings, "tree")
    await whole(starting, other)


async def test_a_change_that_nothing_sends(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings
) -> None:
    change(state, "DELETE FROM op WHERE kind = 'upload'")
    await repaired(settings, "journal")
    await whole(starting, other)


async def test_a_change_of_nothing(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings
) -> None:
    change(state, "INSERT INTO op(ino, kind, not_before) VALUES (4711, 'move', 0)")
    await repaired(settings, "journal")
    await whole(starting, other)


async def test_a_draft_without_its_row_is_set_aside(
    state: config.Paths, starting: Starting, settings: Settings
) -> None:
    draft = next(path for path in state.drafts.glob("*.draft") if path.stat().st_size == len(LOCAL))
    change(state, "DELETE FROM draft WHERE id = ?", int(draft.stem))
    report = await check(settings)
    assert [one.lost for one in report.findings if "lost their record" in one.text] == [True]
    await check(settings, repair=True)
    assert (state.recovered / draft.name).read_bytes() == LOCAL
    assert (await check(settings)).findings == []
    async with starting() as drive:
        await drive.sync()
        assert await drive.read("docs/second") == b"second"


async def test_a_draft_that_lost_bytes_keeps_the_rest(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings, expect_log: ExpectLog
) -> None:
    draft = next(path for path in state.drafts.glob("*.draft") if path.stat().st_size == len(LOCAL))
    draft.write_bytes(LOCAL[:1000])
    expect_log("bytes after the power failed")
    report = await check(settings)
    assert [one.lost for one in report.findings] == [True]
    await check(settings, repair=True)
    assert (await check(settings)).findings == []
    async with starting() as drive:
        await drive.sync()
    assert await other.read("local") == LOCAL[:1000]


@pytest.mark.parametrize("kind", ["index", "page", "header", "missing"])
async def test_a_damaged_database(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings, kind: str
) -> None:
    path = state.replica_db
    if kind == "index":
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            # An index whose rows are those of another order of things.
            conn.execute("PRAGMA writable_schema=ON")
            conn.execute(
                "UPDATE sqlite_master SET sql = 'CREATE INDEX node_children ON node(parent, name)'"
                " WHERE name = 'node_children'"
            )
        await check(settings, repair=True)
        await whole(starting, other)
    elif kind == "page":
        with contextlib.closing(sqlite3.connect(path)) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'content'").fetchone()
            (size,) = conn.execute("PRAGMA page_size").fetchone()
        data = bytearray(path.read_bytes())
        data[(page - 1) * size : page * size] = b"\xff" * size
        path.write_bytes(bytes(data))
        await repaired(settings, "database")
        assert list(state.recovered.glob("replica.db.damaged-*"))
        await whole(starting, other)
    else:
        if kind == "header":
            path.write_bytes(b"no database" * 1000)
        else:
            path.unlink()
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        await check(settings, repair=True)
        assert (await check(settings)).findings == []
        await whole(starting, other)


def seal(paths: config.Paths) -> Path:
    """What was written to `local` has become content that waits for its upload; its file."""
    draft = next(path for path in paths.drafts.glob("*.draft") if path.stat().st_size == len(LOCAL))
    sha1 = hashlib.sha1(LOCAL).hexdigest()
    content = (
        "INSERT INTO content(sha1, size, bitmap, verified, dirty, pinned, used_at)"
        " VALUES (?, ?, NULL, 1, 1, 0, 0)"
    )
    change(paths, content, sha1, len(LOCAL))
    change(paths, "UPDATE node SET draft = NULL, sha1 = ? WHERE draft = ?", sha1, int(draft.stem))
    change(paths, "DELETE FROM draft WHERE id = ?", int(draft.stem))
    return draft.rename(paths.drafts / sha1)


async def test_content_that_waits_for_its_upload_is_sound(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings
) -> None:
    seal(state)
    await repaired(settings)
    await whole(starting, other)


@pytest.mark.parametrize("how", ["missing", "other bytes"])
async def test_damaged_content_that_was_never_sent_is_held(
    state: config.Paths, starting: Starting, other: Remote, settings: Settings, how: str
) -> None:
    path = seal(state)
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(bytes(len(LOCAL)))
    report = await check(settings, repair=True)
    assert [one.lost for one in report.findings] == [True]
    if how == "other bytes":
        assert (state.recovered / f"{path.name}.damaged").read_bytes() == bytes(len(LOCAL))
    async with starting() as drive:
        assert [op for op in drive.ops() if op[1] == "held"] == [("upload", "held", "/local")]
    assert "local" not in {item.name for item in await other.everything()}


async def test_content_without_its_row_is_set_aside(state: config.Paths, settings: Settings) -> None:
    path = seal(state)
    change(state, "DELETE FROM content WHERE dirty = 1")
    change(state, "UPDATE node SET sha1 = NULL WHERE sha1 = ?", path.name)
    await repaired(settings, "drafts")
    assert (state.recovered / path.name).read_bytes() == LOCAL


async def test_a_mounted_drive_is_left_alone(state: config.Paths, settings: Settings) -> None:
    with (
        instance_lock.single_instance(settings.paths.lock, account="default"),
        pytest.raises(errors.UserError, match="already running"),
    ):
        await check(settings, repair=True)
