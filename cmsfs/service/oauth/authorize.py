"""The authorize endpoint: a person logs in and grants an application access.

An application sends a browser here; the person logs in, is asked for consent, and is redirected back with a
code (codes.py) or an error.  An error about the application or its redirect URI is shown here, never sent
there.  A person with pending terms of service reads them here, and agrees by granting access.

Rule: no state is kept from an earlier step: each request is validated in full, from its own query.
"""

from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from starlette import requests, responses

from cmsfs.service import problems
from cmsfs.service.access import scopes, terms
from cmsfs.service.api import operations, pages
from cmsfs.service.api.operations import Operation
from cmsfs.service.oauth import browser_sessions, clients, codes, passwords, tokens
from cmsfs.service.storage.store import Store

_ONCE: Final = (
    *("response_type", "client_id", "redirect_uri", "state", "scope"),
    *("code_challenge", "code_challenge_method"),
)


class _LocalError(Exception):
    """An error that must be shown here, because the redirect URI cannot be trusted."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.status = status


class _RedirectError(Exception):
    """An error that is reported to the application by a redirect."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


@dataclass(frozen=True, slots=True)
class _AuthorizationRequest:
    """A valid authorization request."""

    app: Row
    redirect_uri: str
    state: str | None
    granted: str | None
    challenge: str | None

    def redirect_url(self, **answer: str) -> str:
        """Return the redirect to the application with these parameters."""
        state = {} if self.state is None else {"state": self.state}
        joint = "&" if "?" in self.redirect_uri else "?"
        return f"{self.redirect_uri}{joint}{urlencode(answer | state)}"

    @property
    def scopes(self) -> list[str]:
        return scopes.split(self.app["scopes"] if self.granted is None else self.granted)

    @property
    def origin(self) -> str:
        """Return the redirect URI's origin, for the content security policy."""
        parts = urlsplit(self.redirect_uri)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:"


