"""Assertions: who signed them, for whom, until when, and only once."""

import base64
import json
import time
import uuid

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cmsfs import errors
from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import clients
from cmsfs.service.server import serve

PUBLIC = "https://api.box.com/oauth2/token"


def pem(key):
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


@pytest.fixture(scope="session")
def key():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
async def sign(api, service, key):
    """Makes an assertion for the administrator, with other claims and headers if wanted."""
    await service.write(lambda conn: clients.add_key(conn, "tests", "k1", pem(key.public_key())))

    def make(algorithm="RS256", kid="k1", by=key, **claims):
        claims = {
            "iss": "tests",
            "sub": str(api.user),
            "box_sub_type": "user",
            "aud": PUBLIC,
            "jti": uuid.uuid4().hex,
            "exp": int(time.time()) + 30,
        } | claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, by, algorithm=algorithm, headers={"kid": kid} if kid else {})

    return make


def form(assertion):
    return {"grant_type": tokens.JWT_BEARER, "assertion": assertion}


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512"])
async def test_an_assertion_gives_a_token(api, sign, algorithm):
    made = await api.oauth(form(sign(algorithm)))
    assert await api.status(made["access_token"]) == 200
    assert "refresh_token" not in made


async def test_an_assertion_for_the_enterprise(api, sign, service):
    enterprise = str(service.read("SELECT id FROM enterprise")[0]["id"])
    assert (await api.oauth(form(sign(sub=enterprise, box_sub_type="enterprise"))))["access_token"]


async def test_the_form_of_our_own_model_is_taken(api, sign):
    grant = tokens.JwtBearer(client_id="tests", client_secret="a secret of the tests", assertion=sign())
    assert (await api.oauth(grant.form()))["access_token"]


@pytest.mark.parametrize("url", ["http://service.test/oauth2/token", "http://service.test/api/oauth2/token"])
async def test_the_endpoints_own_urls_are_audiences(api, sign, url):
    assert (await api.oauth(form(sign(aud=url))))["access_token"]
    assert (await api.oauth(form(sign(aud=["x", url]))))["access_token"]


async def test_a_servers_own_address_is_an_audience(api, sign, service, nursery):
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    secret = {"client_id": "tests", "client_secret": "a secret of the tests"}
    async with httpx.AsyncClient() as client:
        for aud, status in ((f"{url}/oauth2/token", 200), ("http://service.test/oauth2/token", 400)):
            answer = await client.post(f"{url}/oauth2/token", data=secret | form(sign(aud=aud)))
            assert answer.status_code == status


async def test_the_host_of_a_request_is_no_audience(api, sign):
    data = form(sign(aud="http://evil.test/oauth2/token"))
    data |= {"client_id": "tests", "client_secret": "a secret of the tests"}
    answer = await api.http.post("http://evil.test/oauth2/token", data=data)
    assert answer.json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": lambda now: now - 1},
        {"exp": lambda now: now + 65},
        {"exp": float("inf")},
        {"exp": "soon"},
        {"nbf": lambda now: now + 30},
        {"aud": None},
        {"aud": ""},
        {"aud": "https://api.box.com/oauth2/token/"},
        {"aud": [["https://api.box.com/oauth2/token"]]},
        {"iss": None},
        {"iss": "other"},
        {"jti": None},
        {"jti": "x" * 15},
        {"jti": "x" * 129},
        {"jti": "\ud800" * 20},
        {"jti": "\n" * 20},
        {"sub": None},
        {"sub": ""},
        {"sub": "999"},
        {"box_sub_type": None},
        {"box_sub_type": "external"},
        {"box_sub_type": "enterprise"},
    ],
)
async def test_claims_that_are_refused(api, sign, claims):
    now = int(time.time())
    claims = {name: value(now) if callable(value) else value for name, value in claims.items()}
    assert await api.refused(form(sign(**claims))) == "invalid_grant"


