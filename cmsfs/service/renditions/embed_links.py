"""Expiring embed links: a URL that shows a file to whoever has it, for at most an hour.

`fields=expiring_embed_link` on one file makes a token that is bound to it and good for looking alone, and an
address with that token in it.  The page behind the address shows what the service made of the file, words or
a picture, never the file itself: what strangers uploaded does not run in a page of ours.

Rule: the link lives no longer than the token it was asked for with, and dies with the right to see the file.
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
    """Put a link on a file that is about to be answered, if it was asked for; null if there can be none."""
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
            link=None if shared is None or shared.is_own else shared.kept,
        )

    made = await call.store.write(txn)
    url = call.request.url
    mini = {
        name: shaped[name] for name in ("type", "id", "sequence_id", "etag", "sha1", "name", "file_version")
    }
    shaped["expiring_embed_link"] = made | {
        "restricted_to": [{"scope": SCOPE, "object": mini}],
        "url": f"{url.scheme}://{url.netloc}{_place(row, made['access_token'])}",
    }


def _place(row: Row, token: str, more: str = "") -> str:
    return f"{_PATH}/{row['id']}{more}?{urlencode({'token': token})}"


def _found(request: requests.Request) -> tuple[Row, str]:
    """The file that an address shows, and the token in it; 404 for one that is not good (any more)."""
    opened: store.Store = request.app.store
    token = request.query_params.get("token", "")
    wire_id = request.path_params["id"]
    try:
        caller = callers.of_token(opened, token)
    except problems.UnauthorizedResponse:
        raise problems.not_found("file", wire_id) from None
    # No other token is taken from an address.
    if str(caller.bound) != wire_id or SCOPE not in caller.scopes:
        raise problems.not_found("file", wire_id)
    return calls.get_item(opened.read, caller, ItemKind.FILE, wire_id, needed=ItemRight.PREVIEW), token


async def show(request: requests.Request) -> responses.Response:
    try:
        row, token = _found(request)
    except problems.Refused:
        return _page("This link shows nothing any more", "", status=404)
    name = _shown_by(row)
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
    source = escape(_place(row, token, "/content"))
    return _page(row["name"], f'<img src="{source}" alt="{escape(row["name"])}">')


def _shown_by(row: Row) -> str | None:
    if row["extension"] in representations.PICTURE_TYPES:
        return _PICTURE
    return None if row["size"] == 0 else derived_files.TEXT


async def content(request: requests.Request) -> responses.Response:
    row, _ = _found(request)
    if _shown_by(row) != _PICTURE:
        raise problems.not_found("picture", str(row["id"]))
    data = await representations.read(request.app.store, row["sha1"], _PICTURE)
    if data is None:
        return responses.Response(status_code=202, headers={"Retry-After": "1"})
    return responses.Response(data, 200, _headers(), media_type="image/jpeg")


def _headers() -> dict[str, str]:
    return {
        # Embedding is what it is for; there is nothing in it to click.
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
