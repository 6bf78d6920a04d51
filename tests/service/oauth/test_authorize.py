"""The authorize page over HTTP, as a browser goes through it, and the codes that it gives."""

import base64
import hashlib
import hmac
import html
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import clients, passwords
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app
from tests.service.conftest import PASSWORD

HOST = "http://service.test"
BACK = "http://127.0.0.1:5555/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


class Browser:
    """Goes to the page and fills in its forms; keeps cookies, follows no redirection by itself."""

    def __init__(self, service):
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app.build(service)), base_url=HOST)
        self.page = None
        self.url = ""

    async def open(self, path="/api/oauth2/authorize", **query):
        query = {"response_type": "code", "client_id": "tests", "redirect_uri": BACK, "state": "s&1"} | query
        self.url = path + "?" + urlencode({name: value for name, value in query.items() if value is not None})
        return await self.show(await self.http.get(self.url))

    async def show(self, answer):
        """Take an answer; a redirection to the page itself is followed."""
        if answer.status_code == 303 and answer.headers["location"].startswith("/"):
            return await self.show(await self.http.get(answer.headers["location"]))
        self.page = answer
        return answer

    async def press(self, action, **fields):
        """Send the form of the page as it stands, with these fields filled in."""
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', self.page.text))
        form = hidden | fields | {"action": action}
        return await self.show(await self.http.post(self.url, data=form))

    async def log_in(self, login="uwe@example.com", password=PASSWORD):
        return await self.press("login", login=login, password=password)

    async def code(self, **query):
        await self.open(**query)
        await self.log_in()
        answer = await self.press("grant")
        assert answer.status_code == 303, answer.text
        return sent(answer)["code"]


def sent(answer, base=BACK):
    """What a redirection tells the application."""
    location = answer.headers["location"]
    assert location.startswith(base), location
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


@pytest.fixture
async def browser(service):
    one = Browser(service)
    yield one
    await one.http.aclose()


def code_form(code, **more):
    return {"grant_type": tokens.AUTHORIZATION_CODE, "code": code} | more


@pytest.mark.parametrize("path", ["/oauth2/authorize", "/api/oauth2/authorize"])
async def test_from_the_page_to_a_token(browser, uwe, path):
    page = await browser.open(path)
    assert page.status_code == 200
    assert "Tests &amp; Co" in page.text
    assert 'type="password"' in page.text
    page = await browser.log_in()
    assert page.status_code == 200
    assert "uwe@example.com" in page.text
    assert "Read, change and delete all files" in html.unescape(page.text)
    answer = await browser.press("grant")
    assert answer.status_code == 303
    back = sent(answer)
    assert back["state"] == "s&1"
    made = await uwe.oauth(code_form(back["code"], redirect_uri=BACK))
    assert made["refresh_token"]
    assert made["restricted_to"] == []
    headers = {"authorization": f"Bearer {made['access_token']}"}
    assert (await uwe.http.get("/users/me", headers=headers)).json()["login"] == "uwe@example.com"


async def test_the_form_of_our_own_model_is_taken(browser, uwe):
    grant = tokens.AuthorizationCode(
        client_id="tests",
        client_secret="a secret of the tests",
        code=await browser.code(**PKCE),
        redirect_uri=BACK,
        code_verifier=VERIFIER,
    )
    assert (await uwe.oauth(grant.form()))["access_token"]


async def test_the_page_is_safe_to_show(browser):
    await browser.open()
    cookie = browser.page.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    await browser.log_in()
    headers = browser.page.headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert policy.endswith("form-action 'self' http://127.0.0.1:5555")
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "<script" not in browser.page.text


async def test_denying_tells_the_application(browser):
    await browser.open()
    await browser.log_in()
    back = sent(await browser.press("deny"))
    assert (back["error"], back["state"]) == ("access_denied", "s&1")
    assert "code" not in back


async def test_terms_are_agreed_to_on_the_page(browser, api, uwe):
    text = "Be kind & <b>quiet</b>."
    wish = {"status": "enabled", "text": text, "tos_type": "managed"}
    await browser.open()
    await browser.log_in()
    assert "Terms of service" not in browser.page.text
    made = await api.ask("POST", "/terms_of_services", json=wish, expect=201)
    # The page was opened before there were any: it is shown again, with them.
    assert (await browser.press("grant")).status_code == 200
    assert html.escape(text) in browser.page.text
    await uwe.ask("GET", "/folders/0", expect=400)
    assert "code" in sent(await browser.press("grant"))
    await uwe.ask("GET", "/folders/0")
    listed = await uwe.ask("GET", f"/terms_of_service_user_statuses?tos_id={made['id']}")
    assert [one["is_accepted"] for one in listed["entries"]] == [True]
    await browser.open()
    assert "Terms of service" not in browser.page.text


