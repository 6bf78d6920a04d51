"""Events, and waiting for them."""

import sys
from functools import partial

import pytest
import trio
from box_sdk_gen import CreateFolderParent, GetEventStreamQueryParams

from cmsfs.service.events import event_watch, events

DAY = 86_400 * 1_000_000


async def stream(api, position=0, **params):
    return await api.ask("GET", "/events", params={"stream_position": position} | params)


async def now(api):
    return (await stream(api, "now"))["next_stream_position"]


async def told(api, since):
    """What was told since a position: the words and the sources."""
    page = await stream(api, since)
    return [(one["event_type"], one["source"]) for one in page["entries"]]


async def test_the_envelope(api):
    page = await stream(api, "now")
    assert (page["chunk_size"], page["entries"]) == (0, [])
    start = page["next_stream_position"]
    assert type(start) is int  # as a number: some clients read nothing else
    file = await api.upload("a.txt", b"x")
    page = await stream(api, start)
    assert page["chunk_size"] == len(page["entries"]) == 1
    assert type(page["next_stream_position"]) is int
    [event] = page["entries"]
    assert event["type"] == "event"
    assert event["event_type"] == "ITEM_UPLOAD"
    assert event["created_by"]["login"] == "ann@example.com"
    assert event["created_at"] == event["recorded_at"]
    source = event["source"]
    assert source == told_of(file, source)
    assert (source["type"], source["item_status"], source["parent"]["id"]) == ("file", "active", "0")
    assert source["sequence_id"].isdigit()
    again = await stream(api, page["next_stream_position"])
    assert again["entries"] == []
    assert again["next_stream_position"] == page["next_stream_position"]


async def each_change(api):
    """Changes one after another, each with the word that it should be told with."""
    folder = await api.folder("f")
    yield "ITEM_CREATE", folder
    yield "ITEM_CREATE", await api.link("l")
    file = await api.upload("a.txt", b"x")
    yield "ITEM_UPLOAD", file
    yield "ITEM_UPLOAD", await api.version(file["id"], b"y", name="b.txt")
    url = f"/files/{file['id']}"
    yield "ITEM_RENAME", await api.ask("PUT", url, json={"name": "c.txt"})
    both = {"name": "d.txt", "parent": {"id": folder["id"]}}
    yield "ITEM_MOVE", await api.ask("PUT", url, json=both)
    yield "ITEM_MODIFY", await api.ask("PUT", url, json={"description": "d"})
    yield "ITEM_MODIFY", await api.ask("PUT", url, json={"content_modified_at": "2020-01-01T00:00:00Z"})
    yield "ITEM_COPY", await api.ask("POST", f"{url}/copy", json={"parent": {"id": "0"}}, expect=201)
    await api.ask("DELETE", url, expect=204)
    yield "ITEM_TRASH", await api.ask("GET", f"{url}/trash")
    yield "ITEM_UNDELETE_VIA_TRASH", await api.ask("POST", url, json={}, expect=201)
    # A folder is one event, whatever is in it.
    yield "ITEM_RENAME", await api.ask("PUT", f"/folders/{folder['id']}", json={"name": "g"})
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    yield "ITEM_TRASH", await api.ask("GET", f"/folders/{folder['id']}/trash")


def told_of(item, source):
    """What an event says of an item: what every answer does, and no more."""
    return {name: item[name] for name in source}


async def test_one_event_for_each_change(api):
    position = await now(api)
    async for word, item in each_change(api):
        page = await stream(api, position)
        assert [one["event_type"] for one in page["entries"]] == [word]
        source = page["entries"][0]["source"]
        assert source == told_of(item, source), word
        position = page["next_stream_position"]
    # All of them again, in order, from any place, and no id twice.
    page = await stream(api, 0)
    assert len({one["event_id"] for one in page["entries"]}) == page["chunk_size"] == 13


async def test_what_changes_nothing_is_not_told(api):
    file = await api.upload("a", b"x")
    await api.upload("b", b"x")
    position = await now(api)
    await api.ask("PUT", f"/files/{file['id']}", json={"name": "a"})
    await api.ask("PUT", f"/files/{file['id']}", json={"name": "b"}, expect=409)
    await api.send("/files/content", {"name": "a", "parent": {"id": "0"}}, b"", expect=409)
    await api.ask("DELETE", f"/files/{file['id']}", headers={"if-match": "7"}, expect=412)
    assert await told(api, position) == []


