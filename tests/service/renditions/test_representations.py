"""A file's words and small pictures: offered, made when asked for, handed to whom may look into the file."""

import io

import pytest
import trio
from PIL import Image

from cmsfs.service.renditions import indexing
from cmsfs.service.storage import derived_files, store
from tests.support import sample_documents

HINTS = {"x-rep-hints": "[jpg?dimensions=320x320][extracted_text]"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)


async def all_made(opened: store.Store) -> None:
    with trio.fail_after(30):
        while True:
            written = opened.written
            if not opened.read("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM rendition WHERE state = 0"):
                return
            await written.wait()


async def offered(api, file, hints=None):
    headers = {"x-rep-hints": hints} if hints else {}
    path = f"/files/{file['id']}?fields=representations"
    return (await api.ask("GET", path, headers=headers))["representations"]["entries"]


def short(entries):
    return [(one["representation"], one["properties"].get("dimensions")) for one in entries]


async def fetch(api, entry, asset="", status=200, **headers):
    url = entry["content"]["url_template"].replace("{+asset_path}", asset)
    answer = await api.http.get(url, headers=headers)
    assert answer.status_code == status, answer.text
    return answer


async def test_what_is_hinted_at_is_made(api, service, nursery):
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    entries = await offered(api, file, HINTS["x-rep-hints"])
    assert short(entries) == [("jpg", "320x320"), ("extracted_text", None)]
    assert [one["status"]["state"] for one in entries] == ["pending", "pending"]
    answer = await fetch(api, entries[0], status=202)
    assert (answer.headers["retry-after"], answer.content) == ("1", b"")
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    entries = await offered(api, file, HINTS["x-rep-hints"])
    assert [one["status"]["state"] for one in entries] == ["success", "success"]
    picture, text = entries
    assert picture["properties"] == {"dimensions": "320x320", "paged": "false", "thumb": "true"}
    assert (await api.ask("GET", picture["info"]["url"])) == picture
    answer = await fetch(api, picture)
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-disposition" not in answer.headers
    assert Image.open(io.BytesIO(answer.content)).size == (320, 160)
    assert (await fetch(api, picture, "1.jpg")).content == answer.content
    await fetch(api, picture, "2.jpg", status=404)
    answer = await fetch(api, text)
    assert (answer.text, answer.headers["content-type"]) == ("heron", "text/plain; charset=utf-8")
    url = text["content"]["url_template"].replace("{+asset_path}", "")
    params = {"set_content_disposition_type": "attachment", "set_content_disposition_filename": "ö\r\nx.txt"}
    answer = await api.http.get(url, params=params)
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%B6%0D%0Ax.txt"


async def test_offered_representations_depend_on_extension(api):
    async def names(name, data=b"\0"):
        return short(await offered(api, await api.upload(name, data)))

    small = [("jpg", "32x32"), ("jpg", "94x94"), ("jpg", "160x160"), ("jpg", "320x320"), ("jpg", "1024x1024")]
    large = [("png", "1024x1024"), ("png", "2048x2048")]
    text = [("extracted_text", None)]
    assert await names("a.png") == small + large
    assert await names("a.JPG") == [*small, ("jpg", "2048x2048"), *large]
    assert await names("a.pdf") == small + large + text
    assert await names("a.docx") == text
    assert await names("a.py", b"words") == text
    assert await names("a.bin") == []


async def test_nothing_is_made_before_it_is_asked_for(api, service, nursery):
    file = await api.upload("a.png", sample_documents.picture())
    entries = await offered(api, file)
    assert {one["status"]["state"] for one in entries} == {"none"}
    assert service.read("SELECT * FROM rendition") == []
    # A look at one begins it, as does fetching it.
    assert (await api.ask("GET", entries[0]["info"]["url"]))["status"] == {"state": "pending"}
    await fetch(api, entries[1], status=202)
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    states = [one["status"]["state"] for one in await offered(api, file)]
    assert states == ["success", "success", *["none"] * 5]


