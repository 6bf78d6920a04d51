"""JWT assertions of applications: for the jwt-bearer grant and for token exchange.

An assertion is signed with RS256, RS384 or RS512 by a key of the application: the one that its header names
by `kid` or, as some clients of the public API send none, the one that verifies it.  Its audience is this
token endpoint, it expires within a minute, and it is accepted once.

Rule: an assertion is marked as used in the same transaction that issues its token.
"""

from sqlite3 import Connection
from typing import Any

import jwt

from cmsfs.runtime import clock
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.oauth import access_tokens, clients
from cmsfs.service.storage.store import Store

ALGORITHMS = ("RS256", "RS384", "RS512")
MAX_SECONDS = 60
_MIN_ID, _MAX_ID = 16, 128

# What the parser raises for hostile input (a million brackets, an infinite date).
_BROKEN = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)

Claims = dict[str, Any]


async def bearer(token_request: clients.TokenRequest) -> dict[str, Any]:
    """Handle the jwt-bearer grant."""
    app = token_request.authenticate("jwt_bearer")
    claims = verify(token_request, token_request.required("assertion"), app["client_id"])
    user = subject(token_request.store, app, str(claims.get("box_sub_type", "")), claims["sub"])

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = token_request.store.now()
        if not mark_used(conn, claims, now=now):
            return None
        return access_tokens.access_token(conn, app["client_id"], user, now=now)

    return require_unused(await token_request.store.write(txn))


def verify(
    token_request: clients.TokenRequest, assertion: str, client_id: str, *, unsigned: bool = False
) -> Claims:
    """Return the claims of an application's assertion.  `unsigned` also accepts one without a signature."""
    try:
        header = jwt.get_unverified_header(assertion)
        if unsigned and header.get("alg") == "none":
            claims = jwt.decode(assertion, options={"verify_signature": False})
        else:
            claims = _verified(assertion, _keys(token_request.store, client_id, header))
        _check_claims(token_request, claims, client_id)
    except _BROKEN as error:
        # Our text or the library's; neither contains the assertion.
        message = str(error) if isinstance(error, jwt.PyJWTError) else "it cannot be read"
        raise problems.OAuthRefused("invalid_grant", f"The assertion is refused: {message}") from None
    return claims


def issuer(assertion: str) -> str:
    """Return the issuer that an assertion claims; unverified."""
    try:
        return str(jwt.decode(assertion, options={"verify_signature": False}).get("iss", ""))
    except _BROKEN:
        return ""


def _keys(store: Store, client_id: str, header: dict[str, Any]) -> list[str]:
    """Return the keys that may have signed an assertion: the one it names, or all of the application's."""
    if "kid" not in header:
        found = store.read("SELECT pem FROM app_key WHERE app = ?", client_id)
    else:
        kid = header["kid"] if isinstance(header["kid"], str) else ""
        found = store.read("SELECT pem FROM app_key WHERE app = ? AND kid = ?", client_id, kid)
    if not found:
        raise jwt.InvalidKeyError("kid names no key of this application")
    return [row["pem"] for row in found]


def _verified(assertion: str, keys: list[str]) -> Claims:
    """Return the claims if exactly one of the keys verifies them."""
    found, failed = [], None
    for key in keys:
        try:
            claims: Claims = jwt.decode(
                assertion,
                key,
                algorithms=list(ALGORITHMS),
                options={"verify_aud": False, "verify_iat": False},
            )
            found.append(claims)
        except jwt.InvalidSignatureError as error:
            failed = error
    if not found and failed is not None:
        raise failed
    if len(found) != 1:
        raise jwt.InvalidKeyError("several keys of this application are the same: kid must name one")
    return found[0]


def _check_claims(token_request: clients.TokenRequest, claims: Claims, client_id: str) -> None:
    ends, now = int(claims["exp"]) if "exp" in claims else 0, clock.time()
    if not now < ends <= now + MAX_SECONDS:
        raise jwt.InvalidTokenError(f"exp must be in the future, at most {MAX_SECONDS} seconds")
    wanted = claims.get("aud")
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(wanted, list) or not any(one in token_request.audiences for one in map(str, wanted)):
        raise jwt.InvalidTokenError("aud must be the URL of this token endpoint")
    if claims.get("iss") != client_id:
        raise jwt.InvalidTokenError("iss must be the application's client id")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not _MIN_ID <= len(jti) <= _MAX_ID or not jti.isprintable():
        raise jwt.InvalidTokenError(f"jti must have {_MIN_ID} to {_MAX_ID} characters")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise jwt.InvalidTokenError("sub is missing")


def mark_used(conn: Connection, claims: Claims, *, now: int) -> bool:
    """Mark an assertion as used; return False if it was used before."""
    conn.execute("DELETE FROM assertion WHERE expires_at < ?", (now,))
    cursor = conn.execute(
        "INSERT INTO assertion (app, jti, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (claims["iss"], claims["jti"], (int(claims["exp"]) + 1) * access_tokens.SECOND),
    )
    return cursor.rowcount == 1


def require_unused(made: dict[str, Any] | None) -> dict[str, Any]:
    if made is None:
        raise problems.OAuthRefused("invalid_grant", "The assertion is refused: its jti was used before")
    return made


def subject(store: Store, app: Any, kind: str, wire_id: str) -> int:
    """Return the user that an application's token is for: one of its enterprise, or its service account."""
    number = calls.parse_id(wire_id)
    if kind == "enterprise" and number == app["enterprise"]:
        return int(app["service_user"])
    if kind == "user":
        found = store.read(
            "SELECT id FROM account WHERE id = ? AND enterprise = ? AND status != 'inactive'",
            number,
            app["enterprise"],
        )
        if found:
            return int(found[0]["id"])
    raise problems.OAuthRefused("invalid_grant", "Grant credentials are invalid")
