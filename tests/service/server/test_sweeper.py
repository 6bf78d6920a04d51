"""What time does by itself, with a clock that is moved."""

from contextlib import asynccontextmanager

import pytest
import trio

from cmsfs.service.server import sweeper

DAY = 86_400 * 1_000_000


@pytest.fixture
def later(api, service):
    """`await later(days)`: a pass of the sweeper as of then.  It takes the caller's token along."""

    async def run(days):
        await sweeper.sweep(service, service.now() + int(days * DAY))
        await api.log_in()

    return run


async def policy(api, action="permanently_delete", days=10, target=None):
    body = {
        "policy_name": f"{action} {days}",
        "policy_type": "finite",
        "retention_length": days,
        "disposition_action": action,
    }
    made = await api.ask("POST", "/retention_policies", json=body, expect=201)
    assign = {"type": "enterprise"} if target is None else {"type": "folder", "id": target}
    given = {"policy_id": made["id"], "assign_to": assign}
    await api.ask("POST", "/retention_policy_assignments", json=given, expect=201)


async def hold(api, kind, wire_id):
    body = {"policy_name": f"hold {wire_id}"}
    made = await api.ask("POST", "/legal_hold_policies", json=body, expect=201)
    given = {"policy_id": made["id"], "assign_to": {"type": kind, "id": wire_id}}
    await api.ask("POST", "/legal_hold_policy_assignments", json=given, expect=201)


async def events(api, after):
    found = await api.ask("GET", "/events", params={"stream_position": after, "limit": 500})
    return [(one["event_type"], one["source"]["name"]) for one in found["entries"]]


async def now_at(api):
    return (await api.ask("GET", "/events", params={"stream_position": "now"}))["next_stream_position"]


async def test_trash_is_emptied_when_it_was_announced(api, service, later):
    folder = await api.folder("folder")
    await api.upload("inside", b"x" * 100, folder["id"])
    link = await api.link("link")
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    await api.ask("DELETE", f"/web_links/{link['id']}", expect=204)
    trashed = await api.ask("GET", f"/folders/{folder['id']}/trash")
    assert trashed["purged_at"] > trashed["trashed_at"]
    await later(29.9)
    assert len((await api.ask("GET", "/folders/trash/items"))["entries"]) == 2
    await later(30.1)
    assert (await api.ask("GET", "/folders/trash/items"))["entries"] == []
    await api.ask("GET", f"/folders/{folder['id']}/trash", expect=404)
    assert (await api.ask("GET", "/users/me"))["space_used"] == 0


async def test_the_log_names_what_was_done(api, later, caplog):
    caplog.set_level("INFO", "cmsfs.service.server.sweeper")
    link = await api.link("link")
    await api.ask("DELETE", f"/web_links/{link['id']}", expect=204)
    await later(31)
    assert "purged from the trash: 1 of 1 that were due" in caplog.messages


async def test_the_enterprise_says_how_long_trash_is_kept(api, service, later):
    for days, name in ((3, "short"), (None, "for ever")):
        change = ("UPDATE enterprise SET trash_days = ?", (days,))
        await service.write(lambda conn, change=change: conn.execute(*change))
        link = await api.link(name)
        await api.ask("DELETE", f"/web_links/{link['id']}", expect=204)
    await later(4)
    left = (await api.ask("GET", "/folders/trash/items?fields=purged_at"))["entries"]
    assert [(one["name"], one["purged_at"]) for one in left] == [("for ever", None)]


async def test_what_came_back_in_time_stays(api, later):
    link = await api.link("link")
    await api.ask("DELETE", f"/web_links/{link['id']}", expect=204)
    await api.ask("POST", f"/web_links/{link['id']}", json={}, expect=201)
    await later(31)
    assert (await api.ask("GET", f"/web_links/{link['id']}"))["purged_at"] is None


async def test_what_is_held_or_retained_is_not_purged(api, later):
    kept = await api.folder("held")
    file = await api.upload("held.txt", b"held", kept["id"])
    free = await api.upload("free.txt", b"free")
    await hold(api, "file", file["id"])
    await api.ask("DELETE", f"/folders/{kept['id']}?recursive=true", expect=204)
    await api.ask("DELETE", f"/files/{free['id']}", expect=204)
    await later(31)
    left = (await api.ask("GET", "/folders/trash/items"))["entries"]
    assert [one["name"] for one in left] == ["held"]


