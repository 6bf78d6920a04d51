"""Web pages of open shared links: the item, a preview, its download.

`/s/WORD` is the URL that every client hands out.  A folder's page lists its items; a link with a password
asks for it first, and a signed cookie is valid for an hour after the right one.  Links for an enterprise or
for collaborators show nothing here: those users come with a token (see shared_items.py).

Rule: an unknown or inaccessible link shows nothing, and the response does not tell which.  Untrusted uploads
are shown as renditions, never as they are.
"""

import hashlib
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

from starlette import requests, responses, routing

from cmsfs.service import problems
from cmsfs.service.access import access_rights, link_passwords, locks, shared_links
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import pages
from cmsfs.service.content import files, link_stats
from cmsfs.service.oauth import tokens
from cmsfs.service.renditions import representations
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import derived_files, store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus

PAGE = 200
PICTURE = "jpg_1024x1024"

_OPEN_SECONDS = 3600
_KIND = "share"
_MAX_WORDS = 20_000  # characters of a text on the page


@dataclass(frozen=True, slots=True)
class _LinkVisit:
    """A request for something that a link shows."""

    request: requests.Request
    store: store.Store
    shared: shared_links.Shared
    row: Row  # the requested item: the link's own, or one below it

    @property
    def may_download(self) -> bool:
        lock = locks.find(self.row, self.store.now())
        return self.shared.can_download and not (lock is not None and lock["prevents_download"])

    @property
    def is_open(self) -> bool:
        """Return whether the link has no password or the right one was entered."""
        if self.shared.terms["password"] is None:
            return True
        given = self.request.cookies.get(_cookie(self.shared.token), "")
        return self.store.url_signer.verify(_KIND, given, now=self.store.now()) == [
            _cookie_value(self.shared)
        ]

    def place(self, more: str = "", number: int | None = None) -> str:
        number = self.row["id"] if number is None else number
        return f"/s/{self.shared.token}/{number}{more}"


def _cookie(token: str) -> str:
    return f"cmsfs_share_{hashlib.sha256(token.encode()).hexdigest()[:16]}"


def _cookie_value(shared: shared_links.Shared) -> str:
    """Return what a cookie proves: the link and its current password."""
    return hashlib.sha256(f"{shared.token}\0{shared.terms['password']}".encode()).hexdigest()


def _find(request: requests.Request) -> _LinkVisit | None:
    """Return what the URL shows to anybody, or None."""
    opened: store.Store = request.app.store
    token = request.path_params["word"]
    shared = shared_links.find(opened.read, token, user=0, enterprise=0, now=opened.now())
    if shared is None:
        return None
    found = opened.read("SELECT * FROM item WHERE id = ?", request.path_params.get("id", shared.item))
    viewer = access_rights.NotifiedUser(0, shared=shared)
    if not found or found[0]["status"] != ItemStatus.ACTIVE:
        return None
    if ItemRight.SEE not in access_rights.View(opened.read, viewer).rights(found[0]):
        return None
    return _LinkVisit(request, opened, shared, found[0])


def _not_found_page() -> responses.Response:
    return pages.page(pages.text("shared/nothing.html"), status=404)


async def show(request: requests.Request) -> responses.Response:
    visit = _find(request)
    if visit is None:
        return _not_found_page()
    if not visit.is_open:
        return _ask_password(visit)
    if visit.row["kind"] == ItemKind.FOLDER:
        return await _folder(visit)
    return await _item(visit)


def _ask_password(visit: _LinkVisit, *, message: str = "", status: int = 200) -> responses.Response:
    document = pages.text("shared/password.html", message=message, where=visit.request.url.path)
    return pages.page(document, status=status)


