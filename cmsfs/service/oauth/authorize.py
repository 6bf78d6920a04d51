"""The authorize endpoint: a person logs in and grants an application access.

An application sends a browser here; the person logs in, is asked, and goes back with a code (codes.py) or
with an error.  What is wrong with the application or its redirect URI is shown, never sent there.  Whoever
has yet to agree to terms of service reads them here, and agrees by granting.

Rule: nothing is taken from an earlier step: each request is judged whole, from its own query.
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


class _Shown(Exception):
    """A request whose answer would not be safe to send to where it wants."""

    def __init__(self, code: str, said: str, *, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.said = said
        self.status = status


class _SentBack(Exception):
    """A request that the application hears about."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


@dataclass(frozen=True, slots=True)
class _Wish:
    """What an application asks a person for."""

    app: Row
    redirect_uri: str
    state: str | None
    granted: str | None
    challenge: str | None

    def back(self, **answer: str) -> str:
        """Where the browser goes with this answer."""
        state = {} if self.state is None else {"state": self.state}
        joint = "&" if "?" in self.redirect_uri else "?"
        return f"{self.redirect_uri}{joint}{urlencode(answer | state)}"

    @property
    def scopes(self) -> list[str]:
        return scopes.split(self.app["scopes"] if self.granted is None else self.granted)

    @property
    def origin(self) -> str:
        """The redirect URI as browsers' policies name it."""
        parts = urlsplit(self.redirect_uri)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:"


async def show(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        wish = _read(store, request)
    except _Shown as error:
        return pages.problem(error.code, error.said, status=error.status)
    except _SentBack as error:
        return _redirect(error.location)
    return _page(request, wish, browser_sessions.visit(store, request))


async def answer(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        form = await _form(request)
        wish = _read(store, request)
        visited = browser_sessions.visit(store, request)
        if not visited.owns(form):
            said = "The form is out of date, or it was not made for this browser. Go back and try again."
            raise _Shown("invalid_request", said, status=403)
        return await _act(request, wish, visited, form)
    except _Shown as error:
        return pages.problem(error.code, error.said, status=error.status)
    except _SentBack as error:
        return _redirect(error.location)


async def _act(
    request: requests.Request, wish: _Wish, visited: browser_sessions.Visit, form: dict[str, str]
) -> responses.Response:
    store: Store = request.app.store
    match form.get("action"):
        case "login":
            return await _log_in(request, wish, visited, form)
        case "leave":
            await browser_sessions.log_out(store, visited)
            return _redirect(_here(request))
        case "deny":
            return _redirect(wish.back(error="access_denied", error_description="The access was denied"))
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
            return _redirect(wish.back(code=code))
        case _:
            return _page(request, wish, visited)


async def _log_in(
    request: requests.Request, wish: _Wish, visited: browser_sessions.Visit, form: dict[str, str]
) -> responses.Response:
    store: Store = request.app.store
    login = form.get("login", "").strip()
    user = await passwords.check(
        store, login, form.get("password", ""), who=request.app.address(request.scope)
    )
    if user is None:
        said = "This login and password do not go together, or there were too many attempts. Wait a moment."
        return pages.log_in(wish.app["name"], (browser_sessions.FIELD, visited.proof), login=login, said=said)
    # Going on by a new request, so that reloading the next page repeats no log-in.
    response = _redirect(_here(request))
    browser_sessions.set_cookie(request, response, await browser_sessions.log_in(store, user))
    return response


def _page(request: requests.Request, wish: _Wish, visited: browser_sessions.Visit) -> responses.Response:
    name = wish.app["name"]
    proof = (browser_sessions.FIELD, visited.proof)
    if visited.user is None:
        response = pages.log_in(name, proof)
    elif not _is_of(visited.user, wish):
        return pages.problem("access_denied", f"{name} is not for users of your enterprise.", status=403)
    else:
        said = [scopes.APPLICATION.get(one, one) for one in wish.scopes]
        response = pages.consent(
            app=name,
            user=visited.user["login"] or visited.user["name"],
            scopes=said,
            proof=proof,
            redirect_uri=wish.redirect_uri,
            form_to=wish.origin,
            terms=terms.pending(request.app.store.read, visited.user["id"], visited.user["enterprise"]),
        )
    if visited.is_new:
        browser_sessions.set_cookie(request, response, visited.secret)
    return response


def _is_of(user: Row, wish: _Wish) -> bool:
    """Whether the application may speak for this user at all."""
    return bool(user["enterprise"] == wish.app["enterprise"])


async def _form(request: requests.Request) -> dict[str, str]:
    try:
        return await tokens.read_form(request)
    except problems.OAuthRefused:
        raise _Shown("invalid_request", "The form cannot be read.") from None


def _read(store: Store, request: requests.Request) -> _Wish:
    """What the query asks for."""
    query = request.query_params
    if any(len(query.getlist(name)) > 1 for name in _ONCE):
        raise _Shown("invalid_request", "A parameter is there more than once.")
    found = store.read("SELECT * FROM app WHERE client_id = ?", query.get("client_id", ""))
    if not found:
        raise _Shown("invalid_client", "There is no application with this client_id.")
    app, asked = found[0], query.get("redirect_uri")
    uri = clients.find_redirect(app, asked)
    if uri is None and asked is None:
        raise _Shown("redirect_uri_missing", "The application must say where the answer is to go.")
    if uri is None:
        raise _Shown("redirect_uri_mismatch", "The redirect_uri is not one that the application registered.")
    wish = _Wish(app, uri, query.get("state"), query.get("scope"), query.get("code_challenge"))
    error = _error(wish, query.get("response_type"), query.get("code_challenge_method"))
    if error is not None:
        raise _SentBack(wish.back(error=error[0], error_description=error[1]))
    return wish


def _error(wish: _Wish, response_type: str | None, method: str | None) -> tuple[str, str] | None:
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
    """This page without the host, whose name comes from the request and may be anybody's."""
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
