"""Downloads: redirects a content request to a signed URL, and serves that URL.

`GET /files/:id/content` redirects to a signed URL on the same host, valid for fifteen minutes, for any holder
and without a token, as clients of the public API expect.  `Prefer: return=representation` returns the bytes
at once and saves the second request.

With `--redirect-downloads` the URL points to the bucket and is valid for five minutes
(`storage/s3/presigned.py`); not for small files, watermarked files and tokens that are bound to an item.
Such a download is counted when the URL is issued.

Rule: a URL of the service stops working when the right to download ends, however long it is still valid:
rights are checked on each use.
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
        # Without an account only the current version is visible, as on the link's page.
        raise problems.not_found("file_version", str(version["id"]))
    may_redirect = call.caller.bound is None
    is_redirected = may_redirect and files.redirect_url(call.store, row, version) is not None
    if is_redirected or _prefers_bytes(call.request):
        await link_stats.count_download(call.store, call.request, link_stats.link_used_by(call))
        if link_stats.is_from_start(call.request):
            await link_stats.notify_webhooks(call.store, "FILE.DOWNLOADED", row, by=call.caller.id)
        return files.send(call.store, call.request, row, version, may_redirect=may_redirect)
    headers = {"Location": _signed_url(call, row, version), "Cache-Control": "no-store"}
    return responses.Response(status_code=302, headers=headers)


def _prefers_bytes(request: requests.Request) -> bool:
    wishes = ",".join(request.headers.getlist("prefer")).lower().replace(" ", "").split(",")
    return _PREFERENCE in wishes


def _signed_url(call: calls.Call, row: Row, version: Row) -> str:
    caller, url = call.caller, call.request.url
    token = call.store.url_signer.sign(
        _KIND,
        row["id"],
        version["id"],
        caller.id,
        caller.bound,
        stored_link_of(call),
        expires=call.store.now() + LIFETIME_SECONDS * 1_000_000,
    )
    return f"{url.scheme}://{url.netloc}/d/{token}/download"


async def fetch(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    found = opened.url_signer.verify(_KIND, request.path_params["word"], now=opened.now())
    if found is None:
        raise problems.not_found("download", "")
    file, version_id, user, bound, link = found
    row = _authorized_file(opened, file, user, bound, link)
    version = files.find_version(opened.read, row, str(version_id))
    await link_stats.count_download(opened, request, None if link is None else _item_of_link(opened, link))
    if link_stats.is_from_start(request):
        await link_stats.notify_webhooks(opened, "FILE.DOWNLOADED", row, by=user)
    return files.send(opened, request, row, version, may_redirect=bound is None)


def _item_of_link(opened: store.Store, stored_link: str) -> int | None:
    found = opened.read("SELECT id FROM item WHERE link = ?", stored_link.partition(" ")[0])
    return found[0]["id"] if found else None


def _authorized_file(opened: store.Store, file: int, user: int, bound: int | None, link: str | None) -> Row:
    """Return the file if the URL's user may still download it; 404 otherwise."""
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
    """Return the current rights of the URL's user; None if the account is gone or inactive."""
    users = opened.read("SELECT * FROM account WHERE id = ? AND status != 'inactive'", user)
    if not users:
        return None
    shared = None
    if link is not None:
        enterprise = users[0]["enterprise"]
        shared = shared_links.from_stored(
            opened.read, link, user=user, enterprise=enterprise, now=opened.now()
        )
    return access_rights.NotifiedUser(user, bound, shared)


def stored_link_of(call: calls.Call) -> str | None:
    """Return the token of the shared link that the request came through, if it belongs to somebody else."""
    shared = call.caller.shared
    return None if shared is None or shared.is_own else shared.stored


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
        errors=(416, 500),
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
        errors=(403, 416, 500, 503),
        public=True,
        more="The bytes, at the address that a download was redirected to, or once more a redirect to them.",
    ),
]
