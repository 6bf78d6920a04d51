"""Several files and folders are one ZIP archive."""

import io
import zipfile
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import httpx
import pytest

from cmsfs.models.content import zip_downloads as models_zip_downloads
from cmsfs.service.archives import zip_downloads
from cmsfs.service.server import serve
from cmsfs.service.storage import store

LARGE = bytes(range(256)) * 12_000


def target(item):
    return {"type": item["type"], "id": item["id"]}


async def ask(api, *items, expect=202, **more):
    body = {"items": [target(one) for one in items]} | more
    return await api.ask("POST", "/zip_downloads", json=body, expect=expect)


async def fetch(api, asked):
    """The archive, opened, as somebody gets it who has nothing but the address."""
    async with httpx.AsyncClient(transport=api.http._transport) as stranger:
        answer = await stranger.get(asked["download_url"])
    assert answer.status_code == 200, answer.text
    found = zipfile.ZipFile(io.BytesIO(answer.content))
    assert found.testzip() is None
    return found


async def status(api, asked):
    return await api.ask("GET", asked["status_url"])


async def test_zip_has_nested_folders(api):
    top = await api.folder("Übersicht 📁")
    inner = await api.folder("inner", top["id"])
    await api.folder("empty", inner["id"])
    await api.upload("a.txt", b"one", top["id"], content_modified_at="2021-02-03T04:05:06Z")
    await api.upload("large.bin", LARGE, inner["id"])
    await api.upload("nothing", b"", inner["id"])
    await api.link("elsewhere", top["id"])
    alone = await api.upload("日本.txt", b"alone")
    asked = await ask(api, top, alone, download_file_name="January")
    assert asked["name_conflicts"] == []
    assert (await status(api, asked))["state"] == "in_progress"
    found = await fetch(api, asked)
    folder = "Übersicht 📁/"
    assert {one.filename: one.file_size for one in found.infolist()} == {
        folder: 0,
        f"{folder}a.txt": 3,
        f"{folder}inner/": 0,
        f"{folder}inner/empty/": 0,
        f"{folder}inner/large.bin": len(LARGE),
        f"{folder}inner/nothing": 0,
        "日本.txt": 5,
    }
    assert found.read(f"{folder}inner/large.bin") == LARGE
    assert found.getinfo(f"{folder}a.txt").date_time == (2021, 2, 3, 4, 5, 6)
    assert await status(api, asked) == {
        "total_file_count": 4,
        "downloaded_file_count": 4,
        "skipped_file_count": 0,
        "skipped_folder_count": 0,
        "state": "succeeded",
    }


async def test_equal_names_are_made_unique_and_told(api):
    folders = [await api.folder(name) for name in ("one", "two")]
    first, second = [await api.upload("Report.pdf", one["name"].encode(), one["id"]) for one in folders]
    # Equal but for case, and with the very name that one of them would get.
    third = await api.upload(f"report ({first['id']}).PDF", b"three")
    asked = await ask(api, first, second, third, first)
    ((told, other),) = asked["name_conflicts"]
    assert told == {
        "id": first["id"],
        "type": "file",
        "original_name": "Report.pdf",
        "download_name": f"Report_ ({first['id']}).pdf",
    }
    found = await fetch(api, asked)
    assert found.read(told["download_name"]) == b"one"
    assert found.read(other["download_name"]) == b"two"
    assert len({name.casefold() for name in found.namelist()}) == 3


async def test_undownloadable_items_are_refused_or_left_out(api, service, as_user):
    uwe = await as_user(service, "uwe@example.com")
    top = await api.folder("top")
    inner = await api.folder("inner", top["id"])
    kept = await api.upload("kept", b"1", top["id"])
    locked = await api.upload("locked", b"2", inner["id"])
    assert (await ask(uwe, top, expect=404))["code"] == "not_found"
    body = {"item": target(top), "accessible_by": {"type": "user", "id": str(uwe.user)}, "role": "previewer"}
    shared = await api.ask("POST", "/collaborations", json=body, expect=201)
    refused = await ask(uwe, kept, expect=403)
    assert refused["code"] == "access_denied_insufficient_permissions"
    await api.ask("PUT", f"/collaborations/{shared['id']}", json={"role": "viewer"})
    asked, both = await ask(uwe, top), await ask(uwe, top, kept)
    lock = {"lock": {"type": "lock", "is_download_prevented": True}}
    await api.ask("PUT", f"/files/{locked['id']}", json=lock)
    assert sorted((await fetch(uwe, asked)).namelist()) == ["top/", "top/inner/", "top/kept"]
    assert (await status(uwe, asked))["skipped_file_count"] == 1
    assert (await ask(uwe, locked, expect=403))["code"] == "access_denied_item_locked"
    # The right is gone before the download begins.
    await api.ask("PUT", f"/collaborations/{shared['id']}", json={"role": "previewer"})
    assert (await fetch(uwe, both)).namelist() == []
    found = await status(uwe, both)
    assert (found["skipped_file_count"], found["skipped_folder_count"]) == (3, 2)


