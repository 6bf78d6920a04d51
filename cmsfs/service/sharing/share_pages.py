"""Web pages of open shared links: the item, a preview, its download.

`/s/WORD` is the address that every client hands out.  A folder's page lists what is in it; a link with a
password asks for it first, and a signed cookie remembers for an hour that it was right.  Links for an
enterprise or for collaborators show nothing here: those come with a token (see shared_items.py).

Rule: without the right word there is nothing, and nothing says whether there was.  What strangers uploaded
is shown as what the service made of it, never as it is.
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
_MAX_WORDS = 20_000  # of a text, as characters on the page


@dataclass(frozen=True, slots=True)
class _Visit:
    """Somebody who looks at what a link shows."""

    request: requests.Request
    store: store.Store
    shared: shared_links.Shared
    row: Row  # the item that is asked for: the link's own, or one below

    @property
    def may_download(self) -> bool:
        lock = locks.find(self.row, self.store.now())
        return self.shared.can_download and not (lock is not None and lock["prevents_download"])

    @property
    def is_open(self) -> bool:
        """Whether the link's password, if it has one, was given."""
        if self.shared.terms["password"] is None:
            return True
        given = self.request.cookies.get(_cookie(self.shared.word), "")
        return self.store.url_signer.verify(_KIND, given, now=self.store.now()) == [_secret(self.shared)]

    def place(self, more: str = "", number: int | None = None) -> str:
        number = self.row["id"] if number is None else number
        return f"/s/{self.shared.word}/{number}{more}"


def _cookie(word: str) -> str:
    return f"cmsfs_share_{hashlib.sha256(word.encode()).hexdigest()[:16]}"


def _secret(shared: shared_links.Shared) -> str:
    """What a cookie proves: the word and the password that there is now."""
    return hashlib.sha256(f"{shared.word}\0{shared.terms['password']}".encode()).hexdigest()


def _find(request: requests.Request) -> _Visit | None:
    """What the address shows to anybody; None if that is nothing."""
    opened: store.Store = request.app.store
    word = request.path_params["word"]
    shared = shared_links.find(opened.read, word, user=0, enterprise=0, now=opened.now())
    if shared is None:
        return None
    found = opened.read("SELECT * FROM item WHERE id = ?", request.path_params.get("id", shared.item))
    viewer = access_rights.NotifiedUser(0, shared=shared)
    if not found or found[0]["status"] != ItemStatus.ACTIVE:
        return None
    if ItemRight.SEE not in access_rights.View(opened.read, viewer).rights(found[0]):
        return None
    return _Visit(request, opened, shared, found[0])


def _nothing() -> responses.Response:
    return pages.page(pages.text("shared/nothing.html"), status=404)


async def show(request: requests.Request) -> responses.Response:
    visit = _find(request)
    if visit is None:
        return _nothing()
    if not visit.is_open:
        return _ask_password(visit)
    if visit.row["kind"] == ItemKind.FOLDER:
        return await _folder(visit)
    return await _item(visit)


def _ask_password(visit: _Visit, *, said: str = "", status: int = 200) -> responses.Response:
    document = pages.text("shared/password.html", said=said, where=visit.request.url.path)
    return pages.page(document, status=status)


async def unlock(request: requests.Request) -> responses.Response:
    """The answer to the form for the password."""
    visit = _find(request)
    if visit is None:
        return _nothing()
    who = link_passwords.Guesser(visit.store.attempts, f"address:{request.app.address(request.scope)}")
    try:
        form = await tokens.read_form(request)
        link_passwords.check(visit.shared.terms, form.get("password", ""), who)
    except problems.OAuthRefused:
        return _ask_password(visit, said="This is no form of ours.", status=400)
    except problems.Refused as refused:
        said = refused.message if refused.status == 429 else "This is not the password of the link."
        answer = _ask_password(visit, said=said, status=refused.status)
        answer.headers.update(refused.headers or {})
        return answer
    ends = visit.store.now() + _OPEN_SECONDS * 1_000_000
    answer = responses.RedirectResponse(request.url.path, 303, {"Cache-Control": "no-store"})
    answer.set_cookie(
        _cookie(visit.shared.word),
        visit.store.url_signer.sign(_KIND, _secret(visit.shared), expires=ends),
        max_age=_OPEN_SECONDS,
        path=f"/s/{visit.shared.word}",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


async def _folder(visit: _Visit) -> responses.Response:
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


async def _item(visit: _Visit) -> responses.Response:
    await _count_preview(visit)
    words, picture, waits = "", "", False
    name = _shown_by(visit.row)
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


def _shown_by(row: Row) -> str | None:
    """The rendition that a page shows of a file."""
    if row["kind"] != ItemKind.FILE or row["size"] == 0:
        return None
    return PICTURE if row["extension"] in representations.PICTURE_TYPES else derived_files.TEXT


async def _count_preview(visit: _Visit) -> None:
    if visit.row["kind"] == ItemKind.FILE:
        await visit.store.write(lambda conn: _counted(conn, visit.shared.item))


def _counted(conn: Connection, item: int) -> None:
    conn.execute(
        "INSERT INTO link_use (item, previews) VALUES (?, 1)"
        " ON CONFLICT (item) DO UPDATE SET previews = link_use.previews + 1",
        (item,),
    )


def _minute(moment: int | None) -> str:
    return "" if moment is None else item_serializer.to_timestamp(moment)[:16].replace("T", " ")


def _page(visit: _Visit, template: str, **values: Any) -> responses.Response:
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
        return _nothing()
    await link_stats.count_download(visit.store, request, visit.shared.item)
    version = files.find_version(visit.store.read, visit.row, None)
    return files.send(visit.store, request, visit.row, version, may_redirect=True)


async def preview(request: requests.Request) -> responses.Response:
    """The picture that the page shows."""
    visit = _find(request)
    if visit is None or not visit.is_open or _shown_by(visit.row) != PICTURE:
        return _nothing()
    try:
        data = await representations.read(visit.store, visit.row["sha1"], PICTURE)
    except problems.Refused:
        data = None
    if data is None:
        return _nothing()
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
