"""The administrators' pages over HTTP: who gets in, what a form does, what it costs with much to show."""

import base64
import re
from typing import get_args

import httpx
import pytest

from cmsfs.runtime import clock
from cmsfs.service.access import calls, scopes
from cmsfs.service.admin import overview, policies
from cmsfs.service.admin.people import users
from cmsfs.service.api import notices
from cmsfs.service.oauth import clients, passwords
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app
from cmsfs.service.storage.shared import attempt_limits
from tests.service.admin.conftest import HOST, PASSWORD_HASH, Person

PAGES = ["", "/users", "/groups", "/apps", "/holds", "/retention", "/templates", "/trash", "/events"]
PAGES += ["/webhooks", "/cascades", "/exemptions", "/collaborations", "/links", "/terms", "/invitations"]


@pytest.mark.parametrize("page", PAGES)
async def test_nobody_sees_a_page_without_logging_in(person, page):
    answer = await person.http.get(f"/admin{page}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login")


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_is_safe_to_show(admin, page):
    text = await admin.open(f"/admin{page}")
    assert admin.page.status_code == 200
    headers = admin.page.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "<script" not in text
    assert " style=" not in text  # the policy would not let it count


async def test_admin_cookie_is_same_site(admin, service):
    """Every port of a host gets a cookie, other users' too; a path that they cannot know does not."""
    cookie = admin.page.history[0].headers["set-cookie"]
    value, *terms = [part.strip() for part in cookie.lower().split(";")]
    assert {"httponly", "samesite=strict", f"path={admin.at}"} <= set(terms)
    assert "secure" not in cookie  # over plain HTTP a browser would not keep it
    assert re.fullmatch("/admin/at/[0-9a-f]{32}", admin.at)
    # Who has the cookie, by whatever way, finds no page with it unless he knows the address, too.
    thief = Person(service)
    thief.http.headers["cookie"] = value
    for path in ("/admin", "/admin/users", "/admin/at/" + "0" * 32, "/admin/at/" + "0" * 32 + "/users"):
        answer = await thief.http.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login"), path
    assert "Log in" in await thief.open("/admin/login")
    await thief.http.aclose()
    again = Person(service)
    await again.log_in()
    assert again.at != admin.at
    # The cookie of one log-in is none at the place of another.
    answer = await admin.http.get(again.at, headers={"cookie": value})
    assert answer.status_code == 303
    await again.http.aclose()


async def test_over_tls_the_cookies_names_say_so(service):
    person = Person(service)
    person.http.base_url = HOST.replace("http:", "https:")
    await service.write(lambda conn: passwords.store_hash(conn, 2001, PASSWORD_HASH))
    assert "Test Enterprise" in await person.log_in()
    cookie = person.page.history[0].headers["set-cookie"]
    assert cookie.startswith("__Secure-cmsfs_admin=") and "; Secure" in cookie
    await person.open(
        "/oauth2/authorize?response_type=code&client_id=tests&redirect_uri=http://127.0.0.1:1/callback"
    )
    assert person.page.headers["set-cookie"].startswith("__Host-cmsfs_login=")
    await person.http.aclose()


async def test_many_wrong_passwords_make_the_right_one_wait(person, service):
    now = 0.0
    service.attempts.clock = lambda: now
    for _ in range(attempt_limits.FREE_GUESSES):
        text = await person.log_in(password="wrong")
        assert person.page.status_code == 401
    assert "too many attempts" in text
    assert "too many attempts" in await person.log_in()
    assert "Test Enterprise" not in await person.open("/admin")
    now = 1.0
    assert "Test Enterprise" in await person.log_in()


async def test_who_was_an_administrator_is_out_at_once(admin):
    await admin.store.write(lambda conn: conn.execute("UPDATE account SET role = 'user' WHERE id = 2001"))
    assert "Log in" in await admin.open("/admin/users")
    await admin.store.write(
        lambda conn: conn.execute("UPDATE account SET role = 'admin', status = 'inactive' WHERE id = 2001")
    )
    assert "Log in" in await admin.open("/admin/users")


async def test_a_log_in_ends_by_itself(admin):
    await admin.store.write(lambda conn: conn.execute("UPDATE login SET expires_at = 0"))
    assert "Log in" in await admin.open("/admin")


