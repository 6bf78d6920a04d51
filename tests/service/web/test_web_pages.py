"""The people's pages over HTTP: who gets in, what a form and an upload do, what is never shown."""

import hashlib
import re
from collections.abc import AsyncIterator

import pytest

from cmsfs.models.content import upload_sessions
from cmsfs.service.oauth import passwords
from cmsfs.service.web import folders, items, trash
from tests.service.web.conftest import PASSWORD, PASSWORD_HASH, Visitor


@pytest.fixture
async def other(service) -> AsyncIterator[Visitor]:
    """Uwe's browser, not yet logged in."""
    await service.write(lambda conn: passwords.store_hash(conn, 2002, PASSWORD_HASH))
    one = Visitor(service)
    yield one
    await one.http.aclose()


async def test_a_page_of_people_is_theirs_alone(visitor, service, other):
    for path in ("", "/folders/0", "/items/file/1", "/trash", "/shared", "/search"):
        text = await visitor.open(path)
        policy = visitor.page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        nonce = re.search("script-src 'nonce-([^']+)'", policy)[1]
        # One script, of ours and by its nonce; none in the page.
        assert re.findall("<script[^>]*>(.*?)</script>", text) == [""]
        assert f'nonce="{nonce}"' in text
        assert not re.search(" style=| on[a-z]+=", text)
    for at in (visitor.at, "/web/at/" + "0" * 32, "/web"):
        answer = await other.http.get(f"{at}/folders/0")
        assert (answer.status_code, answer.headers["location"]) == (303, "/web/login?to=%2Ffolders%2F0")
    answer = await other.http.get("/web//evil.example.com/")
    assert answer.headers["location"] == "/web/login"
    await service.write(lambda conn: conn.execute("UPDATE account SET status = 'inactive' WHERE id = 2001"))
    assert "Log in" in await visitor.open("/folders/0")


async def test_the_log_in_leads_on_to_our_own_pages_alone(visitor, uwe, other):
    folder = await uwe.folder("Uwe's")
    assert "Uwe's" in await other.log_in("uwe@example.com", to=f"/folders/{folder['id']}")
    cookie = other.page.history[0].headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", f"path={other.at}"} <= {one.strip() for one in cookie.split(";")}
    await other.log_in("uwe@example.com", to="//evil.example.com")
    assert other.page.url == f"http://service.test{other.at}/folders/0"
    # What is another's is not there.
    assert "was not found" in await visitor.open(f"/folders/{folder['id']}")
    assert visitor.page.status_code == 404


async def test_an_upload_in_the_browser_needs_its_proof(visitor, api):
    await visitor.open("/folders/0")
    wish = {"name": "<b>bold<b>.txt", "parent": {"id": "0"}}
    for proof in ("", "0" * 64):
        refused = await visitor.send("/send/file", wish, b"one", **{"x-form-proof": proof})
        assert refused.status_code == 403
    assert (await api.ask("GET", "/folders/0/items"))["total_count"] == 0
    made = await visitor.send("/send/file", wish, b"one")
    assert made.status_code == 201
    wire_id = made.json()["entries"][0]["id"]
    clash = await visitor.send("/send/file", wish, b"two")
    assert (clash.status_code, clash.json()["code"]) == (409, "item_name_in_use")
    assert (await visitor.send(f"/send/versions/{wire_id}", {}, b"two")).status_code == 200
    assert await api.bytes(wire_id) == b"two"
    await visitor.open("/folders/0")
    assert "&lt;b&gt;bold&lt;b&gt;.txt" in visitor.page.text
    assert "<b>bold" not in visitor.page.text
    # Its bytes come as a download, whatever they are.
    await visitor.open(f"/items/file/{wire_id}/content")
    assert visitor.page.content == b"two"
    assert visitor.page.headers["content-disposition"].startswith("attachment")
    # A form without its proof does nothing either.
    bare = await visitor.http.post(f"{visitor.at}/folders/0", data={f"pick.file-{wire_id}": "on"})
    assert bare.status_code == 403