async def show(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        wish = _read(store, request)
    except _LocalError as error:
        return pages.problem(error.code, error.message, status=error.status)
    except _RedirectError as error:
        return _redirect(error.location)
    return _page(request, wish, browser_sessions.visit(store, request))


async def answer(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        form = await _form(request)
        wish = _read(store, request)
        visited = browser_sessions.visit(store, request)
        if not visited.accepts_form(form):
            message = "The form is out of date, or it was not made for this browser. Go back and try again."
            raise _LocalError("invalid_request", message, status=403)
        return await _act(request, wish, visited, form)
    except _LocalError as error:
        return pages.problem(error.code, error.message, status=error.status)
    except _RedirectError as error:
        return _redirect(error.location)


async def _act(
    request: requests.Request,
    wish: _AuthorizationRequest,
    visited: browser_sessions.Visit,
    form: dict[str, str],
) -> responses.Response:
    store: Store = request.app.store
    match form.get("action"):
        case "login":
            return await _log_in(request, wish, visited, form)
        case "leave":
            await browser_sessions.log_out(store, visited)
            return _redirect(_here(request))
        case "deny":
            return _redirect(
                wish.redirect_url(error="access_denied", error_description="The access was denied")
            )
        case "grant" if visited.user is not None and _is_of(visited.user, wish):
            user, now = visited.user["id"], store.now()
            agreed = terms.pending(store.read, user, visited.user["enterprise"])
            if agreed is not None and form.get("terms") != str(agreed["id"]):
                return _page(request, wish, visited)

            def txn(conn: Connection) -> str:
                if agreed is not None:
                    terms.agree(conn, user, agreed["id"], now=now)
                return codes.make(
                    conn,
                    wish.app["client_id"],
                    user,
                    redirect_uri=wish.redirect_uri,
                    granted=wish.granted,
                    challenge=wish.challenge,
                    now=now,
                )

            code = await store.write(txn)
            return _redirect(wish.redirect_url(code=code))
        case _:
            return _page(request, wish, visited)


async def _log_in(
    request: requests.Request,
    wish: _AuthorizationRequest,
    visited: browser_sessions.Visit,
    form: dict[str, str],
) -> responses.Response:
    store: Store = request.app.store
    login = form.get("login", "").strip()
    user = await passwords.check(
        store, login, form.get("password", ""), who=request.app.address(request.scope)
    )
    if user is None:
        message = (
            "This login and password do not go together, or there were too many attempts. Wait a moment."
        )
        return pages.log_in(
            wish.app["name"], (browser_sessions.FIELD, visited.csrf_token), login=login, message=message
        )
    # A redirect, so that reloading the next page does not repeat the log-in.
    response = _redirect(_here(request))
    browser_sessions.set_cookie(request, response, await browser_sessions.log_in(store, user))
    return response


def _page(
    request: requests.Request, wish: _AuthorizationRequest, visited: browser_sessions.Visit
) -> responses.Response:
    name = wish.app["name"]
    proof = (browser_sessions.FIELD, visited.csrf_token)
    if visited.user is None:
        response = pages.log_in(name, proof)
    elif not _is_of(visited.user, wish):
        return pages.problem("access_denied", f"{name} is not for users of your enterprise.", status=403)
    else:
        scope_texts = [scopes.APPLICATION.get(one, one) for one in wish.scopes]
        response = pages.consent(
            app=name,
            user=visited.user["login"] or visited.user["name"],
            scopes=scope_texts,
            proof=proof,
            redirect_uri=wish.redirect_uri,
            form_to=wish.origin,
            terms=terms.pending(request.app.store.read, visited.user["id"], visited.user["enterprise"]),
        )
    if visited.is_new:
        browser_sessions.set_cookie(request, response, visited.secret)
    return response


def _is_of(user: Row, wish: _AuthorizationRequest) -> bool:
    """Return whether the application may act for this user at all."""
    return bool(user["enterprise"] == wish.app["enterprise"])


async def _form(request: requests.Request) -> dict[str, str]:
    try:
        return await tokens.read_form(request)
    except problems.OAuthRefused:
        raise _LocalError("invalid_request", "The form cannot be read.") from None


def _read(store: Store, request: requests.Request) -> _AuthorizationRequest:
    """Parse and validate the query."""
    query = request.query_params
    if any(len(query.getlist(name)) > 1 for name in _ONCE):
        raise _LocalError("invalid_request", "A parameter is there more than once.")
    found = store.read("SELECT * FROM app WHERE client_id = ?", query.get("client_id", ""))
    if not found:
        raise _LocalError("invalid_client", "There is no application with this client_id.")
    app, asked = found[0], query.get("redirect_uri")
    uri = clients.find_redirect(app, asked)
    if uri is None and asked is None:
        raise _LocalError("redirect_uri_missing", "The application must say where the answer is to go.")
    if uri is None:
        raise _LocalError(
            "redirect_uri_mismatch", "The redirect_uri is not one that the application registered."
        )
    wish = _AuthorizationRequest(
        app, uri, query.get("state"), query.get("scope"), query.get("code_challenge")
    )
    error = _error(wish, query.get("response_type"), query.get("code_challenge_method"))
    if error is not None:
        raise _RedirectError(wish.redirect_url(error=error[0], error_description=error[1]))
    return wish


def _error(
    wish: _AuthorizationRequest, response_type: str | None, method: str | None
) -> tuple[str, str] | None:
    if response_type != "code":
        return "unsupported_response_type", "response_type must be code"
    if "authorization_code" not in wish.app["grants"].split():
        return "unauthorized_client", "The application may not use this grant"
    if not scopes.effective(wish.app["scopes"], None).issuperset(wish.scopes) or not wish.scopes:
        return "invalid_scope", "The application does not have all of the scopes"
    if (wish.challenge is None) != (method is None) or method not in (None, "S256"):
        return "invalid_request", "code_challenge_method must be S256"
    if wish.challenge is not None and not codes.CHALLENGE.fullmatch(wish.challenge):
        return "invalid_request", "code_challenge is malformed"
    return None


def _here(request: requests.Request) -> str:
    """Return this page's path and query: the host comes from the request and cannot be trusted."""
    return f"{request.url.path}?{request.url.query}"


def _redirect(location: str) -> responses.Response:
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return responses.RedirectResponse(location, 303, headers)


_QUERY = [
    operations.choice("response_type", "The one way.", "code"),
    operations.Parameter("client_id", "The application.", required=True),
    operations.Parameter("redirect_uri", "Where the code goes; one that the application registered."),
    operations.Parameter("state", "What the application wants to see again."),
    operations.Parameter("scope", "Scopes, with spaces between; without it all that the application has."),
    operations.Parameter("code_challenge", "PKCE (RFC 7636)."),
    operations.choice("code_challenge_method", "The one method.", "S256"),
]
_PAGE: dict[str, Any] = {
    "query": _QUERY,
    "also": {303: None},
    "errors": (400, 401, 403),
    "public": True,
    "problem": operations.HTML,
}

routes = [
    Operation(
        "GET /oauth2/authorize",
        show,
        "Ask a person for access",
        operations.HTML,
        **_PAGE,
        more="The login page, or the page that asks for consent.",
    ),
    Operation(
        "POST /oauth2/authorize",
        answer,
        "What the person answers",
        operations.HTML,
        body=operations.Form(dict[str, str]),
        **_PAGE,
        more="The form of the login page or of the consent page.",
    ),
]