@pytest.mark.parametrize(
    ("hints", "found"),
    [
        ("[jpg?dimensions=2048x2048,png?dimensions=2048x2048]", [("png", "2048x2048")]),
        ("[png?dimensions=1024x1024&paged=false]", [("png", "1024x1024")]),
        ("[jpg?dimensions=32x32][jpg?dimensions=94x94]", [("jpg", "32x32"), ("jpg", "94x94")]),
        ("[jpg?dimensions=7x7]", []),
        ("[mp4][3d][pdf]", []),
        ("[png]", [("png", "1024x1024"), ("png", "2048x2048")]),
    ],
)
async def test_hints_choose(api, hints, found):
    assert short(await offered(api, await api.upload("a.png", b"x"), hints)) == found


async def test_what_is_impossible_is_not_offered_any_more(api, service, nursery, expect_log):
    expect_log("cannot make jpg_thumb_320x320 of content [0-9a-f]{40}: it has more than 80000000 pixels")
    file = await api.upload("bomb.png", sample_documents.picture(size=(20_000, 20_000), mode="1"))
    entries = await offered(api, file, "[jpg?dimensions=320x320]")
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    assert await offered(api, file, "[jpg?dimensions=320x320]") == []
    body = await api.ask("GET", entries[0]["info"]["url"], expect=404)
    assert body["code"] == "preview_cannot_be_generated"
    await fetch(api, entries[0], status=404)


async def test_lists_have_them_too(api):
    file = await api.upload("a.png", sample_documents.picture())
    for path in ("/folders/0/items?", "/search?query=png&type=file&"):
        entry = (await api.ask("GET", f"{path}fields=representations", headers=HINTS))["entries"][0]
        assert short(entry["representations"]["entries"]) == [("jpg", "320x320")]
        assert entry["id"] == file["id"]


async def test_representations_need_preview_permission(api, uwe, service, nursery):
    folder = await api.folder("docs")
    file = await api.upload("a.png", sample_documents.picture(), folder["id"])
    other = await api.upload("b.png", sample_documents.picture())
    entry = (await offered(api, file, "[jpg?dimensions=32x32]"))[0]
    elsewhere = (await offered(api, other, "[jpg?dimensions=32x32]"))[0]
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    url = entry["content"]["url_template"].replace("{+asset_path}", "")
    thumbnail = f"/files/{file['id']}/thumbnail.jpg"
    for one in (url, entry["info"]["url"], thumbnail):
        assert (await api.http.get(one)).status_code == 200
        assert (await uwe.http.get(one)).status_code == 404
        assert (await api.http.get(one, headers={"authorization": ""})).status_code == 401
        # A shared link shows the file.
        link = await api.ask("PUT", f"/folders/{folder['id']}", json={"shared_link": {"access": "open"}})
        header = {"boxapi": f"shared_link={link['shared_link']['url']}"}
        assert (await uwe.http.get(one, headers=header)).status_code == 200
        await api.ask("PUT", f"/folders/{folder['id']}", json={"shared_link": None})
        # A token that is bound to the folder is good for what is in it.
        resource = f"https://api.box.com/2.0/folders/{folder['id']}"
        bound = await api.narrowed("item_preview", resource=resource)
        assert await api.status(bound, path=one) == 200
        assert await api.status(bound, path=elsewhere["info"]["url"]) == 404
        assert await api.status(await api.narrowed("item_upload"), path=one) == 403
    # Versions of other files are not reached by way of one's own.
    wrong = entry["info"]["url"].replace(file["id"], other["id"])
    assert (await api.http.get(wrong)).status_code == 404
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert (await api.http.get(url)).status_code == 404


async def test_an_earlier_version_keeps_its_own(api, service, nursery):
    file = await api.upload("a.pdf", sample_documents.pdf("heron"))
    old = (await offered(api, file, "[extracted_text]"))[0]
    await api.version(file["id"], sample_documents.pdf("egret"))
    new = (await offered(api, file, "[extracted_text]"))[0]
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    assert ((await fetch(api, old)).text, (await fetch(api, new)).text) == ("heron", "egret")