@pytest.mark.parametrize("length", [16, 128])
async def test_the_lengths_that_a_jti_may_have(api, sign, length):
    assert await api.oauth(form(sign(jti="x" * length)))


async def test_an_assertion_is_taken_once(api, sign):
    assertion = sign()
    await api.oauth(form(assertion))
    assert await api.refused(form(assertion)) == "invalid_grant"
    jti = uuid.uuid4().hex
    await api.oauth(form(sign(jti=jti)))
    assert await api.refused(form(sign(jti=jti, exp=int(time.time()) + 59))) == "invalid_grant"


async def test_unused_assertion_may_be_repeated(api, sign):
    assertion = sign()
    bad = form(assertion) | {"client_secret": "x"}
    assert await api.refused(bad) == "invalid_client"
    await api.oauth(form(assertion))


async def test_signatures_that_are_refused(api, sign, key):
    other = rsa.generate_private_key(65537, 2048)
    good = sign()
    head, body, signature = good.split(".")
    changed = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps(changed | {"sub": "1"}).encode()).decode().rstrip("=")
    public = pem(key.public_key())
    none = jwt.encode({"iss": "tests"}, None, algorithm="none", headers={"kid": "k1"})
    unsigned = f"{none.split('.')[0]}.{body}."
    symmetric = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "k1"}).encode()).decode()
    signing = f"{symmetric}.{body}".encode()
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    forged = signing.decode() + "." + jwt.utils.base64url_encode(mac.sign(signing, public.encode())).decode()
    for assertion in (
        *(
            sign(by=other),
            sign(by=other, kid=None),
            sign(kid="k2"),
            sign("PS256"),
            unsigned,
            forged,
        ),
        *(f"{head}.{changed}.{signature}", f"{head}.{body}.", f"{head}.{body}", "..", "x", "é.é.é"),
        jwt.utils.base64url_encode(b"[" * 40_000).decode() + ".e30.",
        jwt.utils.base64url_encode(b'{"alg":"RS256","kid":"\\ud800"}').decode() + ".e30.",
    ):
        assert await api.refused(form(assertion)) == "invalid_grant", assertion[:80]
    await api.oauth(form(good))


async def test_assertion_without_key_id(api, sign, service, key):
    assert (await api.oauth(form(sign(kid=None))))["access_token"]
    other = rsa.generate_private_key(65537, 2048)
    await service.write(lambda conn: clients.add_key(conn, "tests", "k2", pem(other.public_key())))
    for by in (key, other):
        assert (await api.oauth(form(sign(kid=None, by=by))))["access_token"]
    # A claim that is wrong is no reason to try the next key, and twice the same key is no answer.
    assert await api.refused(form(sign(kid=None, exp=int(time.time()) - 5))) == "invalid_grant"
    await service.write(lambda conn: clients.add_key(conn, "tests", "k3", pem(key.public_key())))
    assert await api.refused(form(sign(kid=None))) == "invalid_grant"
    assert (await api.oauth(form(sign(kid="k3"))))["access_token"]


async def test_a_key_of_another_application_does_not_count(api, sign, service, key):
    def txn(conn):
        row = conn.execute("SELECT enterprise, service_user FROM app").fetchone()
        clients.add(
            *(conn, "other", "secret"),
            name="o",
            enterprise=row["enterprise"],
            service_user=row["service_user"],
            grants="jwt_bearer",
        )

    await service.write(txn)
    data = form(sign(iss="other")) | {"client_id": "other", "client_secret": "secret"}
    assert await api.refused(data) == "invalid_grant"
    await service.write(lambda conn: clients.add_key(conn, "other", "k1", pem(key.public_key())))
    assert await api.oauth(data)


async def test_an_application_that_may_not_is_told(api, sign, service):
    await service.write(lambda conn: conn.execute("UPDATE app SET grants = 'client_credentials'"))
    assert await api.refused(form(sign())) == "unauthorized_client"
    exchange = narrow(subject_token=sign())
    assert await api.refused(exchange) == "unauthorized_client"


