"""JWT assertions of applications: for the jwt-bearer grant and for token exchange.

An assertion is signed with RS256, RS384 or RS512 by a key of the application: the one that its header names
by `kid` or, as some clients of the public API name none, the one that verifies it.  It is meant for this
token endpoint, ends within a minute, and is taken once.

Rule: an assertion counts as used only together with the token that it gives.
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

# Whatever hostile text makes of the parser (a million brackets, an infinite date).
_BROKEN = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)

Claims = dict[str, Any]


async def bearer(ask: clients.Ask) -> dict[str, Any]:
    """The jwt-bearer grant."""
    app = ask.authenticate("jwt_bearer")
    claims = verify(ask, ask.required("assertion"), app["client_id"])
    user = subject(ask.store, app, str(claims.get("box_sub_type", "")), claims["sub"])

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = ask.store.now()
        if not use(conn, claims, now=now):
            return None
        return access_tokens.access_token(conn, app["client_id"], user, now=now)

    return taken_once(await ask.store.write(txn))


def verify(ask: clients.Ask, assertion: str, client_id: str, *, unsigned: bool = False) -> Claims:
    """The claims of an application's assertion.  With `unsigned`, one without a signature will do."""
    try:
        header = jwt.get_unverified_header(assertion)
        if unsigned and header.get("alg") == "none":
            claims = jwt.decode(assertion, options={"verify_signature": False})
        else:
            claims = _verified(assertion, _keys(ask.store, client_id, header))
        _judge(ask, claims, client_id)
    except _BROKEN as error:
        # Our own words or the library's; neither repeats the assertion.
        said = str(error) if isinstance(error, jwt.PyJWTError) else "it cannot be read"
        raise problems.OAuthRefused("invalid_grant", f"The assertion is refused: {said}") from None
    return claims


def issuer(assertion: str) -> str:
    """Who claims to have made an assertion, to be verified."""
    try:
        return str(jwt.decode(assertion, options={"verify_signature": False}).get("iss", ""))
    except _BROKEN:
        return ""


def _keys(store: Store, client_id: str, header: dict[str, Any]) -> list[str]:
    """The keys that an assertion may be signed with: the one that it names, or any of the application's."""
    if "kid" not in header:
        found = store.read("SELECT pem FROM app_key WHERE app = ?", client_id)
    else:
        kid = header["kid"] if isinstance(header["kid"], str) else ""
        found = store.read("SELECT pem FROM app_key WHERE app = ? AND kid = ?", client_id, kid)
    if not found:
        raise jwt.InvalidKeyError("kid names no key of this application")
    return [row["pem"] for row in found]


def _verified(assertion: str, keys: list[str]) -> Claims:
    """The claims, if exactly one of the keys signed them."""
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


def _judge(ask: clients.Ask, claims: Claims, client_id: str) -> None:
    ends, now = int(claims["exp"]) if "exp" in claims else 0, clock.time()
    if not now < ends <= now + MAX_SECONDS:
        raise jwt.InvalidTokenError(f"exp must be in the future, at most {MAX_SECONDS} seconds")
    wanted = claims.get("aud")
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(wanted, list) or not any(one in ask.audiences for one in map(str, wanted)):
        raise jwt.InvalidTokenError("aud must be the URL of this token endpoint")
    if claims.get("iss") != client_id:
        raise jwt.InvalidTokenError("iss must be the application's client id")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not _MIN_ID <= len(jti) <= _MAX_ID or not jti.isprintable():
        raise jwt.InvalidTokenError(f"jti must have {_MIN_ID} to {_MAX_ID} characters")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise jwt.InvalidTokenError("sub is missing")


def use(conn: Connection, claims: Claims, *, now: int) -> bool:
    """Mark an assertion as used; False if it was."""
    conn.execute("DELETE FROM assertion WHERE expires_at < ?", (now,))
    cursor = conn.execute(
        "INSERT INTO assertion (app, jti, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (claims["iss"], claims["jti"], (int(claims["exp"]) + 1) * access_tokens.SECOND),
    )
    return cursor.rowcount == 1


def taken_once(made: dict[str, Any] | None) -> dict[str, Any]:
    if made is None:
        raise problems.OAuthRefused("invalid_grant", "The assertion is refused: its jti was used before")
    return made


def subject(store: Store, app: Any, kind: str, wire_id: str) -> int:
    """The user for whom a token of an application is to speak: one of its enterprise, or its own."""
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