async def test_a_large_file_is_told_once(api, small):
    position = await now(api)
    session = await api.begin()
    await api.commit(session, await api.put_all(session))
    assert [word for word, _ in await told(api, position)] == ["ITEM_UPLOAD"]


async def test_page_by_page(api):
    start = await now(api)
    for number in range(5):
        await api.folder(f"f{number}")
    seen, position = [], start
    while True:
        page = await stream(api, position, limit=2)
        if not page["entries"]:
            break
        seen += [one["source"]["name"] for one in page["entries"]]
        position = page["next_stream_position"]
    assert seen == [f"f{number}" for number in range(5)]
    assert position == await now(api)
    nothing = await stream(api, start, limit=0)
    assert (nothing["entries"], nothing["next_stream_position"]) == ([], start)


async def test_everybody_has_a_stream_of_their_own(api, uwe):
    mine, theirs = await now(api), await now(uwe)
    await uwe.folder("private")
    assert await told(api, mine) == []
    assert len(await told(uwe, theirs)) == 1
    # An empty page moves on all the same.
    assert (await stream(api, mine))["next_stream_position"] > mine


STREAMS = [("all", 1), ("changes", 1), ("sync", 0)]


@pytest.mark.parametrize(("name", "count"), STREAMS)
async def test_streams(api, name, count):
    position = await now(api)
    await api.folder("f")
    page = await stream(api, position, stream_type=name)
    assert page["chunk_size"] == count
    assert page["next_stream_position"] == await now(api)


async def test_changes_stream_has_tree_changes_only(api):
    file = await api.upload("a", b"x")
    position = await now(api)
    row = api.store.read("SELECT * FROM item WHERE id = ?", int(file["id"]))[0]
    await api.store.write(
        lambda conn: events.record(conn, row, "ITEM_PREVIEW", by=api.user, now=api.store.now())
    )
    page = await stream(api, position, stream_type="changes")
    assert page["entries"] == []
    assert page["next_stream_position"] > position
    assert (await stream(api, position))["chunk_size"] == 1


REFUSED = [
    {"stream_type": "everything"},
    {"stream_position": "yesterday"},
    {"stream_position": "-1"},
    {"stream_position": "9" * 30},
    {"limit": "many"},
    {"limit": "-1"},
]


@pytest.mark.parametrize("params", REFUSED, ids=str)
async def test_what_makes_no_sense(api, params):
    await api.ask("GET", "/events", params=params, expect=400)


async def test_foreign_stream_position_starts_now(api):
    await api.folder("f")
    page = await stream(api, 10**15)
    assert (page["entries"], page["next_stream_position"]) == ([], await now(api))


async def test_item_fields_do_not_apply_to_events(api):
    start = await now(api)
    file = await api.upload("a", b"x")
    page = await stream(api, start, fields="type,id,sequence_id", stream_type="changes", limit=500)
    assert page["entries"][0]["source"]["id"] == file["id"]
    assert page["chunk_size"] == 1


async def test_three_weeks_are_kept(api):
    for number in range(30):
        await api.folder(f"f{number}")
    position = await now(api)

    def age(conn):
        conn.execute("UPDATE event SET created_at = created_at - ? WHERE id < ?", (22 * DAY, position - 5))

    await api.store.write(age)
    for number in range(5):
        await api.folder(f"g{number}")
    kept = await stream(api, 0)
    assert kept["entries"][0]["source"]["name"] == "f24"
    assert kept["chunk_size"] == 11
    assert kept["next_stream_position"] == position + 5


async def test_where_to_wait(api):
    answer = await api.ask("OPTIONS", "/events")
    [server] = answer["entries"]
    assert answer["chunk_size"] == 1
    assert (server["type"], server["retry_timeout"]) == ("realtime_server", 610)
    assert server["url"] == "http://service.test/2.0/events/wait"
    assert server["max_retries"].isdigit()


async def waiting(api, **params):
    return (await api.ask("GET", "/events/wait", params=params))["message"]