async def test_a_wrong_password_is_told_and_gives_nothing(browser):
    await browser.open()
    for login, password in (("uwe@example.com", "wrong"), ("<b>nobody", PASSWORD), ("ann@example.com", "")):
        page = await browser.log_in(login, password)
        assert page.status_code == 401
        assert "do not go together" in page.text
        assert "<b>" not in page.text
    assert (await browser.press("grant")).status_code == 200  # the log-in again


async def test_somebody_else_may_log_in(browser):
    await browser.open()
    await browser.log_in()
    page = await browser.press("leave")
    assert 'type="password"' in page.text
    assert "Log in" in page.text


async def test_a_form_of_another_site_is_refused(browser, service):
    await browser.open()
    await browser.log_in()
    for fields in ({}, {"form_proof": ""}, {"form_proof": "0" * 64}, {"form_proof": "é"}):
        answer = await browser.http.post(browser.url, data=fields | {"action": "grant"})
        assert answer.status_code == 403
    # The proof of one browser is worth nothing in another one.
    other = Browser(service)
    await other.open()
    proof = re.search(r'name="form_proof" value="(\w+)"', other.page.text)[1]
    answer = await browser.http.post(browser.url, data={"form_proof": proof, "action": "grant"})
    assert answer.status_code == 403
    await other.http.aclose()


async def test_the_cookie_changes_at_the_log_in(browser):
    await browser.open()
    before = browser.http.cookies["cmsfs_login"]
    await browser.log_in()
    assert browser.http.cookies["cmsfs_login"] != before


async def test_a_log_in_ends(browser, service):
    await browser.open()
    await browser.log_in()
    await service.write(lambda conn: conn.execute("UPDATE login SET expires_at = 5"))
    page = await browser.press("grant")
    assert 'type="password"' in page.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_id": None}, "invalid_client"),
        ({"redirect_uri": None}, "redirect_uri_missing"),
        ({"redirect_uri": ""}, "redirect_uri_mismatch"),
        ({"redirect_uri": "https://evil.example/"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:80@evil.example/callback"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1.evil.example/callback"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:5555\\@evil.example/callback"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:5555/callback/../x"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:5555/callback#x"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://127.0.0.1:5555/callback?x=1"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "http://localhost:5555/callback"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "https://127.0.0.1:5555/callback"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "https://app.example.com:444/in?x=1"}, "redirect_uri_mismatch"),
        ({"redirect_uri": "https://app.example.com/in"}, "redirect_uri_mismatch"),
        ({"redirect_uri": BACK + "\r\nx: y"}, "redirect_uri_mismatch"),
    ],
)
async def test_what_is_not_safe_to_redirect_is_shown(browser, query, said):
    page = await browser.open(**query)
    assert page.status_code == 400
    assert "location" not in page.headers
    assert said in page.text
    assert (await browser.http.post(browser.url, data={})).status_code == 400


async def test_a_parameter_twice_is_shown(browser):
    await browser.open()
    page = await browser.http.get(browser.url + "&redirect_uri=" + BACK)
    assert page.status_code == 400


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"scope": "magic"}, "invalid_scope"),
        ({"scope": ""}, "invalid_scope"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
    ],
)
async def test_other_mistakes_are_told_to_the_application(browser, query, error):
    back = sent(await browser.open(**query))
    assert (back["error"], back["state"]) == (error, "s&1")


async def test_an_application_without_this_grant(browser, service):
    await service.write(lambda conn: conn.execute("UPDATE app SET grants = 'client_credentials'"))
    assert sent(await browser.open())["error"] == "unauthorized_client"


async def test_a_query_in_the_redirect_uri_stays(browser):
    await browser.open(redirect_uri="https://app.example.com/in?x=1", state=None)
    await browser.log_in()
    back = sent(await browser.press("grant"), "https://app.example.com/in?x=1&code=")
    assert back.keys() == {"x", "code"}


async def test_a_single_redirect_uri_need_not_be_said(browser, service):
    await service.write(
        lambda conn: conn.execute("""UPDATE app SET redirect_uris = '["https://a.example"]'""")
    )
    await browser.open(redirect_uri=None)
    await browser.log_in()
    assert sent(await browser.press("grant"), "https://a.example")["code"]


async def test_scopes_that_were_asked_for_bound_the_token(browser, uwe):
    page = await browser.open(scope="root_readonly")
    page = await browser.log_in()
    assert "Read all files" in page.text
    assert "Manage" not in page.text
    code = sent(await browser.press("grant"))["code"]
    made = await uwe.oauth(code_form(code))
    for token in (
        made,
        await uwe.oauth({"grant_type": "refresh_token", "refresh_token": made["refresh_token"]}),
    ):
        assert await uwe.status(token["access_token"], path="/folders/0") == 200
        assert await uwe.status(token["access_token"], "POST", "/folders", json={}) == 403


