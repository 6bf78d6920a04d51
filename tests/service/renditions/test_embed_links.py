"""Expiring embed links: a page with the file, for a while."""

import io

import pytest
import trio
from PIL import Image

from cmsfs.service.access import callers
from cmsfs.service.renditions import indexing
from tests.support import sample_documents


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)


async def link(api, file, **options):
    path = f"/files/{file['id']}?fields=expiring_embed_link"
    return (await api.ask("GET", path, **options))["expiring_embed_link"]


async def look(api, url, status=200):
    """What somebody sees who has nothing but the address."""
    answer = await api.http.get(url, headers={"authorization": ""})
    assert answer.status_code == status, answer.text
    return answer


async def shown(api, service, url):
    """The page, when the preview is made."""
    with trio.fail_after(20):
        while True:
            written = service.written
            answer = await look(api, url)
            if "refresh" not in answer.headers:
                return answer
            assert "is being made" in answer.text
            if service.read("SELECT 1 FROM rendition WHERE state = 0"):
                await written.wait()


async def test_the_page_shows_a_picture(api, service, nursery):
    nursery.start_soon(indexing.run, service)
    file = await api.upload('a"<b>.png', sample_documents.picture())
    made = await link(api, file)
    assert made["token_type"] == "bearer"
    assert 0 < made["expires_in"] <= 3600
    [one] = made["restricted_to"]
    assert (one["scope"], one["object"]["id"], one["object"]["type"]) == ("item_preview", file["id"], "file")
    page = await shown(api, service, made["url"])
    assert "a&quot;&lt;b&gt;.png" in page.text and "<b>" not in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    place = made["url"].replace("?", "/content?")
    assert place.partition("//")[2].partition("/")[2].replace("&", "&amp;") in page.text
    picture = Image.open(io.BytesIO((await look(api, place)).content))
    assert (picture.format, picture.size) == ("JPEG", (400, 200))


async def test_the_page_shows_words_and_runs_nothing(api, service, nursery):
    nursery.start_soon(indexing.run, service)
    page = await shown(
        api, service, (await link(api, await api.upload("a.docx", sample_documents.docx("heron"))))["url"]
    )
    assert "<pre>heron</pre>" in page.text
    file = await api.upload("a.svg", b"<svg><script>alert(1)</script> & more</svg>")
    page = await shown(api, service, (await link(api, file))["url"])
    assert "&lt;script&gt;" in page.text and "<script" not in page.text
    await look(api, (await link(api, file))["url"].replace("?", "/content?"), 404)
    page = await look(api, (await link(api, await api.upload("empty.bin")))["url"])
    assert "0 bytes of a kind that cannot be shown" in page.text


async def test_what_cannot_be_shown_says_so(api, service, nursery, expect_log):
    expect_log("cannot make jpg_1024x1024 of content")
    nursery.start_soon(indexing.run, service)
    page = await shown(api, service, (await link(api, await api.upload("a.png", b"no picture")))["url"])
    assert "There is no preview" in page.text


async def test_embed_link_only_previews_one_file(api):
    file, other = await api.upload("a.txt", b"x"), await api.upload("b.txt", b"y")
    made = await link(api, file)
    token = made["access_token"]
    assert token in made["url"]
    # It is stored as a hash alone.
    assert token not in str([tuple(row) for row in api.store.read("SELECT * FROM token")])
    assert await api.status(token, path=f"/files/{file['id']}") == 200
    assert await api.status(token, path=f"/files/{file['id']}/content") == 403
    assert await api.status(token, path=f"/files/{other['id']}") == 404
    assert await api.status(token, "DELETE", f"/files/{file['id']}") == 403
    await look(api, made["url"].replace(file["id"], other["id"]), 404)
    await look(api, made["url"].replace(token, "wrong"), 404)
    # Nor is any other token taken from an address.
    whole = api.http.headers["authorization"].removeprefix("Bearer ")
    await look(api, made["url"].replace(token, whole), 404)


async def test_a_link_ends(api, monkeypatch):
    file = await api.upload("a.txt", b"x")
    first, second = await link(api, file), await link(api, file)
    assert first["url"] != second["url"]
    await look(api, first["url"])
    await api.store.write(
        lambda conn: conn.execute(
            "UPDATE token SET expires_at = ? WHERE bound = ? AND hash = ?",
            (1, int(file["id"]), callers.hashed(first["access_token"])),
        )
    )
    await look(api, first["url"], 404)
    await look(api, second["url"])
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await look(api, second["url"], 404)


async def test_embed_link_ends_with_its_token(api):
    file = await api.upload("a.txt", b"x")
    token = await api.narrowed("item_preview")
    made = await link(api, file, headers={"authorization": f"Bearer {token}"})
    await look(api, made["url"])
    form = {"client_id": "tests", "client_secret": "a secret of the tests", "token": token}
    assert (await api.http.post("http://service.test/oauth2/revoke", data=form)).status_code == 200
    await look(api, made["url"], 404)


async def test_embed_link_needs_preview_right(api, uwe):
    file = await api.upload("a.txt", b"x")
    token = await api.narrowed("base_explorer")
    assert await link(api, file, headers={"authorization": f"Bearer {token}"}) is None
    shared = await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": {}})
    header = {"boxapi": f"shared_link={shared['shared_link']['url']}"}
    # Who came by a shared link passes no more on than that shows.
    made = await link(uwe, file, headers=header)
    await look(uwe, made["url"])
    await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": None})
    await look(uwe, made["url"], 404)