async def test_waiting_ends_with_a_change(api, nursery, monkeypatch):
    position = await now(api)
    tell, answers = trio.open_memory_channel(2)

    async def wait():
        await tell.send(await waiting(api, stream_position=position))

    nursery.start_soon(wait)
    nursery.start_soon(wait)
    with trio.move_on_after(0.2) as early:
        await answers.receive()
    assert early.cancelled_caught
    # Looking every hour would not be soon enough for this.
    monkeypatch.setattr(event_watch, "POLL_SECONDS", 3600)
    await trio.sleep(0.5)
    await api.folder("f")
    with trio.fail_after(5):
        assert [await answers.receive(), await answers.receive()] == ["new_change"] * 2
    # Whoever is behind does not wait at all.
    assert await waiting(api, stream_position=position) == "new_change"


async def test_others_do_not_wake(api, uwe, monkeypatch):
    monkeypatch.setattr(events, "HOLD_SECONDS", 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(uwe.folder, "private")
        assert await waiting(api, stream_position="now") == "reconnect"


async def test_session_gets_no_events_of_its_own(api, nursery):
    start = await now(api)
    answers = {}

    async def wait(name, **headers):
        params = {"stream_position": start}
        told = await api.ask("GET", "/events/wait", params=params, headers=headers)
        answers[name] = told["message"]
        ended[name].set()

    ended = {name: trio.Event() for name in ("mine", "other", "none")}
    nursery.start_soon(partial(wait, "mine", **{"x-session-id": "a1"}))
    nursery.start_soon(partial(wait, "other", **{"x-session-id": "b2"}))
    nursery.start_soon(wait, "none")
    mine = {"headers": {"x-session-id": "a1"}, "expect": 201}
    for name in ("one", "two"):
        await api.ask("POST", "/folders", json={"name": name, "parent": {"id": "0"}}, **mine)
        with trio.fail_after(20):
            await ended["other"].wait()
            await ended["none"].wait()
        assert answers == {"other": "new_change", "none": "new_change"}
    await api.folder("by nobody in particular")
    with trio.fail_after(20):
        await ended["mine"].wait()
    page = await stream(api, start)
    assert [one["session_id"] for one in page["entries"]] == ["a1", "a1", None]
    assert [one["additional_details"] for one in page["entries"]] == [{}, {}, {}]


@pytest.mark.parametrize("name", ["", "x" * 65, "two words\x7f"])
async def test_what_is_no_name_of_a_session(api, name):
    start = await now(api)
    body = {"name": "f", "parent": {"id": "0"}}
    await api.ask("POST", "/folders", json=body, headers={"x-session-id": name}, expect=201)
    assert (await stream(api, start))["entries"][0]["session_id"] is None


async def test_waiting_ends_some_time(api, monkeypatch):
    monkeypatch.setattr(events, "HOLD_SECONDS", 0.05)
    assert await waiting(api) == "reconnect"


OTHER = """
import sys, trio
from pathlib import Path
from cmsfs.service.content import items
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

async def main():
    async with store.open_store(Path(sys.argv[1]), database_url=(sys.argv[2:] or [None])[0]) as opened:
        def txn(conn):
            user = conn.execute("SELECT * FROM account WHERE login = 'ann@example.com'").fetchone()
            parent = items.find(conn, user["root"])
            items.insert(conn, parent, items.New(ItemKind.FOLDER, "theirs"), by=user["id"], now=opened.now())
        await opened.write(txn)

trio.run(main)
"""


async def test_a_change_by_another_process_wakes(api, root, on_postgres, nursery):
    tell, answers = trio.open_memory_channel(1)

    async def wait():
        await tell.send(await waiting(api, stream_position="now"))

    nursery.start_soon(wait)
    await trio.run_process([sys.executable, "-c", OTHER, str(root), *on_postgres.values()])
    with trio.fail_after(5):
        assert await answers.receive() == "new_change"


async def test_the_public_client_follows_the_stream(client):
    def story():
        start = client.events.get_events(stream_position="now").next_stream_position
        wish = GetEventStreamQueryParams(stream_position=str(start))
        stream = iter(client.events.get_event_stream(query_params=wish))
        folder = client.folders.create_folder("sdk", CreateFolderParent(id="0"))
        event = next(stream)
        assert (event.event_type.value, event.source.id) == ("ITEM_CREATE", folder.id)

    await trio.to_thread.run_sync(story)
