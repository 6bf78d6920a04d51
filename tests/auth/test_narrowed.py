"""A token for a drive that can do less: everything else is refused by the service, to that very token."""

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.auth import bearer, connect, deadline
from cmsfs.client import remote_paths, session
from cmsfs.models.content import items


async def _narrowed(settings, use):
    """What `use(client, token, way)` gives, with the client and token of such a drive."""
    limit = deadline.Deadline(settings.ttl_seconds)
    ways = []

    async def find_root(way):
        ways.append(way)
        if not settings.folder:
            return "0"
        async with session.open_client(
            way.endpoints, auth=bearer.BearerAuth(way.fetch), transport=way.transport
        ) as client:
            return (await remote_paths.RemotePaths(client, settings).get_folder(settings.folder)).id

    opened = connect.open_narrowed(settings, find_root=find_root, deadline=limit, sample=True)
    async with opened as client:
        await client.users.me()
        token = client.users._wire._auth._token.access_token.get_secret_value()  # type: ignore[attr-defined]
        async with httpx.AsyncClient(
            transport=ways[0].transport,
            base_url=ways[0].endpoints.base_url,
            headers={"authorization": f"Bearer {token}"},
        ) as http:
            return await use(client, http, ways[0])


async def _ids(way):
    """The ids of a folder of the sample with a file in it, of that file, and of a file elsewhere."""
    async with session.open_client(
        way.endpoints, auth=bearer.BearerAuth(way.fetch), transport=way.transport
    ) as client:
        top = [item async for item in client.folders.items("0")]
        elsewhere = next(item.id for item in top if isinstance(item, items.File))
        for folder in (item for item in top if isinstance(item, items.Folder)):
            async for item in client.folders.items(folder.id):
                if isinstance(item, items.File):
                    return folder.name, folder.id, item.id, elsewhere
    raise AssertionError("the sample has no such folder")


async def _sample():
    async with connect.open_access(config.Settings(), sample=True) as way:
        return await _ids(way)


async def test_read_only_folder_token_is_confined():
    name, folder, file, elsewhere = await _sample()

    async def use(client, http, way):
        allowed = [
            ("GET", f"/folders/{folder}/items", None),
            ("GET", f"/files/{file}", None),
            ("GET", f"/files/{file}/content", None),
            ("GET", f"/search?query=*&ancestor_folder_ids={folder}", None),
        ]
        for method, path, body in allowed:
            assert (await http.request(method, path, json=body)).status_code < 400, path
        refused = [
            ("GET", "/folders/0/items", None),
            ("GET", f"/files/{elsewhere}", None),
            ("GET", f"/files/{elsewhere}/content", None),
            ("POST", "/folders", {"name": "x", "parent": {"id": folder}}),
            ("PUT", f"/files/{file}", {"name": "y"}),
            ("PUT", f"/files/{file}", {"parent": {"id": "0"}}),
            ("PUT", f"/folders/{folder}", {"shared_link": {}}),
            ("DELETE", f"/files/{file}", None),
            ("DELETE", f"/folders/{folder}?recursive=true", None),
            ("POST", f"/files/{file}/copy", {"parent": {"id": folder}}),
            ("POST", "/web_links", {"url": "https://example.com", "parent": {"id": folder}}),
            ("POST", "/files/upload_sessions", {"folder_id": folder, "file_size": 1, "file_name": "x"}),
            ("GET", "/folders/trash/items", None),
            ("GET", "/users", None),
            ("GET", "/events", None),
            ("GET", "/legal_hold_policies", None),
        ]
        for method, path, body in refused:
            answer = await http.request(method, path, json=body)
            assert answer.status_code in (403, 404), f"{method} {path}: {answer.status_code}"
        found = (await http.get("/search?query=*&ancestor_folder_ids=0")).json()
        assert elsewhere not in {entry["id"] for entry in found.get("entries", [])}
        # And it cannot be made into more.
        for scope in ("root_readwrite", "item_upload", "root_readonly"):
            form = {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token": http.headers["authorization"].split()[1],
                "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
                "scope": scope,
            }
            answer = await http.post(f"{way.endpoints.auth_url}/oauth2/token", data=form)
            assert answer.status_code in (400, 401)

    await _narrowed(config.Settings(folder=name, read_only=True), use)


async def test_a_reader_of_everything_changes_nothing():
    _, folder, file, elsewhere = await _sample()

    async def use(client, http, way):
        assert (await http.get(f"/files/{elsewhere}/content")).status_code == 302
        assert (await http.get("/folders/0/items")).status_code == 200
        assert (await http.delete(f"/files/{file}")).status_code == 403
        made = await http.post("/folders", json={"name": "x", "parent": {"id": folder}})
        assert made.status_code == 403

    await _narrowed(config.Settings(read_only=True), use)


async def test_folder_token_changes_only_that_folder():
    name, folder, _, elsewhere = await _sample()

    async def use(client, http, way):
        made = await http.post("/folders", json={"name": "x", "parent": {"id": folder}})
        assert made.status_code == 201
        assert (await http.post("/folders", json={"name": "x", "parent": {"id": "0"}})).status_code == 404
        assert (await http.delete(f"/files/{elsewhere}")).status_code == 404

    await _narrowed(config.Settings(folder=name), use)


async def test_after_its_time_there_are_no_tokens():
    async def use(client, http, way):
        assert 1 <= (await deadline.Deadline(30).limiting(way.fetch)()).expires_in <= 30
        # One for less than a second would be used for longer than that.
        limit = deadline.Deadline(0.5)
        with pytest.raises(errors.NeedsLogin, match="is over"):
            await limit.limiting(way.fetch)()
        await limit.passed()
        with pytest.raises(errors.NeedsLogin, match="is over"):
            await limit.limiting(way.fetch)()
        with trio.move_on_after(0) as never:
            await deadline.Deadline(0).passed()
        assert never.cancelled_caught

    await _narrowed(config.Settings(read_only=True, ttl_seconds=60), use)


def test_a_token_is_never_used_beyond_the_time():
    assert deadline.Deadline(0).left == float("inf")
    assert 7000 < deadline.Deadline(7200).left <= 7200
    assert [deadline.format_span(s) for s in (90, 1800, 28800, 172800)] == ["90 s", "30 min", "8 h", "2 days"]


def test_each_narrowed_drive_has_own_state():
    def place(**values):
        return config.Settings(**values).place

    assert place() == place(ttl_seconds=60) == place(folder="/") == "default"
    assert place(read_only=True) == "default@ro"
    places = [place(folder="/a b"), place(folder="a-b"), place(folder="a b", read_only=True)]
    assert len(set(places)) == 3
    assert place(folder="/a b/") == place(folder="a b")
    assert all("/" not in one and one.startswith("default@a-b-") for one in places)


async def test_folder_in_trash_is_reported():
    name, folder, _, _ = await _sample()

    async def use(client, http, way):
        async with session.open_client(
            way.endpoints, auth=bearer.BearerAuth(way.fetch), transport=way.transport
        ) as whole:
            await whole.items.delete("folder", folder, recursive=True)
            client.users._wire._auth._token = None  # as after its hour
            with pytest.raises(errors.RootGone):
                await client.users.me()
            await whole.items.restore("folder", folder)
            await client.users.me()

    await _narrowed(config.Settings(folder=name), use)