async def test_an_upload_in_parts_needs_its_proof_and_goes_on(visitor, api, small, other):
    await visitor.open("/folders/0")
    proof = re.findall(r'name="form_proof" value="(\w+)"', visitor.page.text)[0]

    async def ask(method, path, *, expect, proof=proof, visitor=visitor, **options):
        headers = {"x-form-proof": proof} | options.pop("headers", {})
        answer = await visitor.http.request(method, f"{visitor.at}/send{path}", headers=headers, **options)
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    wish = {"file_name": "film", "file_size": 1500, "folder_id": "0"}
    await ask("POST", "/sessions", json=wish, proof="0" * 64, expect=403)
    session = await ask("POST", "/sessions", json=wish, expect=201)
    assert session["part_size"] == 1000
    here, content = f"/sessions/{session['id']}", bytes(range(250)) * 6

    def headers(data, start=None):
        found = {"digest": upload_sessions.digest(hashlib.sha1(data, usedforsecurity=False).digest())}
        place = {} if start is None else {"content-range": f"bytes {start}-{start + len(data) - 1}/1500"}
        return found | place

    for start in (0, 1000):
        data = content[start : start + 1000]
        await ask("PUT", here, content=data, headers=headers(data, start), proof="x", expect=403)
        await ask("PUT", here, content=data, headers=headers(data, start), expect=200)
        again = await ask("PUT", here, content=data, headers=headers(data, start), expect=409)
        assert again["code"] == "range_overlaps_existing_part"
    parts = (await ask("GET", f"{here}/parts?limit=1&offset=1", expect=200))["entries"]
    assert [one["offset"] for one in parts] == [1000]
    # What one has begun, nobody else sees or ends.
    await other.log_in("uwe@example.com", PASSWORD)
    theirs = re.findall(r'name="form_proof" value="(\w+)"', other.page.text)[0]
    for method, path in (("GET", f"{here}/parts"), ("DELETE", here)):
        await ask(method, path, visitor=other, proof=theirs, expect=403)
    parts = (await ask("GET", f"{here}/parts", expect=200))["entries"]
    made = await ask("POST", f"{here}/commit", json={"parts": parts}, headers=headers(content), expect=201)
    file = made["entries"][0]
    assert await api.bytes(file["id"]) == content
    clash = await ask("POST", "/sessions", json=wish, expect=409)
    assert clash["code"] == "item_name_in_use"
    del wish["folder_id"]
    session = await ask("POST", f"/versions/{file['id']}/sessions", json=wish, expect=201)
    await ask("DELETE", f"/sessions/{session['id']}", expect=204)
    await ask("GET", f"/sessions/{session['id']}/parts", expect=404)


