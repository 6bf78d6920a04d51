"""The routes of the users' pages, and their script."""

from starlette import requests, responses, routing

from cmsfs.service.api import pages
from cmsfs.service.web import downloads, finds, folders, items, moves, sharing, trash, uploads
from cmsfs.service.web.entrance import ENTRANCE, agree, posted, sent, shown
from cmsfs.service.web.session import WebSession

AT = "/web/at/{place}"
_FOLDER = AT + "/folders/{id}"
_ITEM = AT + "/items/{kind}/{id}"
_HERE = "/items/{kind}/{id}"
_SESSION = AT + "/send/sessions/{id}"


async def script(request: requests.Request) -> responses.Response:
    """Send the script; pages change its URL with its content."""
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return responses.Response(pages.script()[0], 200, headers, media_type="text/javascript")


async def first(session: WebSession) -> responses.Response:
    return session.go("/folders/0")


routes = [
    *ENTRANCE.routes,
    routing.Route("/web/page.js", script, methods=["GET"]),
    routing.Route(f"{AT}/logout", ENTRANCE.posted(ENTRANCE.log_out), methods=["POST"]),
    routing.Route(f"{AT}/terms", ENTRANCE.posted(agree), methods=["POST"]),
    routing.Route(AT, ENTRANCE.admitted(first), methods=["GET"]),
    routing.Route(_FOLDER, shown(folders.show), methods=["GET"]),
    routing.Route(_FOLDER, posted(folders.act, to="/folders/{id}"), methods=["POST"]),
    routing.Route(f"{_FOLDER}/new", posted(folders.make, to="/folders/{id}"), methods=["POST"]),
    routing.Route(_ITEM, shown(items.show), methods=["GET"]),
    routing.Route(_ITEM, posted(items.change, to=_HERE), methods=["POST"]),
    routing.Route(f"{_ITEM}/sharing", posted(sharing.change, to=_HERE), methods=["POST"]),
    routing.Route(f"{_ITEM}/content", shown(downloads.content), methods=["GET"]),
    routing.Route(f"{_ITEM}/preview", shown(downloads.preview), methods=["GET"]),
    routing.Route(f"{AT}/send/file", sent(uploads.file), methods=["POST"]),
    routing.Route(f"{AT}/send/folder", sent(uploads.folder), methods=["POST"]),
    routing.Route(AT + "/send/versions/{id}", sent(uploads.version), methods=["POST"]),
    routing.Route(AT + "/send/versions/{id}/sessions", sent(uploads.begin_version), methods=["POST"]),
    routing.Route(f"{AT}/send/sessions", sent(uploads.begin), methods=["POST"]),
    routing.Route(_SESSION, sent(uploads.part), methods=["PUT"]),
    routing.Route(_SESSION, sent(uploads.abort), methods=["DELETE"]),
    routing.Route(f"{_SESSION}/parts", sent(uploads.parts), methods=["GET"]),
    routing.Route(f"{_SESSION}/commit", sent(uploads.commit), methods=["POST"]),
    routing.Route(f"{AT}/search", shown(finds.search), methods=["GET"]),
    routing.Route(f"{AT}/recent", shown(finds.recent), methods=["GET"]),
    routing.Route(f"{AT}/favorites", shown(finds.favorites), methods=["GET"]),
    routing.Route(f"{AT}/shared", shown(sharing.show), methods=["GET"]),
    routing.Route(AT + "/shared/{id}", posted(sharing.answer, to="/shared"), methods=["POST"]),
    routing.Route(f"{AT}/trash", shown(trash.show), methods=["GET"]),
    routing.Route(f"{AT}/trash", posted(trash.act, to="/trash"), methods=["POST"]),
    routing.Route(AT + "/to/{action}/{id}", shown(moves.show), methods=["GET"]),
    routing.Route(AT + "/to/{action}/{id}", posted(moves.act, to="/folders/{id}"), methods=["POST"]),
    *ENTRANCE.last_routes,
]
