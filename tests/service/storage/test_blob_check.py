"""`cmsfs service check`: rows and contents are compared, and what is safe is repaired."""

import hashlib
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
from click.testing import CliRunner

from cmsfs.cli.main import cli
from cmsfs.runtime import threads
from cmsfs.service.server import sweeper
from cmsfs.service.storage import blob_check, store


async def _check(service, *, read_all=True, repair=False):
    return await blob_check.BlobCheck(service, read_all=read_all, repair=repair).run(lambda _: None)


def _age(path):
    old = time.time() - 2 * 3600
    os.utime(path, (old, old))


async def test_it_tells_missing_damaged_and_unnamed_contents(api, service):
    kept, lost, short, wrong = [await api.upload(name, name.encode()) for name in ("a", "b", "c", "d")]
    again = await api.upload("again", b"b")
    alone = await threads.run_sync(service.blobs.keep_bytes, b"nobody names this")
    coming = await threads.run_sync(service.blobs.keep_bytes, b"somebody is about to name this")
    _age(service.blobs.path(alone))
    service.blobs.path(lost["sha1"]).unlink()
    service.blobs.path(short["sha1"]).write_bytes(b"")
    service.blobs.path(wrong["sha1"]).write_bytes(b"x")
    report = await _check(service, read_all=False)
    assert [one.sha1 for one in report.damaged] == [short["sha1"]]
    report = await _check(service)
    assert (report.contents, report.size, report.orphans) == (4, 4, [alone])
    assert {one.sha1 for one in report.damaged} == {short["sha1"], wrong["sha1"]}
    (missing,) = report.missing
    assert [(str(one["file"]), one["name"], one["login"]) for one in missing.files] == [
        (lost["id"], "b", "ann@example.com"),
        (again["id"], "again", "ann@example.com"),
    ]
    assert service.blobs.path(alone).exists()
    report = await _check(service, repair=True)
    assert (report.set_aside, report.brought_back) == (1, 0)
    assert not service.blobs.path(alone).exists()
    assert service.blobs.path(coming).exists()
    assert service.blobs.path(kept["sha1"]).read_bytes() == b"a"
    assert (await _check(service)).orphans == []


async def test_what_was_set_aside_and_has_a_row_comes_back(api, service):
    file = await api.upload("a", b"a heron")
    place = service.blobs.path(file["sha1"])
    place.rename(service.blobs.aside / file["sha1"])
    assert [one.sha1 for one in (await _check(service)).missing] == [file["sha1"]]
    report = await _check(service, repair=True)
    assert (report.missing, report.brought_back) == ([], 1)
    assert place.read_bytes() == b"a heron"


@pytest.mark.embedded  # a server's database has a backup of its own
async def test_a_backup_of_the_database_and_then_of_the_rest_is_whole(api, service, root, tmp_path):
    """While the service runs, and although contents go between the two."""
    kept, purged = [await api.upload(name, name.encode()) for name in ("a", "b")]
    copy = tmp_path / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(root / "service.db")) as one,
        closing(sqlite3.connect(copy / "service.db")) as other,
    ):
        one.backup(other)
    await api.ask("DELETE", f"/files/{purged['id']}", expect=204)
    await api.ask("DELETE", f"/files/{purged['id']}/trash", expect=204)
    await sweeper.sweep(service, service.now())
    assert not service.blobs.path(purged["sha1"]).exists()
    await api.upload("c", b"later")
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("service.db*", "*lock"), dirs_exist_ok=True)
    async with store.open_store(copy) as restored:
        report = await _check(restored)
        assert (report.contents, report.missing, report.damaged, report.orphans) == (2, [], [], [])
        with closing(restored.blobs.open(purged["sha1"])) as reader:
            assert reader.read(10) == b"b"
        assert await restored.blobs.read_head(kept["sha1"], 1) == b"a"


@pytest.fixture
def command(root, on_postgres):
    def run(*options):
        options += tuple(part for url in on_postgres.values() for part in ("--database", url))
        return CliRunner().invoke(cli, ["service", "check", "--data", str(root), *options])

    return run


async def test_the_command_tells_and_exits_with_1(api, service, command, root):
    """Beside the service that has the store open."""
    file = await api.upload("Plan.md", b"a heron")
    alone = await threads.run_sync(service.blobs.keep_bytes, b"nobody names this")
    _age(service.blobs.path(alone))
    done = await threads.run_sync(command)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        0,
        "1 contents, 7 B: 0 missing, 0 damaged; 1 orphaned.",
    )
    service.blobs.path(file["sha1"]).unlink()
    done = await threads.run_sync(command)
    assert done.exit_code == 1
    assert f"missing: {file['sha1']}, version" in done.stdout
    assert f"of Plan.md (file {file['id']}, ann@example.com)" in done.stdout
    done = await threads.run_sync(command, "--json", "--repair")
    assert json.loads(done.stdout)["set_aside"] == 1


async def test_a_look_at_a_store_that_nobody_serves_removes_nothing(root):
    """As a start would, of what a crash left."""
    for sweep, left in ((True, True), (False, True), (True, False)):
        async with store.open_store(root, sweep=sweep) as opened:
            sha1 = hashlib.sha1(b"a heron").hexdigest()
            place = root / "blobs" / sha1[:2] / sha1
            if not place.parent.exists():
                await threads.run_sync(opened.blobs.keep_bytes, b"a heron")
            assert place.exists() is left


def test_it_makes_and_upgrades_no_data(root, command):
    assert "has no service's data" in str(command().exception)
    assert not root.exists()