async def test_users_of_another_enterprise_are_turned_away(browser, service):
    def txn(conn):
        other = demo.add_enterprise(conn, "Other", now=1)
        user = demo.add_user(conn, other, "Out Sider", "out@example.com", now=1)
        passwords.store_hash(conn, user["id"], passwords.hashed("pw"))

    await service.write(txn)
    await browser.open()
    page = await browser.log_in("out@example.com", "pw")
    assert (page.status_code, "location" in page.headers) == (403, False)
    # Not by a form that the page does not show, either.
    proof = hmac.new(browser.http.cookies["cmsfs_login"].encode(), b"form", "sha256").hexdigest()
    answer = await browser.http.post(browser.url, data={"form_proof": proof, "action": "grant"})
    assert (answer.status_code, "location" in answer.headers) == (403, False)


async def test_code_reuse_revokes_its_tokens(browser, uwe):
    code = await browser.code()
    made = await uwe.oauth(code_form(code))
    assert await uwe.status(made["access_token"]) == 200
    assert await uwe.refused(code_form(code)) == "invalid_grant"
    assert await uwe.status(made["access_token"]) == 401
    refresh = {"grant_type": "refresh_token", "refresh_token": made["refresh_token"]}
    assert await uwe.refused(refresh) == "invalid_grant"


async def test_a_code_lives_30_seconds(browser, uwe, service):
    code = await browser.code()
    assert service.read("SELECT expires_at FROM code")[0]["expires_at"] - service.now() <= 30_000_000
    await service.write(lambda conn: conn.execute("UPDATE code SET expires_at = expires_at - 30000000"))
    assert await uwe.refused(code_form(code)) == "invalid_grant"


@pytest.mark.parametrize(
    "change",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": "v" * 42},
        {"code_verifier": CHALLENGE},
        {"code_verifier": ""},
        {},
    ],
)
async def test_with_pkce_only_who_began_can_redeem(browser, uwe, change):
    code = await browser.code(**PKCE)
    assert await uwe.refused(code_form(code, **change)) == "invalid_grant"
    # The attempt has used it up.
    assert await uwe.refused(code_form(code, code_verifier=VERIFIER)) == "invalid_grant"


async def test_pkce_cannot_be_left_out_on_the_way(browser, uwe):
    code = await browser.code()
    assert await uwe.refused(code_form(code, code_verifier=VERIFIER)) == "invalid_grant"


async def test_code_is_bound_to_redirect_uri_and_app(browser, uwe, service):
    code = await browser.code()
    assert await uwe.refused(code_form(code, redirect_uri="http://127.0.0.1:1/callback")) == "invalid_grant"
    code = await browser.code()
    row = service.read("SELECT * FROM app")[0]
    await service.write(
        lambda conn: clients.add(
            *(conn, "other", "secret"),
            name="o",
            enterprise=row["enterprise"],
            service_user=row["service_user"],
            grants="authorization_code",
        )
    )
    theirs = code_form(code, client_id="other", client_secret="secret")
    assert await uwe.refused(theirs) == "invalid_grant"
    assert await uwe.oauth(code_form(code))


async def test_an_inactive_user_gets_nothing(browser, uwe, service):
    code = await browser.code()
    await service.write(
        lambda conn: conn.execute("UPDATE account SET status = 'inactive' WHERE login LIKE 'uwe%'")
    )
    assert await uwe.refused(code_form(code)) == "invalid_grant"
    page = await browser.open()
    assert 'type="password"' in page.text
    assert (await browser.log_in()).status_code == 401


@pytest.mark.parametrize("body", [b"\xff", b"&" * 1000, b"a=" + b"x" * 100_000, b""])
async def test_hostile_forms(browser, body):
    await browser.open()
    answer = await browser.http.post(browser.url, content=body)
    assert answer.status_code in (400, 403, 413)
    answer = await browser.http.get(browser.url, headers={"cookie": b"cmsfs_login=" + b"\xff" * 5000})
    assert answer.status_code == 200


async def test_nothing_secret_is_stored_or_logged(browser, uwe, root, caplog):
    caplog.set_level("DEBUG")
    code = await browser.code()
    made = await uwe.oauth(code_form(code))
    stored = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    cookie = browser.http.cookies["cmsfs_login"]
    for secret in (code, made["access_token"], made["refresh_token"], PASSWORD, cookie):
        assert secret.encode() not in stored
        assert secret not in caplog.text