async def test_trashed_versions_expire_and_free_space(api, later):
    file = await api.upload("a.txt", b"first")
    old = file["file_version"]["id"]
    await api.version(file["id"], b"second!")
    await api.ask("DELETE", f"/files/{file['id']}/versions/{old}", expect=204)
    await later(29)
    assert (await api.ask("GET", "/users/me"))["space_used"] == 12
    await later(31)
    await api.ask("GET", f"/files/{file['id']}/versions/{old}", expect=404)
    assert (await api.ask("GET", "/users/me"))["space_used"] == 7
    assert await api.bytes(file["id"]) == b"second!"


async def test_expired_retention_deletes_its_items(api, later):
    going, staying = await api.folder("going"), await api.folder("staying")
    await policy(api, "permanently_delete", 10, going["id"])
    await policy(api, "remove_retention", 10, staying["id"])
    gone = await api.upload("gone.txt", b"x", going["id"])
    left = await api.upload("left.txt", b"y", staying["id"])
    position = await now_at(api)
    await later(9.9)
    assert (await api.ask("GET", f"/files/{gone['id']}"))["id"] == gone["id"]
    await later(10.1)
    await api.ask("GET", f"/files/{gone['id']}", expect=404)
    await api.ask("GET", f"/files/{gone['id']}/trash", expect=404)
    assert (await api.ask("GET", f"/files/{left['id']}"))["id"] == left["id"]
    assert await events(api, position) == [("ITEM_TRASH", "gone.txt")]
    assert (await api.ask("GET", f"/folders/{going['id']}?fields=size"))["size"] == 0


async def test_disposition_pages_past_held_items(api, later, monkeypatch):
    monkeypatch.setattr(sweeper, "PAGE", 2)
    folder = await api.folder("folder")
    await policy(api, "permanently_delete", 10, folder["id"])
    files = [await api.upload(f"{number}", b"x", folder["id"]) for number in range(9)]
    for file in files[:3]:
        await hold(api, "file", file["id"])
    await later(11)
    left = (await api.ask("GET", f"/folders/{folder['id']}/items"))["entries"]
    assert [one["name"] for one in left] == ["0", "1", "2"]


async def test_disposition_waits_for_longest_retention(api, later):
    folder = await api.folder("folder")
    await policy(api, "permanently_delete", 10, folder["id"])
    held = await api.upload("held.txt", b"x", folder["id"])
    await hold(api, "file", held["id"])
    longer = await api.folder("longer", folder["id"])
    await policy(api, "remove_retention", 20, longer["id"])
    other = await api.upload("other.txt", b"y", longer["id"])
    for days in (11, 19, 21):
        await later(days)
        assert (await api.ask("GET", f"/files/{held['id']}"))["id"] == held["id"]
        assert (await api.ask("GET", f"/files/{other['id']}"))["id"] == other["id"]


async def test_earlier_versions_are_disposed_of_one_by_one(api, service, later):
    await policy(api, "permanently_delete", 10)
    file = await api.upload("a.txt", b"first")
    old = file["file_version"]["id"]
    await service.write(
        lambda conn: conn.execute("UPDATE version SET created_at = created_at - ?", (5 * DAY,))
    )
    await api.version(file["id"], b"second")
    await later(6)
    await api.ask("GET", f"/files/{file['id']}/versions/{old}", expect=404)
    assert await api.bytes(file["id"]) == b"second"
    await later(11)
    await api.ask("GET", f"/files/{file['id']}", expect=404)


async def test_links_and_locks_end_and_say_so(api, service):
    file = await api.upload("a.txt", b"x")
    path = f"/files/{file['id']}"
    day = "2100-01-01T00:00:00+00:00"
    await api.ask("PUT", path, json={"shared_link": {"access": "open", "unshared_at": day}})
    await api.ask("PUT", path, json={"lock": {"type": "lock", "access": "lock", "expires_at": day}})
    position = await now_at(api)
    await sweeper.sweep(service, service.now() + DAY)
    assert await events(api, position) == []
    await sweeper.sweep(service, 4_102_444_800_000_000)
    await api.log_in()
    assert await events(api, position) == [("ITEM_SHARED_UNSHARE", "a.txt"), ("LOCK_DESTROY", "a.txt")]
    found = await api.ask("GET", f"{path}?fields=shared_link,lock")
    assert found["shared_link"] is found["lock"] is None
    await sweeper.sweep(service, 4_102_444_800_000_000)
    await api.log_in()
    assert len(await events(api, position)) == 2


