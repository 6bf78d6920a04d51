"""JSON that is nested too deep, and numbers that are too large: refused wherever they come."""

import base64
import json
import logging
from urllib.parse import quote

import pytest

from cmsfs.models.content import metadata, uploads
from tests.service.conftest import SECRET, UPLOADS
from tests.service.search.test_linear_time import is_steep

DEPTH = 100_000
BAD = {
    "nested arrays": "[" * DEPTH + "]" * DEPTH,
    "nested objects": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "arrays without end": "[" * DEPTH,
    "an exponent": "1e400",
    "a small exponent": "-1e99999999999",
    "many digits": "9" * 5000,
    "many negative digits": "-" + "9" * 5000,
    "no number": "NaN",
}
# The service's numbers are the database's.
WIDE = {"more than the database has": str(2**63), "twenty digits": "9" * 20}

ID = "{id}"
BODIES = [
    ("POST", "/folders", "§"),
    ("POST", "/folders", '{"name": §, "parent": {"id": "0"}}'),
    ("POST", "/folders", '{"name": "n", "parent": {"id": §}}'),
    ("PUT", f"/files/{ID}", "§"),
    ("PUT", f"/files/{ID}", '{"description": [§]}'),
    ("PUT", f"/files/{ID}", '{"tags": [[§]]}'),
    ("PUT", f"/files/{ID}", '{"shared_link": {"unshared_at": §}}'),
    ("POST", "/users", '{"name": "n", "login": "n@example.com", "space_amount": §}'),
    ("POST", f"/files/{ID}/metadata/global/properties", "§"),
    ("POST", f"/files/{ID}/metadata/global/properties", '{"k": §}'),
    ("POST", f"/files/{ID}/metadata/enterprise/bridge", '{"length": §}'),
    ("PUT", f"/files/{ID}/metadata/enterprise/bridge", "§"),
    ("PUT", f"/files/{ID}/metadata/enterprise/bridge", '[{"op": "add", "path": "/length", "value": §}]'),
    ("PUT", f"/files/{ID}/metadata/enterprise/bridge", '[{"op": "test", "path": "/length", "value": §}]'),
    ("POST", "/metadata_templates/schema", "§"),
    ("POST", "/metadata_templates/schema", '{"scope": "enterprise", "displayName": "T", "fields": [§]}'),
    ("PUT", "/metadata_templates/enterprise/bridge/schema", '[{"op": "addField", "data": §}]'),
    ("POST", "/retention_policies", '{"policy_name": "p", "policy_type": "finite", "retention_length": §}'),
    ("POST", "/legal_hold_policies", "§"),
    ("POST", f"{UPLOADS}/files/upload_sessions", '{"folder_id": "0", "file_name": "n", "file_size": §}'),
    ("POST", f"{UPLOADS}/files/upload_sessions", '{"folder_id": §, "file_name": "n", "file_size": 30000000}'),
    ("OPTIONS", "/files/content", '{"name": "n", "parent": {"id": "0"}, "size": §}'),
]
QUERIES = [
    "/search?query=x&limit=§",
    "/search?query=x&offset=§",
    "/search?query=x&size_range=§,",
    "/search?query=x&owner_user_ids=§",
    "/search?query=x&mdfilters=§",
    '/search?mdfilters=[{"templateKey":"bridge","scope":"enterprise","filters":§}]',
    '/search?mdfilters=[{"templateKey":"bridge","scope":"enterprise","filters":{"length":§}}]',
    '/search?mdfilters=[{"templateKey":"bridge","scope":"enterprise","filters":{"length":{"gt":§}}}]',
    "/folders/0/items?limit=§",
    "/folders/0/items?offset=§",
    "/events?stream_position=§",
    "/users?limit=§",
]
TEMPLATE = {
    "scope": "enterprise",
    "templateKey": "bridge",
    "displayName": "Bridge",
    "fields": [{"type": "float", "key": "length", "displayName": "Length"}],
}


@pytest.fixture
async def file(api):
    """A file with an instance of a template whose field is a number."""
    await api.ask("POST", "/metadata_templates/schema", json=TEMPLATE, expect=201)
    made = await api.upload("a.txt", b"hello")
    await api.ask("POST", f"/files/{made['id']}/metadata/enterprise/bridge", json={"length": 1}, expect=201)
    return made["id"]


def _quiet(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR or one.exc_info] == []


