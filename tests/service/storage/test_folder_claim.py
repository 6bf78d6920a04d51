"""Processes of one database have their contents in one folder, and no other database gets at them."""

import json
import shutil
import sys
from contextlib import closing

import pytest
import trio

from cmsfs import errors
from cmsfs.service.storage import folder_claim, store
from cmsfs.service.storage.shared import folder
from tests.support.server_process import ServerProcess
from tests.support.site import ENTERPRISE

# Each says itself which engine a store has.
pytestmark = pytest.mark.embedded

SECONDS = 60
ELSEWHERE = "in another data folder"
_FORGET = f"DELETE FROM shared_value WHERE name = '{folder_claim.RECORD}'"


@pytest.fixture
def url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
def other_url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
async def content(root, url, fill, as_user):
    """The only content of a database that had it in the folder `root`."""
    async with store.open_store(root, database_url=url) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        return _path(root, (await api.upload("Plan.md", b"a heron"))["sha1"])


@pytest.fixture
def before_ids(root, url, content):
    """A database and a folder that were served by a version without ids."""
    from cmsfs.service.storage.postgres import connection

    (root / folder_claim.RECORD).unlink()
    with closing(connection.connect(url)) as conn:
        conn.execute(_FORGET)


def _path(root, sha1):
    return root / "blobs" / sha1[:2] / sha1


async def _is_refused(place, url, match):
    with pytest.raises(errors.UserError, match=match) as refused:
        async with store.open_store(place, database_url=url):
            raise AssertionError
    return refused.value.message


async def test_a_second_folder_is_refused_and_the_first_is_named(root, url, content, tmp_path):
    async with store.open_store(root, database_url=url):
        said = await _is_refused(tmp_path / "other", url, ELSEWHERE)
    assert str(root) in said
    assert json.loads((root / folder_claim.RECORD).read_text())["id"] in said
    assert not (tmp_path / "other" / folder_claim.RECORD).exists()
    assert await _is_refused(tmp_path / "other", url, ELSEWHERE) == said.replace("\n", "")


async def test_the_same_folder_at_another_place_is_taken(root, url, content, tmp_path):
    elsewhere = tmp_path / "mounted elsewhere"
    elsewhere.symlink_to(root)
    async with (
        store.open_store(root, database_url=url),
        store.open_store(elsewhere, database_url=url),
    ):
        assert _path(elsewhere, content.name).read_bytes() == b"a heron"
    elsewhere.unlink()
    root.rename(elsewhere)
    async with store.open_store(elsewhere, database_url=url):
        pass


async def test_a_folder_with_contents_is_not_taken_by_another_database(
    root, url, content, other_url, tmp_path
):
    await _is_refused(root, other_url, "another service")
    async with store.open_store(tmp_path / "empty", database_url=other_url):
        pass
    await _is_refused(root, other_url, ELSEWHERE)
    # Nor is one that has no contents yet.
    for file in (root / "blobs").rglob("*"):
        if file.is_file():
            file.unlink()
    async with store.open_store(root, database_url=url):
        await _is_refused(root, other_url, ELSEWHERE)
    assert not content.exists()


async def test_a_new_database_takes_no_folder_of_another_that_is_empty(root, url, other_url):
    async with store.open_store(root, database_url=url):
        await _is_refused(root, other_url, "another service")


async def test_contents_outlive_that_the_database_is_forgotten(root, url, content, tmp_path):
    """An embedded database in their folder would remove all that it does not know."""
    await _is_refused(root, None, "give --database")
    assert not (root / "service.db").exists()
    async with store.open_store(tmp_path / "embedded") as opened:
        kept = _path(tmp_path / "embedded", opened.blobs.keep_bytes(b"embedded"))
    await _is_refused(tmp_path / "embedded", url, ELSEWHERE)
    assert content.read_bytes() == b"a heron"
    assert kept.exists()


async def test_contents_of_an_embedded_service_outlive_a_new_database(root, url, fill, as_user):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        kept = _path(root, (await api.upload("Plan.md", b"a heron"))["sha1"])
    await _is_refused(root, url, "another service")
    assert kept.exists()


async def test_a_folder_from_before_there_were_ids_is_taken(root, url, before_ids, tmp_path):
    await _is_refused(tmp_path / "other", url, "are not in")
    async with store.open_store(root, database_url=url):
        pass
    await _is_refused(tmp_path / "other", url, ELSEWHERE)