async def test_a_content_that_is_lost_is_left_out_and_logged(api, service, expect_log):
    folder = await api.folder("folder")
    for name in ("a", "b"):
        file = await api.upload(name, name.encode(), folder["id"])
    service.blobs.path(file["sha1"]).unlink()
    expect_log(f"content {file['sha1']} is missing or incomplete: `cmsfs service check`")
    asked = await ask(api, folder)
    assert (await fetch(api, asked)).namelist() == ["folder/", "folder/a"]
    found = await status(api, asked)
    assert (found["downloaded_file_count"], found["skipped_file_count"]) == (1, 1)


async def test_an_archive_that_breaks_off_is_failed(api, service, nursery, log_watch, expect_log):
    """The connection ends, and the log says so in one line."""
    expect_log("archive aborted, a content cannot be read: a content is shorter than it should be")
    large = LARGE * 3
    file = await api.upload("large", large)
    with service.blobs.path(file["sha1"]).open("r+b") as damaged:
        damaged.truncate(len(large) - 1)
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    async with httpx.AsyncClient(headers=api.http.headers, timeout=60) as client:
        body = {"items": [target(file)]}
        asked = (await client.post(f"{url}/2.0/zip_downloads", json=body)).json()
        got = b""
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("GET", asked["download_url"]) as answer:
                assert answer.status_code == 200
                async for data in answer.aiter_raw():
                    got += data
        assert got.startswith(b"PK")
        with pytest.raises(zipfile.BadZipFile):
            zipfile.ZipFile(io.BytesIO(got))
        assert len(log_watch.lines) == 1
        assert (await client.get(asked["status_url"])).json()["state"] == "failed"


async def test_limits(api, monkeypatch):
    folder = await api.folder("folder")
    for name in "abc":
        await api.upload(name, b"x", folder["id"])
    monkeypatch.setattr(models_zip_downloads, "MAX_FILES", 2)
    assert (await ask(api, folder, expect=403))["code"] == "operation_limit_exceeded"
    monkeypatch.setattr(models_zip_downloads, "MAX_FILES", 3)
    asked = await ask(api, folder)
    await api.upload("later", b"x", folder["id"])
    assert len((await fetch(api, asked)).namelist()) == 4
    assert (await status(api, asked))["skipped_file_count"] == 1
    await ask(api, {"type": "folder", "id": "0"}, expect=400)
    await ask(api, {"type": "web_link", "id": "1"}, expect=400)
    await ask(api, expect=400)


async def test_an_address_is_for_a_moment(api, monkeypatch):
    file = await api.upload("a", b"x")
    asked = await ask(api, file)
    ends = datetime.fromisoformat(asked["expires_at"])
    assert 0 < (ends - datetime.now(UTC)).total_seconds() <= zip_downloads.LIFETIME_SECONDS
    await fetch(api, asked)
    monkeypatch.setattr(zip_downloads, "LIFETIME_SECONDS", 0)
    await api.ask("GET", asked["download_url"], expect=404)
    assert (await status(api, asked))["state"] == "succeeded"
    monkeypatch.setattr(zip_downloads, "STATUS_SECONDS", 0)
    await api.ask("GET", asked["status_url"], expect=404)
    await api.ask("GET", f"{asked['download_url'].removesuffix('/content')}x/content", expect=404)


@pytest.mark.embedded  # it has a database of its own
async def test_any_of_several_processes_sends_it_and_tells_how_that_went(postgres, root, fill, as_user):
    url = postgres.database()
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(store.open_store(root, database_url=url)) for _ in range(3)]
        await fill(opened[0])
        one, two, three = [await as_user(each, "ann@example.com") for each in opened]
        file = await one.upload("a.txt", b"words")
        asked = await ask(one, file)
        assert (await status(three, asked))["state"] == "in_progress"
        found = await fetch(two, asked)
        assert found.read("a.txt") == b"words"
        for caller in (one, two, three):
            assert await status(caller, asked) == {
                "total_file_count": 1,
                "downloaded_file_count": 1,
                "skipped_file_count": 0,
                "skipped_folder_count": 0,
                "state": "succeeded",
            }
        # Nobody is told for ever.
        now = opened[0].now()
        for each in opened:
            each.now = lambda: now + 13 * 3600 * 1_000_000
        again = await ask(one, file)
        await three.ask("GET", asked["status_url"], expect=404)
        names = [
            row["name"] for row in two.store.read("SELECT name FROM shared_value WHERE name LIKE 'zip.%'")
        ]
        assert names == [f"zip.{again['status_url'].rpartition('/')[0].rpartition('/')[2]}"]
    postgres.drop(url)