async def test_new_password_ends_sessions(admin, service):
    other = Person(service)
    await other.log_in()
    assert "Test Enterprise" in await other.open("/admin")
    await admin.open("/admin/users")
    await admin.post("/admin/users/2001/password")
    fresh = admin.secrets()["Password"]
    assert "Log in" in await other.open("/admin")
    assert "Test Enterprise" in await admin.open("/admin")  # who asked for it sits here
    assert "Test Enterprise" in await other.log_in(password=fresh)
    assert (await other.log_in()).count("too many attempts") == 1
    await other.http.aclose()


async def test_a_form_without_its_proof_does_nothing(admin):
    await admin.open("/admin/users")
    for form in ({}, {"form_proof": ""}, {"form_proof": "é"}):
        answer = await admin.http.post(
            admin.address("/admin/users"), data=form | {"name": "X", "login": "x@example.com"}
        )
        assert answer.status_code == 403
    answer = await admin.http.post(admin.address("/admin/users"), content=b"\xff\xfe")
    assert answer.status_code == 403
    assert admin.rows("SELECT 1 FROM account WHERE login = 'x@example.com'") == []


async def test_admin_page_creates_user_like_the_api(admin, api):
    await admin.open("/admin/users")
    text = await admin.post("/admin/users", name="Nia New", login="nia@example.com", role="user")
    assert "Nia New is a user now." in text
    assert admin.secrets() == {}
    (row,) = admin.rows("SELECT * FROM account WHERE login = 'nia@example.com'")
    assert (await api.ask("GET", f"/users/{row['id']}"))["name"] == "Nia New"
    for form, said in (
        ({"name": "Nia New", "login": "nia@example.com"}, "exists already"),
        ({"name": "", "login": "x@example.com"}, "at least 1 character"),
        ({"name": "X", "login": "no address"}, "login"),
        ({"name": "X", "login": "x@example.com", "role": "admin"}, "role"),
        ({"name": "X", "login": "x@example.com", "space": "much"}, "whole number"),
    ):
        assert said in await admin.post("/admin/users", **form)
        assert admin.page.status_code == 400
    assert len(admin.rows("SELECT 1 FROM account")) == 3


async def test_page_shows_enterprise_search_permission(admin):
    def may():
        return admin.rows("SELECT enterprise_content FROM account WHERE id = 2002")[0][0]

    for word, expected in (("yes", 1), ("no", 0)):
        await admin.open("/admin/users")
        assert "now." in await admin.post("/admin/users/2002/search", may=word)
        assert may() == expected
    await admin.open("/admin/users")
    assert "was not found" in await admin.post("/admin/users/9/search", may="yes")


async def test_content_of_who_leaves_is_given_to_another(admin, api, uwe):
    file = await uwe.upload("f", b"1")
    login = {"login": "uwe@example.com"}
    await admin.open("/admin/users")
    said = await admin.post("/admin/users/leaving", action="transfer", to="ann@example.com", **login)
    assert "Files and Folders" in said
    assert (await api.ask("GET", f"/files/{file['id']}"))["owned_by"]["id"] == str(api.user)
    assert "have ended" in await admin.post("/admin/users/leaving", action="end", **login)
    await uwe.ask("GET", "/users/me", expect=401)
    for to in ("nobody@example.com", "uwe@example.com", ""):
        said = await admin.post("/admin/users/leaving", action="transfer", to=to, **login)
        assert "no user" in said or "already" in said


async def test_passwords_need_enterprise_users_with_login(admin):
    def others(conn):
        away = demo.add_enterprise(conn, "Elsewhere", now=0)
        stranger = demo.add_user(conn, away, "Stranger", "stranger@example.com", now=0)
        return stranger["id"], demo.add_user(conn, 1, "Robot", None, now=0)["id"]

    stranger, robot = await admin.store.write(others)
    assert "Stranger" not in await admin.open("/admin/users")
    for wire_id, said in ((stranger, "was not found"), (robot, "does not log in"), ("x", "was not found")):
        assert said in await admin.post(f"/admin/users/{wire_id}/password")
        assert admin.secrets() == {}
        await admin.open("/admin/users")


