"""The token endpoint: access tokens for client credentials, and their revocation.

Both spellings of the subject are taken, the specification's and the public API's, and the client's
credentials in the form or in HTTP Basic.  Refusals have the OAuth body, not the API's.

Rule: of tokens and secrets only hashes are stored, and neither is ever logged.
"""

import base64
import binascii
import hmac
import secrets
from sqlite3 import Connection, Row
from urllib.parse import parse_qs, unquote_plus

from starlette import requests, responses, routing

from cmsfs.models import names, tokens
from cmsfs.service import access, problems
from cmsfs.service.store import Store

LIFETIME_SECONDS = 3600
# A dead token is remembered for a day, so that its bearer is told that it expired.
REMEMBER_MICROS = 24 * 3600 * 1_000_000

MAX_FORM = 64 * 1024

_GRANTS = (
    *(tokens.AUTHORIZATION_CODE, tokens.REFRESH_TOKEN, tokens.CLIENT_CREDENTIALS),
    *(tokens.JWT_BEARER, tokens.TOKEN_EXCHANGE),
)


async def token(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    form = await _form(request)
    grant = form.get("grant_type", "")
    if grant not in _GRANTS:
        raise problems.OAuthRefused("invalid_request", "Invalid grant_type parameter or parameter missing")
    if grant != tokens.CLIENT_CREDENTIALS:
        raise problems.OAuthRefused("unsupported_grant_type", "This service issues no tokens by this grant")
    app = _client(store, request, form)
    user = _subject(store, app, form)
    secret = secrets.token_urlsafe(24)

    def txn(conn: Connection) -> None:
        now = store.now()
        conn.execute("DELETE FROM token WHERE expires_at < ?", (now - REMEMBER_MICROS,))
        conn.execute(
            "INSERT INTO token (hash, app, user, created_at, expires_at) VALUES (?, ?, ?, ?, ?)",
            (access.hashed(secret), app["client_id"], user, now, now + LIFETIME_SECONDS * 1_000_000),
        )

    await store.write(txn)
    body = {
        "access_token": secret,
        "expires_in": LIFETIME_SECONDS,
        "restricted_to": [],
        "token_type": "bearer",
    }
    return access.answer(body, headers={"Cache-Control": "no-store"})


async def revoke(request: requests.Request) -> responses.Response:
    """End a token; one that is unknown or dead already is ended as well."""
    store: Store = request.app.store
    form = await _form(request)
    app = _client(store, request, form)
    if not form.get("token"):
        raise problems.OAuthRefused("invalid_request", "Parameter token is missing")
    hashed = access.hashed(form["token"])
    await store.write(
        lambda conn: conn.execute("DELETE FROM token WHERE hash = ? AND app = ?", (hashed, app["client_id"]))
    )
    return responses.Response(status_code=200)


async def _form(request: requests.Request) -> dict[str, str]:
    body = await access.read_body(request, MAX_FORM)
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError:
        raise problems.OAuthRefused("invalid_request", "The body is no form") from None
    return {name: values[0] for name, values in found.items()}


def _client(store: Store, request: requests.Request, form: dict[str, str]) -> Row:
    client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
        except (ValueError, binascii.Error):
            raise problems.OAuthRefused("invalid_client", "The client credentials are invalid") from None
        client_id, _, secret = (unquote_plus(part) for part in text.partition(":"))
    found = store.read("SELECT * FROM app WHERE client_id = ?", client_id)
    expected = found[0]["secret_hash"] if found else access.hashed(secrets.token_hex(8))
    if not hmac.compare_digest(expected, access.hashed(secret)) or not found:
        raise problems.OAuthRefused("invalid_client", "The client credentials are invalid")
    return found[0]


def _subject(store: Store, app: Row, form: dict[str, str]) -> int:
    """The user for whom the token is to speak."""
    kind = next((form[name] for name in names.SUBJECT_TYPE if name in form), "")
    wire_id = next((form[name] for name in names.SUBJECT_ID if name in form), "")
    if kind not in ("enterprise", "user") or not wire_id:
        raise problems.OAuthRefused("invalid_request", "The subject's type or id is missing")
    number = access.parse_id(wire_id)
    if kind == "enterprise" and number == app["enterprise"]:
        return int(app["service_user"])
    if kind == "user":
        found = store.read(
            "SELECT id FROM user WHERE id = ? AND enterprise = ? AND status != 'inactive'",
            *(number, app["enterprise"]),
        )
        if found:
            return int(found[0]["id"])
    raise problems.OAuthRefused("invalid_grant", "Grant credentials are invalid")


routes = [
    routing.Route("/oauth2/token", token, methods=["POST"]),
    routing.Route("/oauth2/revoke", revoke, methods=["POST"]),
]