@pytest.mark.parametrize("bad", [*BAD, *WIDE])
async def test_in_bodies(api, file, caplog, bad):
    for method, path, body in BODIES:
        sent = body.replace("§", (BAD | WIDE)[bad])
        answer = await api.http.request(
            method, path.replace(ID, file), content=sent, headers={"content-type": "application/json"}
        )
        # A whole number of twenty digits is a text, or a number with a fraction, where such are wanted.
        allowed = (400, 404) if bad in BAD else (400, 404, 403, 409, 200, 201)
        assert answer.status_code in allowed, (method, path, body, answer.status_code, answer.text[:200])
        assert len(answer.content) < 5000
    assert _quiet(caplog)


@pytest.mark.parametrize("bad", [*BAD, *WIDE])
async def test_in_queries(api, file, caplog, bad):
    for path in QUERIES:
        text = (BAD | WIDE)[bad][:20_000]
        answer = await api.http.get(quote(path.replace("§", text), safe="/?=&,"))
        # An owner whom nobody has owns nothing.
        allowed = (400, 200) if bad in WIDE or "owner" in path else (400,)
        assert answer.status_code in allowed, (path, answer.text[:200])
    assert _quiet(caplog)


@pytest.mark.parametrize("bad", [*BAD, *WIDE])
async def test_in_attributes_markers_and_headers(api, file, caplog, bad):
    text = (BAD | WIDE)[bad]
    for attributes in (text, f'{{"name": {text}, "parent": {{"id": "0"}}}}'):
        body, headers = api.form(attributes, b"x")
        answer = await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers)
        assert answer.status_code == 400 or (bad in WIDE and answer.status_code == 201)
    for inner in (text, f'["name", "ASC", {text}, "a", 1]', f'["name", "ASC", 1, "a", {text}]'):
        marker = base64.urlsafe_b64encode(inner[:40_000].encode()).decode().rstrip("=")
        answer = await api.http.get(f"/folders/0/items?usemarker=true&marker={marker}")
        assert answer.status_code == 400
    digits = text[:5000]
    for name, value in (
        *(("range", f"bytes={digits}-"), ("as-user", digits), ("x-rep-hints", f"[jpg?dimensions={digits}]")),
        *(("if-match", digits), ("boxapi", f"shared_link={digits}"), ("content-length", digits)),
    ):
        answer = await api.http.get(f"/files/{file}", headers={name: value})
        assert answer.status_code < 500, name
    narrowed = await api.narrowed("item_rename")
    assert await api.status(narrowed, "PUT", f"/files/{file}", content=text) in (400, 403)
    assert _quiet(caplog)


def _part(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize("bad", [*BAD, *WIDE])
async def test_in_assertions(api, caplog, bad):
    """An assertion is read before anybody has proved anything."""
    text = (BAD | WIDE)[bad][:20_000]
    claims = json.dumps({"iss": "tests", "sub": "1", "aud": "x", "jti": "j" * 20, "exp": "§"})
    good = '{"alg": "RS256", "kid": "k"}'
    for header, body in (
        *((text, claims), (f'{{"alg": {text}}}', claims), (f'{{"alg": "RS256", "kid": {text}}}', claims)),
        *((good, text), (good, claims.replace('"§"', text)), ('{"alg": "none"}', text)),
        ('{"alg": "none"}', claims.replace('"§"', text)),
        ('{"alg": "none"}', claims.replace('"§"', "1").replace('"tests"', text)),
    ):
        assertion = f"{_part(header)}.{_part(body)}.{_part('s')}"
        bearer = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
        exchange = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": api.http.headers["authorization"].removeprefix("Bearer "),
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "actor_token": assertion,
            "actor_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "scope": "item_preview",
        }
        subject = exchange | {
            "subject_token": assertion,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        }
        for form in (bearer, exchange, subject):
            secret = {"client_id": "tests", "client_secret": SECRET}
            answer = await api.http.post("http://service.test/oauth2/token", data=secret | form)
            assert answer.status_code == 400, (header[:50], body[:80], answer.text[:200])
    assert _quiet(caplog)


def _refused(read):
    def run(text):
        try:
            read(text)
        except (ValueError, RecursionError):
            pass

    return run


@pytest.mark.parametrize("piece", ["[", '{"a":', "[[]],", "9", "1e", '"\\u0000', "-"])
@pytest.mark.parametrize(
    "read",
    [
        _refused(json.loads),
        _refused(uploads.UploadAttributes.model_validate_json),
        _refused(metadata.Patch.validate_json),
    ],
    ids=["plain", "model", "patch"],
)
def test_reading_takes_time_in_proportion(read, piece):
    assert not is_steep(lambda size: read(piece * size), 200_000)