@pytest.mark.parametrize("path", ["/admin/apps", "/admin/apps/tests/secret", "/admin/users/2001/password"])
async def test_what_a_coadministrator_may_not(person, path):
    def txn(conn):
        conn.execute("UPDATE account SET role = 'coadmin' WHERE id = 2002")
        passwords.store_hash(conn, 2002, PASSWORD_HASH)

    await person.store.write(txn)
    assert "Test Enterprise" in await person.log_in("uwe@example.com")
    before = person.rows("SELECT secret_hash FROM app UNION ALL SELECT hash FROM password ORDER BY 1")
    form = {"name": "Mine", "grant.client_credentials": "yes", "scope.root_readwrite": "yes"}
    assert "dministrator" in await person.post(path, **form)
    assert person.secrets() == {}
    after = person.rows("SELECT secret_hash FROM app UNION ALL SELECT hash FROM password ORDER BY 1")
    assert [tuple(row) for row in before] == [tuple(row) for row in after]


async def test_an_application_and_its_secret(admin, api):
    await admin.open("/admin/apps")
    form = {"name": "Pump", "grant.client_credentials": "yes", "scope.root_readonly": "yes"}
    await admin.post("/admin/apps", **form)
    shown = admin.secrets()
    (row,) = admin.rows("SELECT * FROM app WHERE client_id = ?", shown["Client ID"])
    assert row["secret_hash"] == calls.hashed(shown["Client secret"])
    assert (row["scopes"], row["grants"]) == ("root_readonly", "client_credentials")
    await admin.open("/admin/apps")
    assert shown["Client secret"] not in admin.page.text
    grant = {"grant_type": "client_credentials", "box_subject_type": "enterprise", "box_subject_id": "1"}
    grant |= {"client_id": shown["Client ID"], "client_secret": shown["Client secret"]}
    token = (await api.oauth(grant))["access_token"]
    assert await api.status(token) == 200
    assert await api.status(token, "POST", "/folders", json={"name": "x", "parent": {"id": "0"}}) == 403
    for wrong, said in (
        ({"name": ""}, "name"),
        ({"grant.client_credentials": ""} | {"grant.password": "yes"}, "grants"),
        ({"scope.everything": "yes"}, "scopes"),
        ({"grant.authorization_code": "yes"}, "redirect_uris are needed"),
        ({"redirect_uris": "javascript:alert(1)"}, "can be sent to"),
        ({"redirect_uris": "http://a.example.com/#x"}, "can be sent to"),
        ({"redirect_uris": "/in"}, "whole address"),
        ({"public_key": "no key"}, "PEM"),
    ):
        assert said in await admin.post("/admin/apps", **(form | wrong)), wrong
        assert admin.page.status_code == 400
    assert len(admin.rows("SELECT 1 FROM app")) == 2


def test_what_can_be_registered_is_what_there_is():
    from cmsfs.models.enterprise import apps

    assert set(get_args(apps.Scope)) == set(scopes.APPLICATION)
    assert set(get_args(apps.Grant)) == set(clients.GRANTS)


async def test_a_hold_holds(admin, api):
    file = await api.upload("evidence.txt", b"text")
    await admin.open("/admin/holds")
    form = {"name": "The matter", "target": "file", "target_id": file["id"]}
    assert "is in force" in await admin.post("/admin/holds", **form)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    refused = await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)
    assert refused["code"] == "forbidden_by_policy"
    text = await admin.post("/admin/holds", name="Another", target="file", target_id="12345")
    assert "The hold Another is there, but not assigned" in text
    text = await admin.post("/admin/holds", name="A third", first="2026-02-01", last="2026-01-01")
    assert "is after" in text
    assert "needs the first and the last day" in await admin.post("/admin/holds", name="x", first="soon")
    assert len(admin.rows("SELECT 1 FROM legal_hold_policy")) == 2


async def test_a_template_is_one_of_the_api(admin, api):
    await admin.open("/admin/templates")
    form = {"name": "Purchase order", "field.1": "Order number", "type.1": "string", "copies": "yes"}
    form |= {"field.2": "State", "type.2": "multiSelect", "options.2": "open, paid ,"}
    form |= {"field.3": "2nd date", "type.3": "date"}
    assert "purchaseOrder" in await admin.post("/admin/templates", **form)
    made = await api.ask("GET", "/metadata_templates/enterprise/purchaseOrder/schema")
    assert [one["key"] for one in made["fields"]] == ["orderNumber", "state", "field2ndDate"]
    assert [one["key"] for one in made["fields"][1]["options"]] == ["open", "paid"]
    assert made["copyInstanceOnItemCopy"] is True
    assert "has this template" in await admin.post("/admin/templates", **form)
    assert "keys of fields must differ" in await admin.post(
        "/admin/templates", **(form | {"field.3": "state", "key": "other"})
    )
    assert f'name="field.{policies.FIELDS}"' in admin.page.text