async def test_uploads_that_nobody_finished_lose_their_parts(api, service, root, later, small):
    session = await api.begin()
    await api.put(session, 0)
    assert len(list((root / "sessions").rglob("*"))) == 2
    await later(6.9)
    assert len(list((root / "sessions").rglob("*"))) == 2
    await later(7.1)
    assert list((root / "sessions").iterdir()) == []
    assert service.read("SELECT count(*) AS n FROM upload_session")[0]["n"] == 1
    await later(14.1)
    assert service.read("SELECT count(*) AS n FROM upload_session")[0]["n"] == 0


async def test_collaborations_end_and_say_so(api, uwe, service):
    folder = await api.folder("folder")
    body = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": "viewer",
        "expires_at": "2100-01-01T00:00:00+00:00",
    }
    await api.ask("POST", "/collaborations", json=body, expect=201)
    position = await now_at(api)
    await sweeper.sweep(service, service.now() + DAY)
    assert await events(api, position) == []
    await sweeper.sweep(service, 4_102_444_800_000_000)
    for caller in (api, uwe):
        await caller.log_in()
        assert await events(caller, position) == [("COLLAB_REMOVE_COLLABORATOR", "folder")]
    await uwe.ask("GET", f"/folders/{folder['id']}", expect=404)


async def test_dead_tokens_go(api, service):
    count = "SELECT count(*) AS n FROM token"
    for days, left in ((1.0, 1), (1.1, 0)):
        await sweeper.sweep(service, service.now() + int(days * DAY))
        assert service.read(count)[0]["n"] == left


async def test_it_goes_on_after_a_pass_that_failed(api, service, expect_log, autojump_clock):
    expect_log("a pass of the sweeper failed")
    link = await api.link("link")
    await api.ask("DELETE", f"/web_links/{link['id']}", expect=204)
    moments = iter([service.now(), None])
    gone = trio.Event()

    def clock():
        if not service.read("SELECT 1 FROM item WHERE status = 1"):
            gone.set()
        return next(moments, service.now() + 31 * DAY)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweeper.run, service, clock)
        await gone.wait()
        nursery.cancel_scope.cancel()


async def test_bytes_go_an_hour_after_their_last_version(api, service, later):
    one = await api.upload("one", b"the same")
    two = await api.upload("two", b"the same")
    blob = service.blobs.path(one["sha1"])
    for number, left in enumerate((two, one)):
        await api.ask("DELETE", f"/files/{left['id']}", expect=204)
        await api.ask("DELETE", f"/files/{left['id']}/trash", expect=204)
        await sweeper.sweep(service, service.now())
        assert blob.exists() is (number == 0)
    assert [path.name for path in service.blobs.aside.iterdir()] == [one["sha1"]]
    await later(1 / 12)
    assert list(service.blobs.aside.iterdir()) == []


async def test_upload_during_cleanup_of_equal_bytes_is_whole(api, service, later):
    """The bytes are set aside between their arrival and the row that names them."""
    old = await api.upload("old", b"precious")
    await api.ask("DELETE", f"/files/{old['id']}", expect=204)
    await api.ask("DELETE", f"/files/{old['id']}/trash", expect=204)
    keep = type(service.blobs).receive

    class Racing:
        """Receives as the store does, and lets the sweeper pass as soon as the bytes are in their place."""

        def __init__(self, incoming):
            self._incoming = incoming

        def __getattr__(self, name):
            return getattr(self._incoming, name)

        async def keep(self, check):
            sha1 = await self._incoming.keep(check)
            await sweeper.sweep(service, service.now())
            assert not service.blobs.path(sha1).exists()
            return sha1

    @asynccontextmanager
    async def receive():
        async with keep(service.blobs) as incoming:
            yield Racing(incoming)

    service.blobs.receive = receive
    new = await api.upload("new", b"precious")
    answer = await api.http.get(f"/files/{new['id']}/content", follow_redirects=True)
    assert answer.content == b"precious"
    await later(1 / 12)
    assert service.blobs.path(new["sha1"]).read_bytes() == b"precious"
