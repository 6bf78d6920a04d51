"""A restored backup: no number is given again, and what clients remember of the undone time is refused."""

import shutil

import pytest
from click.testing import CliRunner

from cmsfs import errors
from cmsfs.cli.main import cli
from cmsfs.runtime import threads
from cmsfs.service.storage import renumber, store


async def stream(api, position, *, expect=200):
    return await api.ask("GET", "/events", params={"stream_position": position}, expect=expect)


async def end(api):
    """The position that the stream has reached."""
    return (await stream(api, "now"))["next_stream_position"]


@pytest.fixture
async def backup(root, fill, as_user, tmp_path):
    """The data folder as it was before the second file was written, and the files' state then."""
    async with store.open_store(root) as opened:
        await fill(opened)
        await (await as_user(opened, "ann@example.com")).upload("Plan.md", b"a heron")
    return shutil.copytree(root, tmp_path / "backup")


@pytest.mark.embedded  # copies its database's file
async def test_nothing_that_was_undone_is_mistaken_for_what_is_written_afterwards(root, backup, as_user):
    async with store.open_store(root) as opened:
        api = await as_user(opened, "ann@example.com")
        [plan] = (await api.ask("GET", "/folders/0/items", params={"fields": "etag"}))["entries"]
        known = await end(api)
        changed = await api.version(plan["id"], b"an egret")
        lost = await api.upload("Lost.md", b"a bittern")
        undone = await end(api)
    await renumber.renumber(backup, database_url=None)
    async with store.open_store(backup) as opened:
        api = await as_user(opened, "ann@example.com")
        again = await api.ask("GET", f"/files/{plan['id']}")
        assert again["sha1"] != changed["sha1"]
        assert int(again["sequence_id"]) > int(changed["sequence_id"])
        for etag in (changed["etag"], plan["etag"]):
            await api.ask("DELETE", f"/files/{plan['id']}", headers={"if-match": etag}, expect=412)
        new = await api.upload("New.md", b"a stork")
        assert int(new["id"]) > int(lost["id"])
        assert int(new["file_version"]["id"]) > int(lost["file_version"]["id"])
        for position in (known, undone):
            refused = await stream(api, position, expect=400)
            assert "begin with 'now'" in str(refused)
        # Of the events from before, the newest one is where the stream continues.
        told = [one["source"]["id"] for one in (await stream(api, 0))["entries"]]
        assert told[-1] == new["id"]
        position = await end(api)
        assert position > undone
        await api.upload("Next.md", b"a crane")
        assert len((await stream(api, position))["entries"]) == 1


@pytest.mark.embedded  # copies its database's file
async def test_restoring_the_same_backup_again_gives_other_numbers(backup, as_user, tmp_path):
    await renumber.renumber(backup, database_url=None)  # it was taken after an earlier restore
    given, etags = [], []
    for number in (1, 2):
        copy = shutil.copytree(backup, tmp_path / f"copy {number}")
        await renumber.renumber(copy, database_url=None)
        async with store.open_store(copy) as opened:
            api = await as_user(opened, "ann@example.com")
            new = await api.upload("New.md", b"a stork")
            given.append((new["id"], new["file_version"]["id"], await end(api)))
            page = await api.ask("GET", "/folders/0/items", params={"fields": "name,etag"})
            etags.append([one["etag"] for one in page["entries"] if one["name"] == "Plan.md"])
    assert all(one != other for one, other in zip(*given, strict=True))
    assert etags[0] != etags[1]


async def test_clients_continue_after_it_whichever_engine_has_the_rows(root, fill, as_user, on_postgres):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        old = await api.upload("Plan.md", b"a heron")
        before, newest, etag = await end(api), int(old["id"]), int(old["etag"])
        with pytest.raises(errors.UserError, match="stop it first"):
            await renumber.renumber(root, database_url=on_postgres.get(root))
    for number in (1, 2):  # it may be run again
        await renumber.renumber(root, database_url=on_postgres.get(root))
        async with store.open_store(root) as opened:
            api = await as_user(opened, "ann@example.com")
            position = await end(api)
            assert (await stream(api, position))["next_stream_position"] == position > before
            await stream(api, before, expect=400)
            new = await api.upload(f"New {number}.md", b"a stork")
            assert int(new["id"]) > newest + 1
            newest = int(new["id"])
            state = await api.ask("GET", f"/files/{old['id']}")
            assert int(state["etag"]) > etag
            etag = int(state["etag"])
            [event] = (await stream(api, position))["entries"]
            assert event["source"]["id"] == new["id"]
            before = position


async def test_a_long_poll_from_before_it_ends_at_once(root, fill, as_user, on_postgres):
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        await api.upload("Plan.md", b"a heron")
        before = await end(api)
    await renumber.renumber(root, database_url=on_postgres.get(root))
    async with store.open_store(root) as opened:
        api = await as_user(opened, "ann@example.com")
        told = await api.ask("GET", "/events/wait", params={"stream_position": before})
        assert told == {"message": "new_change"}


async def test_a_service_without_events_refuses_nothing(root, fill, as_user, on_postgres):
    async with store.open_store(root) as opened:
        await fill(opened)
        before = await end(await as_user(opened, "ann@example.com"))
    await renumber.renumber(root, database_url=on_postgres.get(root))
    async with store.open_store(root) as opened:
        api = await as_user(opened, "ann@example.com")
        assert await end(api) == before
        assert (await stream(api, before))["entries"] == []


@pytest.mark.embedded  # its folder is the whole service
async def test_the_command_says_what_follows(root, backup):
    done = await threads.run_sync(CliRunner().invoke, cli, ["service", "renumber", "--data", str(backup)])
    assert done.exit_code == 0, done.output
    assert "compare all" in done.output