async def test_pages_of_users(admin, monkeypatch):
    monkeypatch.setattr(users, "PAGE", 2)
    await admin.store.write(
        lambda conn: [demo.add_user(conn, 1, f"U {at}", f"u{at}@example.com", now=0)["id"] for at in range(3)]
    )
    seen = await walk(admin, "/admin/users", r"([\w]+)@example\.com</td>")
    assert seen == ["ann", "uwe", "u0", "u1", "u2"]
    assert "u1@example.com" not in await admin.open("/admin/users?filter_term=u2")
    assert "is not a marker" in await admin.open("/admin/users?marker=x")


async def test_pages_of_the_trash_and_of_events(admin, api, uwe, monkeypatch):
    monkeypatch.setattr(overview, "PAGE", 2)
    for caller in (uwe, api):
        for at in range(3):
            file = await caller.upload(f"file-{caller.user}-{at}")
            await caller.ask("DELETE", f"/files/{file['id']}", expect=204)
    names = [f"file-{caller.user}-{at}" for caller in (api, uwe) for at in range(3)]
    assert await walk(admin, "/admin/trash", r"<td>(file-\d+-\d) ") == names
    assert "file-2001-0" in await admin.open("/admin/trash?marker=nonsense-1-2")
    told = await walk(admin, "/admin/events", r"<td>delete</td><td>(file-\d+-\d)</td>")
    assert told == [f"file-{caller.user}-{at}" for caller in (api, uwe) for at in (2, 1, 0)]


async def walk(admin, path, pattern):
    """What the pages show, one after the other."""
    seen = []
    text = await admin.open(path)
    while True:
        seen += re.findall(pattern, text)
        found = re.search(r'href="(\?[^"]+)" rel="next"', text)
        if not found:
            return seen
        text = await admin.open(path + found[1])


async def test_counting_ends_at_the_cap(admin, api, monkeypatch):
    monkeypatch.setattr(overview, "CAP", 2)
    for at in range(4):
        await api.folder(f"f{at}")
    assert "more than 2" in await admin.open("/admin")


async def test_another_enterprise_is_not_looked_into(admin, uwe):
    def move(conn):
        away = demo.add_enterprise(conn, "Elsewhere", now=0)
        conn.execute("UPDATE account SET enterprise = ? WHERE id = 2002", (away,))

    await admin.store.write(move)
    file = await uwe.upload("theirs.txt")
    await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)
    await uwe.upload("kept.txt")
    for page in ("", "/users", "/trash", "/events"):
        text = await admin.open(f"/admin{page}")
        assert "theirs.txt" not in text
        assert "kept.txt" not in text
        assert "uwe@example.com" not in text


def test_flash_message_is_for_its_login_and_for_a_moment(monkeypatch):
    message = notices.FlashMessage("done \u20ac", {"Password": "the secret"}, failed=True)
    sealed = notices.seal(message, "a login")
    assert "secret" not in str(base64.urlsafe_b64decode(sealed))
    assert notices.unseal(sealed, "a login") == message
    for other, secret in (
        (sealed, "another"),
        (sealed[:-3], "a login"),
        ("", "a login"),
        ("\u20ac", "a login"),
    ):
        assert notices.unseal(other, secret) is None
    now = clock.time()
    monkeypatch.setattr(clock, "time", lambda: now + notices.LIFETIME_SECONDS + 2)
    assert notices.unseal(sealed, "a login") is None
    # A browser keeps it, however long the text is.
    long = notices.FlashMessage("\u20ac" * 5000, {"Client ID": "x" * 32, "Client secret": "y" * 43})
    sealed = notices.seal(long, "a login")
    assert len(sealed) < 3900
    assert notices.unseal(sealed, "a login").secrets == long.secrets


async def test_secret_is_shown_once_whichever_process_answers(admin, service):
    """The answer to a form and the page after it come from two processes."""
    transports = [httpx.ASGITransport(app.build(service)) for _ in range(2)]

    class Front(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            transports.reverse()
            return await transports[0].handle_async_request(request)

    admin.http._transport = Front()
    await admin.open("/admin/users")
    await admin.post("/admin/users", name="Dora", login="dora@example.com", password="yes")
    assert admin.secrets()["Login"] == "dora@example.com"
    assert await passwords.check(service, "dora@example.com", admin.secrets()["Password"], who="") is not None
    await admin.open("/admin/users")
    assert admin.secrets() == {}