async def test_lost_rendition_is_made_again(api, service, nursery):
    file = await api.upload("a.png", sample_documents.picture())
    entry = (await offered(api, file, "[jpg?dimensions=32x32]"))[0]
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    service.renditions.path(file["sha1"], "jpg_thumb_32x32").unlink()
    await fetch(api, entry, status=202)
    await all_made(service)
    await fetch(api, entry)


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ("thumbnail.png", 32),
        ("thumbnail.png?min_height=256&min_width=256", 256),
        ("thumbnail.png?min_height=33&max_width=100", 64),
        ("thumbnail.jpg?min_width=161", 320),
        ("thumbnail.jpg?max_height=94&min_height=94", 94),
    ],
)
async def test_a_thumbnail_fits_its_bounds(api, service, nursery, query, size):
    file = await api.upload("a.png", sample_documents.picture(size=(1000, 1000)))
    answer = await api.http.get(f"/files/{file['id']}/{query}")
    assert (answer.status_code, answer.headers["retry-after"]) == (202, "1")
    # Where it points to meanwhile there is a picture, for everybody.
    meanwhile = await api.http.get(answer.headers["location"], headers={"authorization": ""})
    assert Image.open(io.BytesIO(meanwhile.content)).size == (32, 32)
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    answer = await api.http.get(f"/files/{file['id']}/{query}")
    made = Image.open(io.BytesIO(answer.content))
    assert (answer.status_code, made.size) == (200, (size, size))
    assert answer.headers["content-type"] == f"image/{made.format.lower()}"


@pytest.mark.parametrize(
    ("name", "query", "status", "code"),
    [
        ("a.png", "?min_height=300&max_height=310", 400, "requested_preview_unavailable"),
        ("a.png", "?min_height=x", 400, "requested_preview_unavailable"),
        ("a.png", "?min_height=999", 400, "requested_preview_unavailable"),
    ],
)
async def test_a_thumbnail_that_there_is_not(api, name, query, status, code):
    file = await api.upload(name, b"x")
    body = await api.ask("GET", f"/files/{file['id']}/thumbnail.png{query}", expect=status)
    assert body["code"] == code


async def test_a_file_without_pictures_shows_the_one_that_says_nothing(api):
    file = await api.upload("a.txt", b"x")
    path = f"/files/{file['id']}/thumbnail.png"
    answer = await api.http.get(path, follow_redirects=False)
    assert (answer.status_code, answer.content, answer.headers.get("retry-after")) == (302, b"", None)
    shown = await api.http.get(answer.headers["location"], headers={"authorization": ""})
    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/png")


def test_every_name_is_a_file_name():
    assert all(name.replace("_", "").isalnum() for name in derived_files.PICTURES)


@pytest.mark.parametrize(
    ("role", "sees", "has"),
    [
        ("previewer", 200, 403),
        ("viewer", 200, 200),
        ("uploader", 403, 403),
        ("previewer uploader", 200, 403),
        ("editor", 200, 200),
    ],
)
async def test_preview_role_gets_no_bytes(api, uwe, service, nursery, role, sees, has):
    folder = await api.folder("docs")
    file = await api.upload("a.png", sample_documents.picture(), folder["id"])
    invited = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": role,
    }
    await api.ask("POST", "/collaborations", json=invited, expect=201)
    entry = (await offered(api, file, "[jpg?dimensions=32x32]"))[0]
    nursery.start_soon(indexing.run, service)
    await all_made(service)
    url = entry["content"]["url_template"].replace("{+asset_path}", "")
    for one in (url, entry["info"]["url"], f"/files/{file['id']}/thumbnail.jpg"):
        assert (await uwe.http.get(one)).status_code == sees, one
    assert (await uwe.http.get(f"/files/{file['id']}/content")).status_code == has
    path = f"/files/{file['id']}?fields=expiring_embed_link"
    assert ((await uwe.ask("GET", path))["expiring_embed_link"] is not None) == (sees == 200)
