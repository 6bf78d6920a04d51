"""Expiring embed links: a URL that shows a file to anybody who has it, for at most an hour.

`fields=expiring_embed_link` on one file creates a token that is bound to it and permits only previews, and a
URL with that token.  The page behind the URL shows the extracted text or an image, never the file itself:
untrusted uploads must not run in a page of ours.

Rule: the link expires no later than the token that requested it, and stops working when the right to see the
file ends.
"""

import base64
import hashlib
from html import escape
from sqlite3 import Connection, Row
from typing import Any
from urllib.parse import urlencode

from starlette import requests, responses

from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.oauth import access_tokens
from cmsfs.service.renditions import representations
from cmsfs.service.storage import derived_files, store
from cmsfs.service.storage.kinds import ItemKind

SCOPE = "item_preview"

_PATH = "/preview/expiring_embed"
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; padding: 1rem; }
h1 { font-size: 1rem; margin: 0 0 1rem; }
img { max-width: 100%; height: auto; display: block; margin: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PICTURE = "jpg_1024x1024"


async def add(call: calls.Call, row: Row, shaped: dict[str, Any]) -> None:
    """Add a link to a file's JSON if it was requested; null if the token or the caller's rights forbid it."""
    if "expiring_embed_link" not in (call.fields or ()):
        return
    shaped["expiring_embed_link"] = None
    rights = calls.rights(call.store.read, call.caller, row)
    if SCOPE not in call.caller.scopes or ItemRight.PREVIEW not in rights:
        return
    shared = call.caller.shared
    secret = call.request.headers["authorization"].partition(" ")[2].strip()
    source = call.store.read("SELECT * FROM token WHERE hash = ?", calls.hashed(secret))[0]

    def txn(conn: Connection) -> dict[str, Any]:
        return access_tokens.access_token(
            conn,
            call.caller.client_id,
            call.caller.id,
            now=call.store.now(),
            granted=SCOPE,
            bound=row["id"],
            source=source,
            actor=call.caller.actor,
            link=None if shared is None or shared.is_own else shared.stored,
        )

    made = await call.store.write(txn)
    url = call.request.url
    mini = {
        name: shaped[name] for name in ("type", "id", "sequence_id", "etag", "sha1", "name", "file_version")
    }
    shaped["expiring_embed_link"] = made | {
        "restricted_to": [{"scope": SCOPE, "object": mini}],
        "url": f"{url.scheme}://{url.netloc}{_url_path(row, made['access_token'])}",
    }


def _url_path(row: Row, token: str, more: str = "") -> str:
    return f"{_PATH}/{row['id']}{more}?{urlencode({'token': token})}"


def _resolve(request: requests.Request) -> tuple[Row, str]:
    """Return the file and the token of a URL; 404 if the token is invalid or expired."""
    opened: store.Store = request.app.store
    token = request.query_params.get("token", "")
    wire_id = request.path_params["id"]
    try:
        caller = callers.caller_of_token(opened, token)
    except problems.UnauthorizedResponse:
        raise problems.not_found("file", wire_id) from None
    # Only tokens of embed links are accepted in a URL.
    if str(caller.bound) != wire_id or SCOPE not in caller.scopes:
        raise problems.not_found("file", wire_id)
    return calls.get_item(opened.read, caller, ItemKind.FILE, wire_id, needed=ItemRight.PREVIEW), token


async def show(request: requests.Request) -> responses.Response:
    try:
        row, token = _resolve(request)
    except problems.Refused:
        return _page("This link no longer works", "", status=404)
    name = _rendition_of(row)
    if name is None:
        return _page(row["name"], f"<p>{row['size']} bytes of a kind that cannot be shown.</p>")
    try:
        data = await representations.read(request.app.store, row["sha1"], name)
    except problems.Refused:
        return _page(row["name"], "<p>There is no preview of this file.</p>")
    if data is None:
        return _page(row["name"], "<p>The preview is being made.</p>", again=True)
    if name == derived_files.TEXT:
        return _page(row["name"], f"<pre>{escape(data.decode('utf-8', 'replace'))}</pre>")
    source = escape(_url_path(row, token, "/content"))
    return _page(row["name"], f'<img src="{source}" alt="{escape(row["name"])}">')


def _rendition_of(row: Row) -> str | None:
    if row["extension"] in representations.PICTURE_TYPES:
        return _PICTURE
    return None if row["size"] == 0 else derived_files.TEXT


async def content(request: requests.Request) -> responses.Response:
    row, _ = _resolve(request)
    if _rendition_of(row) != _PICTURE:
        raise problems.not_found("picture", str(row["id"]))
    data = await representations.read(request.app.store, row["sha1"], _PICTURE)
    if data is None:
        return responses.Response(status_code=202, headers={"Retry-After": "1"})
    return responses.Response(data, 200, _headers(), media_type="image/jpeg")


def _headers() -> dict[str, str]:
    return {
        # The page is meant to be embedded; it has nothing to click on.
        "Content-Security-Policy": (
            f"default-src 'none'; img-src 'self'; style-src 'sha256-{_HASH}'; base-uri 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def _page(title: str, body: str, *, status: int = 200, again: bool = False) -> responses.Response:
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
    return responses.HTMLResponse(text, status, _headers() | ({"Refresh": "1"} if again else {}))


_TOKEN = operations.Parameter("token", "The word in the address.", required=True)

public_routes = [
    Operation(
        f"GET {_PATH}/{{id}}",
        show,
        "Show a file by its expiring embed link",
        operations.HTML,
        query=[_TOKEN],
        public=True,
        problem=operations.HTML,
    ),
    Operation(
        f"GET {_PATH}/{{id}}/content",
        content,
        "Get the picture that an expiring embed link shows",
        operations.BYTES,
        query=[_TOKEN],
        also={202: None},
        public=True,
        more="The picture that the page shows.",
    ),
]