async def test_a_crash_at_any_point_is_made_good(root, url, tmp_path, monkeypatch):
    from cmsfs.service.storage.postgres import shared_database

    def dies(*_, **__):
        raise KeyboardInterrupt

    # Before the database gets the id, and then before the file says that it has.
    for place, name in ((shared_database.SharedDatabase, "add_value"), (folder, "write_file")):
        with monkeypatch.context() as crash:
            crash.setattr(place, name, dies)
            with pytest.raises(BaseException) as raised:
                async with store.open_store(root, database_url=url):
                    raise AssertionError
            assert raised.type is KeyboardInterrupt or raised.group_contains(KeyboardInterrupt)
        assert json.loads((root / folder_claim.RECORD).read_text())["claimed"] is False
    async with store.open_store(root, database_url=url):
        pass
    assert json.loads((root / folder_claim.RECORD).read_text())["claimed"] is True
    await _is_refused(tmp_path / "other", url, ELSEWHERE)


async def test_of_many_that_start_at_once_those_with_one_folder_win(url, tmp_path):
    won: list[int] = []
    lost: list[int] = []
    done = trio.Event()

    def count(where, number):
        where.append(number)
        if len(won) + len(lost) == 9:
            done.set()

    async def start(number):
        try:
            async with store.open_store(tmp_path / f"{number}", database_url=url):
                count(won, number)
                await done.wait()
        except errors.UserError as error:
            assert ELSEWHERE in error.message
            count(lost, number)

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for number in range(9):
                nursery.start_soon(start, number % 3)
    assert (len(set(won)), len(won)) == (1, 3)


async def test_a_restored_backup_is_served(root, url, content, postgres, tmp_path):
    """The database first and then the folder; also if the folder is another one afterwards."""
    name = url.partition("@/")[2].partition("?")[0]
    restored = postgres.create("restored", template=name)
    shutil.copytree(root, tmp_path / "copy")
    async with store.open_store(tmp_path / "copy", database_url=restored):
        assert _path(tmp_path / "copy", content.name).read_bytes() == b"a heron"
    postgres.drop(restored)


async def test_a_backup_from_before_there_were_ids_goes_with_a_folder_that_has_one(
    root, url, before_ids, postgres
):
    name = url.partition("@/")[2].partition("?")[0]
    restored = postgres.create("older", template=name)
    async with store.open_store(root, database_url=url):
        pass
    async with store.open_store(root, database_url=restored):
        pass
    postgres.drop(restored)


async def test_a_lost_id_is_written_by_hand(root, url, content):
    (root / folder_claim.RECORD).unlink()
    said = await _is_refused(root, url, ELSEWHERE)
    number = said.partition("has the id ")[2].partition(")")[0]
    (root / folder_claim.RECORD).write_text(json.dumps({"id": number}))
    async with store.open_store(root, database_url=url):
        pass
    (root / folder_claim.RECORD).write_text("torn")
    await _is_refused(root, url, "cannot be read")


async def test_commands_say_so_in_one_line(root, url, content, tmp_path):
    async def run(*command):
        words = [sys.executable, "-m", "cmsfs", *map(str, command), "--database", url]
        done = await trio.run_process(words, capture_stdout=True, capture_stderr=True, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    other = ("--data", tmp_path / "other")
    for command in (
        ("serve", *other, "--port", "0"),
        ("service", "check", *other),
        ("service", "check", *other, "--repair"),
        ("service", "move", *other, "--to-data", tmp_path / "copy"),
    ):
        code, said, complaint = await run(*command)
        assert (code, said, complaint.count("\n")) == (1, "", 1), complaint
        assert ELSEWHERE in complaint
    assert (await run("service", "check", "--data", root))[0] == 0


def test_two_processes_share_a_folder(postgres, tmp_path):
    url = postgres.empty()
    (tmp_path / "enterprise.toml").write_text(ENTERPRISE)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    options = ("--database", url, "--enterprise-file", tmp_path / "enterprise.toml")
    made = [ServerProcess(tmp_path / place, *options) for place in ("data", "link")]
    try:
        for server in made:
            server.start()
        # Without the file it is known already, and there are no credentials of a sample to name.
        again = ServerProcess(tmp_path / "data", "--database", url)
        made.append(again.start())
        assert again.ready_info.keys() == {"url"}
    finally:
        codes = [server.stop() for server in made]
    assert codes == [0, 0, 0]