@pytest.mark.parametrize("text", ["", "nonsense", "EC", "RSA 1024"])
async def test_keys_that_are_not_taken(service, text):
    if text == "EC":
        text = pem(ec.generate_private_key(ec.SECP256R1()).public_key())
    elif text:
        text = pem(rsa.generate_private_key(65537, 1024).public_key())
    with pytest.raises(errors.UserError):
        await service.write(lambda conn: clients.add_key(conn, "tests", "k", text))


def narrow(**changes):
    return {
        "grant_type": tokens.TOKEN_EXCHANGE,
        "subject_token_type": tokens.ACCESS_TOKEN_TYPE,
        "scope": "annotation_view_self item_preview",
    } | changes


async def test_an_assertion_can_be_narrowed_at_once(api, sign):
    assertion = sign()
    made = await api.oauth(narrow(subject_token=assertion))
    assert await api.status(made["access_token"]) == 200
    assert await api.status(made["access_token"], "DELETE", "/files/1") == 403
    assert await api.refused(narrow(subject_token=assertion)) == "invalid_grant"
    assert await api.refused(narrow(subject_token=sign(iss="nobody"))) == "invalid_grant"


async def test_an_annotator_token_names_who_acts(api, sign, service):
    whole = api.http.headers["authorization"].removeprefix("Bearer ")
    claims = {"sub": "guest-7", "name": "A Guest", "box_sub_type": "external"}
    for actor in (sign(**claims), sign("none", by=None, **claims)):
        wish = narrow(subject_token=whole, actor_token=actor, actor_token_type=tokens.ID_TOKEN_TYPE)
        made = await api.oauth(wish)
        assert await api.status(made["access_token"]) == 200
        row = service.read("SELECT actor FROM token WHERE actor IS NOT NULL ORDER BY created_at DESC")[0]
        assert json.loads(row["actor"]) == {"id": "guest-7", "name": "A Guest"}
        assert await api.refused(wish) == "invalid_grant"


async def test_what_an_actor_does_is_told_as_theirs(api, sign):
    whole = api.http.headers["authorization"].removeprefix("Bearer ")
    actor = sign("none", by=None, sub="guest-7", name="A Guest", box_sub_type="external")
    wish = narrow(subject_token=whole, actor_token=actor, actor_token_type=tokens.ID_TOKEN_TYPE)
    made = await api.oauth(wish | {"scope": "item_upload"})
    body = {"name": "by a guest", "parent": {"id": "0"}}
    assert await api.status(made["access_token"], "POST", "/folders", json=body) == 201
    await api.folder("by the user")
    guest, user = (await api.ask("GET", "/events"))["entries"]
    assert guest["created_by"] == user["created_by"]
    assert guest["additional_details"] == {"actor": {"type": "external", "id": "guest-7", "name": "A Guest"}}
    assert user["additional_details"] == {}


@pytest.mark.parametrize(
    "claims",
    [
        {"box_sub_type": "user"},
        {"iss": "other"},
        {"aud": "https://elsewhere.example"},
        {"exp": None},
        {"name": 5},
        {"name": "x" * 256},
        {"sub": "x" * 256},
    ],
)
async def test_actors_that_are_refused(api, sign, claims):
    whole = api.http.headers["authorization"].removeprefix("Bearer ")
    actor = sign("none", by=None, **({"box_sub_type": "external", "name": "A"} | claims))
    wish = narrow(subject_token=whole, actor_token=actor, actor_token_type=tokens.ID_TOKEN_TYPE)
    assert await api.refused(wish) == "invalid_grant"


async def test_an_unsigned_assertion_gives_no_token(api, sign):
    assertion = sign("none", by=None)
    assert await api.refused(form(assertion)) == "invalid_grant"
    assert await api.refused(narrow(subject_token=assertion)) == "invalid_grant"