async def unlock(request: requests.Request) -> responses.Response:
    """Handle the password form."""
    visit = _find(request)
    if visit is None:
        return _not_found_page()
    who = link_passwords.Guesser(visit.store.attempts, f"address:{request.app.address(request.scope)}")
    try:
        form = await tokens.read_form(request)
        link_passwords.check(visit.shared.terms, form.get("password", ""), who)
    except problems.OAuthRefused:
        return _ask_password(visit, message="This form is not valid.", status=400)
    except problems.Refused as refused:
        message = refused.message if refused.status == 429 else "This is not the password of the link."
        answer = _ask_password(visit, message=message, status=refused.status)
        answer.headers.update(refused.headers or {})
        return answer
    ends = visit.store.now() + _OPEN_SECONDS * 1_000_000
    answer = responses.RedirectResponse(request.url.path, 303, {"Cache-Control": "no-store"})
    answer.set_cookie(
        _cookie(visit.shared.token),
        visit.store.url_signer.sign(_KIND, _cookie_value(visit.shared), expires=ends),
        max_age=_OPEN_SECONDS,
        path=f"/s/{visit.shared.token}",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


async def _folder(visit: _LinkVisit) -> responses.Response:
    params, number = visit.request.query_params, visit.row["id"]
    start = int(params["from"]) if params.get("from", "").isdecimal() and len(params["from"]) < 9 else 0
    sql = "SELECT * FROM item WHERE parent = ? AND status = 0 ORDER BY kind, name_key, id LIMIT ? OFFSET ?"
    rows = await visit.store.query(lambda read: read(sql, number, PAGE + 1, start))
    entries = [
        {
            "name": row["name"],
            "kind": KIND_NAMES[ItemKind(row["kind"])].replace("_", " "),
            "size": row["size"] if row["kind"] != ItemKind.WEB_LINK else None,
            "changed": item_serializer.to_timestamp(row["content_modified_at"])[:10],
            "place": visit.place(number=row["id"]),
        }
        for row in rows[:PAGE]
    ]
    more = start + PAGE if len(rows) > PAGE else None
    return _page(visit, "shared/folder.html", entries=entries, more=more, start=start)


async def _item(visit: _LinkVisit) -> responses.Response:
    await _count_preview(visit)
    words, picture, waits = "", "", False
    name = _rendition_of(visit.row)
    if name is not None:
        try:
            data = await representations.read(visit.store, visit.row["sha1"], name)
        except problems.Refused:
            data = b""
        waits = data is None
        if data and name == derived_files.TEXT:
            words = data.decode("utf-8", "replace")[:_MAX_WORDS]
        elif data:
            picture = visit.place("/preview")
    answer = _page(visit, "shared/item.html", words=words, picture=picture, waits=waits)
    if waits:
        answer.headers["Refresh"] = "1"
    return answer


def _rendition_of(row: Row) -> str | None:
    """Return the name of the rendition that a page shows of a file."""
    if row["kind"] != ItemKind.FILE or row["size"] == 0:
        return None
    return PICTURE if row["extension"] in representations.PICTURE_TYPES else derived_files.TEXT


async def _count_preview(visit: _LinkVisit) -> None:
    if visit.row["kind"] == ItemKind.FILE:
        await visit.store.write(lambda conn: _insert_preview(conn, visit.shared.item))


def _insert_preview(conn: Connection, item: int) -> None:
    conn.execute(
        "INSERT INTO link_use (item, previews) VALUES (?, 1)"
        " ON CONFLICT (item) DO UPDATE SET previews = link_use.previews + 1",
        (item,),
    )


def _minute(moment: int | None) -> str:
    return "" if moment is None else item_serializer.to_timestamp(moment)[:16].replace("T", " ")


def _page(visit: _LinkVisit, template: str, **values: Any) -> responses.Response:
    row, shared = visit.row, visit.shared
    owner = visit.store.read("SELECT name FROM account WHERE id = ?", row["owner"])[0]["name"]
    is_top = row["id"] == shared.item
    document = pages.text(
        template,
        item=row,
        kind=KIND_NAMES[ItemKind(row["kind"])].replace("_", " "),
        owner=owner,
        ends=_minute(shared.terms["ends"]),
        download=visit.place("/download") if row["kind"] == ItemKind.FILE and visit.may_download else "",
        above="" if is_top else visit.place(number=row["parent"]),
        **values,
    )
    return pages.page(document, pictures=True)


async def download(request: requests.Request) -> responses.Response:
    visit = _find(request)
    if visit is None or not visit.is_open or visit.row["kind"] != ItemKind.FILE or not visit.may_download:
        return _not_found_page()
    await link_stats.count_download(visit.store, request, visit.shared.item)
    version = files.find_version(visit.store.read, visit.row, None)
    return files.send(visit.store, request, visit.row, version, may_redirect=True)


async def preview(request: requests.Request) -> responses.Response:
    """Return the image that the page shows."""
    visit = _find(request)
    if visit is None or not visit.is_open or _rendition_of(visit.row) != PICTURE:
        return _not_found_page()
    try:
        data = await representations.read(visit.store, visit.row["sha1"], PICTURE)
    except problems.Refused:
        data = None
    if data is None:
        return _not_found_page()
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    return responses.Response(data, 200, headers, media_type="image/jpeg")


routes = [
    routing.Route("/s/{word}", show, methods=["GET"]),
    routing.Route("/s/{word}", unlock, methods=["POST"]),
    routing.Route("/s/{word}/{id:int}", show, methods=["GET"]),
    routing.Route("/s/{word}/{id:int}", unlock, methods=["POST"]),
    routing.Route("/s/{word}/{id:int}/download", download, methods=["GET"]),
    routing.Route("/s/{word}/{id:int}/preview", preview, methods=["GET"]),
]
