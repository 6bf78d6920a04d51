"""Downloads: redirects a content request to a signed URL, and serves that URL.

`GET /files/:id/content` is answered with a redirection to an address on the same host: signed, good for a
quarter of an hour, for everybody who has it and without a token, as clients of the public API expect it.
Who says `Prefer: return=representation` gets the bytes at once and is spared the second question.

With `--redirect-downloads` the address is in the bucket, for five minutes (`storage/s3/presigned.py`), for
what is not small, has no watermark and was asked for by a token that is not bound to items.  It is counted
when it is given.

Rule: an address of the service dies with the right to download, whatever time it has left: rights are judged
at each use.
"""

from sqlite3 import Row

from starlette import requests, responses

from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls, locks, shared_links
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import files, link_stats
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind, ItemStatus

LIFETIME_SECONDS = 900

_KIND = "download"
_PREFERENCE = "return=representation"


async def content(call: calls.Call) -> responses.Response:
    row = calls.get_item(call.store.read, call.caller, ItemKind.FILE, call.id)
    calls.check_download(call, row)
    version = files.find_version(call.store.read, row, call.request.query_params.get("version") or None)
    if call.caller.is_visitor and version["id"] != row["version"]:
        # Without an account one sees what is, as on the link's page.
        raise problems.not_found("file_version", str(version["id"]))
    may_redirect = call.caller.bound is None
    is_redirected = may_redirect and files.redirection(call.store, row, version) is not None
    if is_redirected or _wants_bytes(call.request):
        await link_stats.count_download(call.store, call.request, link_stats.of(call))
        if link_stats.begins(call.request):
            await link_stats.tell(call.store, "FILE.DOWNLOADED", row, by=call.caller.id)
        return files.send(call.store, call.request, row, version, may_redirect=may_redirect)
    headers = {"Location": _address(call, row, version), "Cache-Control": "no-store"}
    return responses.Response(status_code=302, headers=headers)


def _wants_bytes(request: requests.Request) -> bool:
    wishes = ",".join(request.headers.getlist("prefer")).lower().replace(" ", "").split(",")
    return _PREFERENCE in wishes


def _address(call: calls.Call, row: Row, version: Row) -> str:
    caller, url = call.caller, call.request.url
    word = call.store.url_signer.sign(
        _KIND,
        row["id"],
        version["id"],
        caller.id,
        caller.bound,
        link_named_by(call),
        expires=call.store.now() + LIFETIME_SECONDS * 1_000_000,
    )
    return f"{url.scheme}://{url.netloc}/d/{word}/download"


async def fetch(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    found = opened.url_signer.verify(_KIND, request.path_params["word"], now=opened.now())
    if found is None:
        raise problems.not_found("download", "")
    file, version_id, user, bound, link = found
    row = _judged(opened, file, user, bound, link)
    version = files.find_version(opened.read, row, str(version_id))
    await link_stats.count_download(opened, request, None if link is None else _linked(opened, link))
    if link_stats.begins(request):
        await link_stats.tell(opened, "FILE.DOWNLOADED", row, by=user)
    return files.send(opened, request, row, version, may_redirect=bound is None)


def _linked(opened: store.Store, word: str) -> int | None:
    found = opened.read("SELECT id FROM item WHERE link = ?", word.partition(" ")[0])
    return found[0]["id"] if found else None


def _judged(opened: store.Store, file: int, user: int, bound: int | None, link: str | None) -> Row:
    """The file, if the user for whom the address was made may still download it; 404 otherwise."""
    viewer = viewer_of(opened, user, bound, link)
    rows = opened.read("SELECT * FROM item WHERE id = ? AND kind = ?", file, ItemKind.FILE)
    if viewer is None or not rows or rows[0]["status"] != ItemStatus.ACTIVE:
        raise problems.not_found("download", "")
    if ItemRight.DOWNLOAD not in access_rights.View(opened.read, viewer).rights(rows[0]):
        raise problems.not_found("download", "")
    locks.check_download(rows[0], user, opened.now())
    return rows[0]


def viewer_of(
    opened: store.Store, user: int, bound: int | None, link: str | None
) -> access_rights.NotifiedUser | None:
    """For whom an address was made, as they are now; None if they may nothing any more."""
    users = opened.read("SELECT * FROM account WHERE id = ? AND status != 'inactive'", user)
    if not users:
        return None
    shared = None
    if link is not None:
        enterprise = users[0]["enterprise"]
        shared = shared_links.recall(opened.read, link, user=user, enterprise=enterprise, now=opened.now())
    return access_rights.NotifiedUser(user, bound, shared)


def link_named_by(call: calls.Call) -> str | None:
    """The word of the shared link that a request came by, if it is somebody else's."""
    shared = call.caller.shared
    return None if shared is None or shared.is_own else shared.kept


_VERSION = operations.Parameter("version", "The id of a version; without it the current one.")
_PREFER = operations.header("prefer", f"`{_PREFERENCE}`: the bytes themselves, not their address.")

routes = [
    Operation(
        "GET /files/{id}/content",
        content,
        "Download a file",
        status=302,
        query=[_VERSION],
        headers=[operations.SHARED_LINK, operations.RANGE, _PREFER],
        also={200: operations.BYTES, 206: operations.BYTES},
        errors=(416,),
        more="A redirect to the bytes, or the bytes themselves for clients that prefer that.",
    ),
]
public_routes = [
    Operation(
        "GET /d/{word}/download",
        fetch,
        "Download what an address stands for",
        operations.BYTES,
        headers=[operations.RANGE],
        also={206: operations.BYTES, 302: None},
        errors=(403, 416, 503),
        public=True,
        more="The bytes, at the address that a download was redirected to, or once more a redirect to them.",
    ),
]
