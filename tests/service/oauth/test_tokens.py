"""The token endpoint, and what a request without a good token gets."""

import base64
from urllib.parse import urlencode

import pytest

from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import access_tokens
from cmsfs.service.provisioning import demo

TOKEN = "http://service.test/oauth2/token"
REVOKE = "http://service.test/oauth2/revoke"
GOOD = {
    "grant_type": "client_credentials",
    "client_id": "tests",
    "client_secret": "a secret of the tests",
    "box_subject_type": "user",
}


@pytest.fixture
def good(api):
    return GOOD | {"box_subject_id": str(api.user)}


async def works(api, token):
    answer = await api.http.get("/users/me", headers={"authorization": f"Bearer {token}"})
    return answer.status_code == 200


@pytest.mark.parametrize("path", ["/oauth2/token", "/api/oauth2/token"])
async def test_a_token_works(api, good, path):
    answer = await api.http.post(f"http://service.test{path}", data=good)
    token = tokens.Token.model_validate(answer.json())
    assert (token.expires_in, token.token_type, token.restricted_to) == (3600, "bearer", [])
    assert answer.headers["cache-control"] == "no-store"
    assert await works(api, token.access_token.get_secret_value())
    assert token.access_token.get_secret_value() not in repr(token)


async def test_the_form_of_our_own_model_is_taken(api):
    grant = tokens.ClientCredentials(
        client_id="tests",
        client_secret="a secret of the tests",
        service_subject_type="user",
        subject_id=str(api.user),
    )
    assert (await api.http.post(TOKEN, data=grant.form())).status_code == 200


async def test_enterprise_token_acts_as_the_application(api, good, service):
    enterprise = str(service.read("SELECT id FROM enterprise")[0]["id"])
    wish = good | {"box_subject_type": "enterprise", "box_subject_id": enterprise}
    token = (await api.http.post(TOKEN, data=wish)).json()["access_token"]
    assert await works(api, token)


async def test_credentials_may_come_in_basic(api, good):
    secret = base64.b64encode(b"tests:a+secret+of%20the+tests").decode()
    form = {name: value for name, value in good.items() if not name.startswith("client_")}
    answer = await api.http.post(TOKEN, data=form, headers={"authorization": f"Basic {secret}"})
    assert answer.status_code == 200
    for bad in ("???", base64.b64encode(b"tests:no").decode(), base64.b64encode(b"\xff").decode()):
        answer = await api.http.post(TOKEN, data=form, headers={"authorization": f"Basic {bad}"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "magic"}, "invalid_request"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_secret": ""}, "invalid_client"),
        ({"client_secret": "\udcff".encode("utf-8", "surrogatepass")}, "invalid_client"),
        ({"box_subject_type": "planet"}, "invalid_request"),
        ({"box_subject_id": ""}, "invalid_request"),
        ({"box_subject_id": "999"}, "invalid_grant"),
        ({"box_subject_id": "x"}, "invalid_grant"),
        ({"box_subject_type": "enterprise"}, "invalid_grant"),
    ],
)
async def test_refusals_have_the_body_of_oauth(api, good, change, error):
    answer = await api.http.post(TOKEN, data=good | change)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error", "error_description"}
    assert answer.json()["error"] == error


@pytest.mark.parametrize("body", [b"\xff\xfe", b"{}", b"", b"&" * 1000, b"a=" + b"x" * 100_000])
async def test_bodies_that_are_no_form(api, body):
    assert (await api.http.post(TOKEN, content=body)).status_code in (400, 413)


async def test_a_revoked_token_is_dead(api, good):
    token = (await api.http.post(TOKEN, data=good)).json()["access_token"]
    form = {"client_id": "tests", "client_secret": "a secret of the tests", "token": token}
    bad = await api.http.post(REVOKE, data=form | {"client_secret": "x"})
    assert bad.json()["error"] == "invalid_client"
    answer = await api.http.post(REVOKE, data=form)
    assert (answer.status_code, answer.content) == (200, b"")
    assert not await works(api, token)
    assert (await api.http.post(REVOKE, data=form)).status_code == 200


@pytest.mark.parametrize(
    ("header", "described"),
    [
        (None, False),
        ("Basic abc", False),
        ("Bearer", False),
        ("Bearer nonsense", True),
        (b"Bearer \xff\xfe", True),
    ],
)
async def test_without_a_token_there_is_an_empty_401(api, header, described):
    del api.http.headers["authorization"]
    headers = {"authorization": header} if header else {}
    for path in ("/users/me", "/search?query=a", "/files/1/content"):
        answer = await api.http.get(path, headers=headers)
        assert (answer.status_code, answer.content) == (401, b"")
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith('Bearer realm="Service"')
        assert ('error="invalid_token"' in challenge) == described


async def test_an_expired_token_says_so(api, service):
    await service.write(lambda conn: conn.execute("UPDATE token SET expires_at = 5"))
    answer = await api.http.get("/users/me")
    assert answer.status_code == 401
    assert "expired_token" in answer.headers["www-authenticate"]


async def test_nothing_secret_is_stored(api, good, service, root):
    token = (await api.http.post(TOKEN, data=good)).json()["access_token"]
    stored = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert token.encode() not in stored
    assert b"a secret of the tests" not in stored


async def test_service_account_follows_scopes(api, uwe, service):
    made = await service.write(
        lambda conn: demo.add_user(conn, 1, "Automation", None, now=service.now())["id"]
    )

    async def token(*granted):
        def txn(conn):
            conn.execute("UPDATE app SET service_user = ?, scopes = ?", (made, " ".join(granted)))
            return access_tokens.access_token(conn, "tests", made, now=service.now())["access_token"]

        return await service.write(txn)

    paths = {
        "/users": "manage_managed_users",
        "/legal_hold_policies": "manage_legal_holds enterprise_content",
        "/retention_policies": "manage_data_retention enterprise_content",
        "/collaboration_whitelist_entries": "manage_enterprise_properties",
        "/events?stream_type=admin_logs": "root_readonly manage_enterprise_properties",
    }
    for path, needed in paths.items():
        assert await api.status(await token(*needed.split()), path=path) == 200, path
        assert await api.status(await token("root_readonly", "manage_webhook"), path=path) == 403, path
    word = await token("root_readwrite", "manage_managed_users")
    assert await api.status(word, headers={"as-user": str(uwe.user)}) == 200
    # It is no more than a co-administrator, and nothing without the application that it belongs to.
    assert await api.status(word, headers={"as-user": str(api.user)}) == 403
    assert await api.status(word, "PUT", f"/users/{api.user}", json={"name": "X"}) == 403
    await service.write(lambda conn: conn.execute("UPDATE app SET service_user = ?", (api.user,)))
    assert await api.status(word, path="/users") == 403
    # A user with a login of their own is what they are, also where an application works as them.
    await service.write(lambda conn: conn.execute("UPDATE app SET service_user = ?", (uwe.user,)))
    await uwe.ask("GET", "/users/me")
    await uwe.ask("GET", "/users", expect=403)


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "multipart/form-data"])
async def test_a_form_that_says_that_it_is_none(api, good, content_type):
    body = urlencode(good)
    for headers, expect in (({"content-type": content_type}, 400), ({}, 200)):
        answer = await api.http.post(TOKEN, content=body, headers=headers)
        assert answer.status_code == expect, answer.text
    assert answer.json()["access_token"]
