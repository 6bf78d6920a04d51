"""The token endpoint: dispatches the six grants to their modules, and revokes tokens.

The subject of client credentials is accepted in both spellings, the specification's and the public API's.
Errors have the OAuth body, not the API's.

Rule: only hashes of tokens, codes and secrets are stored, and none is ever logged.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from starlette import requests, responses

from cmsfs.models import wire_names
from cmsfs.models.enterprise import tokens
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.oauth import (
    access_tokens,
    assertions,
    clients,
    codes,
    exchange,
    link_visits,
    refresh_tokens,
)

MAX_FORM = 64 * 1024
# A folder's page has a checkbox for each of its items.
MAX_FORM_FIELDS = 300

# The audience that official clients write into assertions, wherever they send them.
PUBLIC_URL = "https://api.box.com/oauth2/token"


async def credentials(token_request: clients.TokenRequest) -> dict[str, Any]:
    """Handle the client_credentials grant."""
    app = token_request.authenticate("client_credentials")
    kind = next(
        (token_request.form[name] for name in wire_names.SUBJECT_TYPE if name in token_request.form), ""
    )
    wire_id = next(
        (token_request.form[name] for name in wire_names.SUBJECT_ID if name in token_request.form), ""
    )
    if kind not in ("enterprise", "user") or not wire_id:
        raise problems.OAuthRefused("invalid_request", "The subject's type or id is missing")
    user = assertions.subject(token_request.store, app, kind, wire_id)
    return await token_request.store.write(
        lambda conn: access_tokens.access_token(conn, app["client_id"], user, now=token_request.store.now())
    )


_GRANTS: dict[str, Callable[[clients.TokenRequest], Awaitable[dict[str, Any]]]] = {
    tokens.CLIENT_CREDENTIALS: credentials,
    tokens.AUTHORIZATION_CODE: codes.redeem,
    tokens.REFRESH_TOKEN: refresh_tokens.refresh,
    tokens.JWT_BEARER: assertions.bearer,
    tokens.TOKEN_EXCHANGE: exchange.exchange,
    tokens.SHARED_LINK: link_visits.visit,
}


async def token(request: requests.Request) -> responses.Response:
    token_request = await _parse_request(request)
    grant = _GRANTS.get(token_request.form.get("grant_type", ""))
    if grant is None:
        raise problems.OAuthRefused("invalid_request", "Invalid grant_type parameter or parameter missing")
    return calls.answer(await grant(token_request), headers={"Cache-Control": "no-store"})


async def revoke(request: requests.Request) -> responses.Response:
    token_request = await _parse_request(request)
    app = token_request.authenticate()
    secret = token_request.required("token")
    await token_request.store.write(lambda conn: access_tokens.revoke(conn, app["client_id"], secret))
    return responses.Response(status_code=200)


async def _parse_request(request: requests.Request) -> clients.TokenRequest:
    authorization = request.headers.get("authorization", "")
    form = await read_form(request)
    who = request.app.address(request.scope)
    token_request = clients.TokenRequest(
        request.app.store, form, authorization, request.app.token_urls, who, request.url.netloc
    )
    try:
        request.app.admit_application(request, token_request.client_id)
    except problems.Refused as refused:
        raise problems.OAuthRefused(
            "rate_limit_exceeded", refused.message, status=429, headers=refused.headers
        ) from None
    return token_request


async def read_form(request: requests.Request) -> dict[str, str]:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("", "application/x-www-form-urlencoded"):
        raise problems.OAuthRefused("invalid_request", "The body is no form")
    body = await calls.read_body(request, MAX_FORM)
    try:
        found = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS, errors="strict"
        )
    except ValueError:
        raise problems.OAuthRefused("invalid_request", "The body is no form") from None
    return {name: values[0] for name, values in found.items()}


_ANY_GRANT = (
    tokens.AuthorizationCode
    | tokens.RefreshToken
    | tokens.ClientCredentials
    | tokens.JwtBearer
    | tokens.TokenExchange
    | tokens.LinkVisit
)

routes = [
    Operation(
        "POST /oauth2/token",
        token,
        "Request access token",
        tokens.Token,
        body=operations.Form(_ANY_GRANT),
        errors=(400, 401, 429),
        public=True,
        problem=tokens.OAuthProblem,
    ),
    Operation(
        "POST /oauth2/revoke",
        revoke,
        "Revoke a token",
        body=operations.Form(tokens.Revocation),
        errors=(400, 401, 429),
        public=True,
        problem=tokens.OAuthProblem,
        more="Revokes a token and its family; one that is unknown or expired is answered alike.",
    ),
]
