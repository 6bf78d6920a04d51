"""The pages behind shared links, as a browser without a token gets them."""

import re
import time

import httpx
import pytest
import trio

from cmsfs.service.renditions import indexing
from cmsfs.service.server import app
from cmsfs.service.sharing import share_pages
from tests.support import sample_documents

HERE = "http://service.test"


@pytest.fixture
async def browser(service):
    transport = httpx.ASGITransport(app.build(service, HERE))
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        yield client


async def link(api, item, **terms):
    """The path of the link's page."""
    path = f"/{item['type']}s/{item['id']}?fields=shared_link"
    found = await api.ask("PUT", path, json={"shared_link": {"access": "open"} | terms})
    return found["shared_link"]["url"].removeprefix(HERE)


@pytest.fixture
async def file(api):
    return await api.upload("<b>notes.txt", b"words of <i>mine</i>")


async def test_a_file(api, browser, file):
    path = await link(api, file, unshared_at="2099-01-02T03:04:05Z")
    answer = await browser.get(path)
    assert answer.status_code == 200
    assert "script" not in answer.text and "<b>notes" not in answer.text
    for words in ("&lt;b&gt;notes.txt", "20 bytes", "Ann Admin", "2099-01-02 03:04"):
        assert words in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    got = await browser.get(re.search(r'href="([^"]+/download)"', answer.text)[1])
    assert got.content == b"words of <i>mine</i>"
    assert got.headers["content-disposition"].startswith("attachment")
    shown = (await api.ask("GET", f"/files/{file['id']}?fields=shared_link"))["shared_link"]
    assert (shown["download_count"], shown["preview_count"]) == (1, 1)


async def _made(service):
    with trio.fail_after(60):
        while True:
            written = service.written
            if not service.read("SELECT 1 FROM unindexed UNION ALL SELECT 1 FROM rendition WHERE state = 0"):
                return
            await written.wait()


async def test_previews(api, browser, file, service, nursery, monkeypatch):
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)
    picture = await api.upload("a.png", sample_documents.picture())
    paths = [await link(api, one) for one in (file, picture)]
    for path in paths:
        waiting = await browser.get(path)
        assert waiting.headers["refresh"] == "1" and "being made" in waiting.text
    await nursery.start(indexing.run, service)
    await _made(service)
    assert "words of &lt;i&gt;mine&lt;/i&gt;" in (await browser.get(paths[0])).text
    answer = await browser.get(paths[1])
    assert "refresh" not in answer.headers
    source = re.search(r'<img class="preview" src="([^"]+)"', answer.text)[1]
    got = await browser.get(source)
    assert (got.status_code, got.headers["content-type"]) == (200, "image/jpeg")
    assert "img-src 'self'" in answer.headers["content-security-policy"]


async def test_a_folder_and_what_is_below(api, browser, monkeypatch):
    monkeypatch.setattr(share_pages, "PAGE", 3)
    folder = await api.folder("ours")
    inner = await api.folder("inner", folder["id"])
    deep = await api.upload("deep.txt", b"deep", inner["id"])
    await api.link("site", folder["id"], url="https://example.com/x?a=1&b=2")
    for name in ("one", "two", "three"):
        await api.upload(f"{name}.txt", b"1", folder["id"])
    gone = await api.upload("gone.txt", b"1", folder["id"])
    await api.ask("DELETE", f"/files/{gone['id']}", expect=204)
    beside = await api.upload("beside.txt", b"1")
    path = await link(api, folder)

    def names(text):
        return re.findall(r'<td><a href="[^"]+">([^<]+)</a>', text)

    first = await browser.get(path)
    assert names(first.text) == ["inner", "one.txt", "three.txt"]
    last = (await browser.get(f"{path}?from=3")).text
    assert names(last) == ["two.txt", "site"]
    (site,) = re.findall(r'href="([^"]+)">site', last)
    assert "https://example.com/x?a=1&amp;b=2" in (await browser.get(site)).text
    shown = await browser.get(f"{path}/{inner['id']}")
    assert names(shown.text) == ["deep.txt"]
    assert f'href="{path}/{folder["id"]}" rel="up"' in shown.text
    assert (await browser.get(f"{path}/{deep['id']}/download")).content == b"deep"
    for other in (gone, beside, {"id": "0"}, {"id": "1"}, {"id": "9" * 18}):
        for more in ("", "/download", "/preview"):
            assert (await browser.get(f"{path}/{other['id']}{more}")).status_code == 404
    assert (await browser.get(f"{path}/{folder['id']}/download")).status_code == 404
    assert (await browser.get(f"{path}?from=x")).status_code == 200


async def test_a_password(api, browser, file):
    path = await link(api, file, password="open sesame")
    number = file["id"]

    async def is_shut():
        page = (await browser.get(path)).text
        closed = [
            (await browser.get(f"{path}/{number}/{one}")).status_code for one in ("download", "preview")
        ]
        assert ("notes" in page, "Password" in page) in ((False, True), (True, False))
        return "Password" in page and closed == [404, 404]

    assert await is_shut()
    wrong = await browser.post(path, data={"password": "wrong"})
    assert wrong.status_code == 403 and "not the password" in wrong.text
    assert (await browser.post(path, content=b"\xff")).status_code == 400
    assert await is_shut()
    right = await browser.post(path, data={"password": "open sesame"})
    assert (right.status_code, right.headers["location"]) == (303, path)
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and f"Path={path}" in cookie
    assert not await is_shut()
    assert (await browser.get(f"{path}/{number}/download")).status_code == 200
    # The cookie is good for this password of this link, and not for another.
    await link(api, file, password="another one")
    assert await is_shut()


async def test_guessing_a_password_takes_ever_longer(api, browser, file):
    path = await link(api, file, password="open sesame")
    answers = [(await browser.post(path, data={"password": f"guess {n}"})).status_code for n in range(12)]
    assert answers[0] == 403 and answers[-1] == 429


async def test_the_cookie_of_a_password_ends(api, browser, file, service, monkeypatch):
    path = await link(api, file, password="open sesame")
    await browser.post(path, data={"password": "open sesame"})
    assert "Password" not in (await browser.get(path)).text
    later = time.time_ns() // 1000 + 3601 * 1_000_000
    monkeypatch.setattr(service, "now", lambda: later)
    assert "Password" in (await browser.get(path)).text


async def test_what_is_not_open_or_over_shows_nothing(api, browser, file, service):
    nothing = (await browser.get("/s/nonsense")).text
    for terms in ({"access": "company"}, {"access": "collaborators"}):
        path = await link(api, file, **terms)
        assert ((await browser.get(path)).status_code, (await browser.get(path)).text) == (404, nothing)
        assert (await browser.post(path, data={"password": "x"})).status_code == 404
    path = await link(api, file)
    assert (await browser.get(path)).status_code == 200
    await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": None})
    assert (await browser.get(path)).text == nothing
    path = await link(api, file)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert (await browser.get(path)).text == nothing


async def test_a_link_that_lets_nobody_download(api, browser, file):
    path = await link(api, file, permissions={"can_download": False})
    assert "/download" not in (await browser.get(path)).text
    assert (await browser.get(f"{path}/{file['id']}/download")).status_code == 404
    path = await link(api, file, permissions={"can_download": True})
    lock = {"lock": {"access": "lock", "is_download_prevented": True}}
    await api.ask("PUT", f"/files/{file['id']}", json=lock)
    assert "/download" not in (await browser.get(path)).text
    assert (await browser.get(f"{path}/{file['id']}/download")).status_code == 404