async def test_versions_come_in_pages(visitor, api, monkeypatch):
    monkeypatch.setattr(items, "PAGE", 2)
    file = await api.upload("often.txt", b"0")
    for number in range(1, 6):
        await api.version(file["id"], b"%d" % number)
    ids = [one["id"] for one in (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"]]
    page: str | None = f"/items/file/{file['id']}"
    seen: list[str] = []
    while page:
        text = await visitor.open(page)
        seen += re.findall("promote ([0-9]+)", text)
        following = re.search(r'href="[^"]+(/items/[^"]+versions=[0-9]+)"', text)
        page = following[1] if following else None
    assert seen == ids
    for wrong in ("x", "-1", "9" * 5000):
        assert f"promote {ids[0]}" in await visitor.open(f"/items/file/{file['id']}?versions={wrong}")


async def test_an_item_is_renamed_shared_and_brought_back_in_the_browser(visitor, api, other):
    file = await api.upload("plan.txt", b"first words")
    await api.version(file["id"], b"second")
    here = f"/items/file/{file['id']}"
    assert "plan.txt" in await visitor.open(here)
    old = (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"][0]["id"]
    await visitor.post(here, action=f"promote {old}")
    assert await api.bytes(file["id"]) == b"first words"
    await visitor.post(here, action="rename", name="plans.txt", description="all of them")
    assert "is among your favorites" in await visitor.post(here, action="favor")
    assert "plans.txt" in await visitor.open("/favorites")
    assert "plans.txt" in await visitor.open("/search?q=words")
    await visitor.open(here)
    text = await visitor.post(
        f"{here}/sharing", action="link", access="open", password="once", ends="2099-01-31"
    )
    link = re.search('value="(http://service.test/s/[^"]+)"', text)[1]
    assert "with a password, until 2099-01-31" in text
    assert "password" in (await visitor.http.get(link)).text
    text = await visitor.post(f"{here}/sharing", action="invite", login="uwe@example.com", role="viewer")
    assert "Uwe" in text
    assert "plans.txt" in await other.log_in("uwe@example.com", to="/shared")
    # A viewer is offered nothing that is not theirs to do, and cannot do it.
    assert 'value="rename"' not in await other.open(here)
    assert "not change it" in await other.post(here, action="rename", name="mine.txt")
    await visitor.post(f"{here}/sharing", action="unlink")
    assert (await visitor.http.get(link)).status_code == 404
    assert "in the trash" in await visitor.post(here, action="delete")
    await visitor.open("/trash")
    assert "is back" in await visitor.post("/trash", action="restore", **{f"pick.file-{file['id']}": "on"})
    assert (await api.ask("GET", f"/files/{file['id']}"))["name"] == "plans.txt"


async def test_several_items_at_once_and_a_large_folder_in_pages(visitor, api, monkeypatch):
    monkeypatch.setattr(folders, "PAGE", 2)
    monkeypatch.setattr(trash, "PAGE", 2)
    target = await api.folder("target")
    files = [await api.upload(f"f{at}.txt", b"x") for at in range(3)]
    ticked = {f"pick.file-{one['id']}": "on" for one in files}
    text, names = await visitor.open("/folders/0"), []
    while found := re.search('href="([^"]+)" rel="next"', text):
        names += re.findall(r">([\w.]+)</a></td>|>([\w.]+)</a>\s*</td>", text)
        text = await visitor.open(f"/folders/0{found[1]}")
    assert "f2.txt" in text
    assert "f0.txt" not in text
    text = await visitor.post("/folders/0", action="move", **ticked)
    assert "Move to All files" in text
    assert "It was moved" not in text
    await visitor.open(f"/to/move/{target['id']}?" + "&".join(f"item=file-{one['id']}" for one in files))
    assert "3 items were moved here" in await visitor.post(f"/to/move/{target['id']}", **ticked)
    text = await visitor.post(f"/folders/{target['id']}", action="download", **ticked)
    assert visitor.page.content[:4] == b"PK\x03\x04"
    await visitor.open("/folders/0")
    await api.upload("f0.txt", b"in the way")
    text = await visitor.post("/to/copy/0", **ticked)
    # What was refused is said by its name; the rest is done.
    assert "f0.txt: " in text
    assert (await api.ask("GET", "/folders/0/items"))["total_count"] == 4
    for form in ({}, {"action": "purge"}, {"pick.user-1": "on", "action": "delete"}):
        assert "Tick the files" in await visitor.post("/folders/0", **form)


async def test_terms_come_before_the_pages(service, other):
    def ask(conn):
        conn.execute(
            "INSERT INTO terms_of_service (enterprise, kind, status, text, created_at, modified_at)"
            " VALUES (1, 'managed', 'enabled', 'Be <i>kind</i>.', 0, 0)"
        )

    await service.write(ask)
    assert "Be <i>kind</i>." in await other.log_in("uwe@example.com")
    assert "<i>" not in other.page.text
    assert (await other.send("/send/file", {"name": "a", "parent": {"id": "0"}}, b"x")).status_code == 400
    (row,) = service.read("SELECT id FROM terms_of_service")
    assert "Nothing is in this folder" in await other.post("/terms", terms=str(row["id"]))
