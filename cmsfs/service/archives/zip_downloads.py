"""ZIP downloads of several files and folders: one URL for the archive, one for its status.

The user must see, and may download, every requested item; items below the folders are checked, and the
requested ones again, when the archive is downloaded.  The URLs need no token, as clients of the public API
expect.

A requested archive is kept in the memory of the process that received the request; where several processes
share a database, it is stored there as well, so that any of them can send the archive and report its status.

Rule: a URL is short-lived (LIFETIME_SECONDS) and bound to the requesting user: it gives access to nothing
that they may not download when it is used.
"""

import json
import logging
from collections import OrderedDict
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from starlette import requests, responses

from cmsfs.models import wire_names
from cmsfs.models.content import zip_downloads
from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.archives import archive_plan, zip_stream
from cmsfs.service.content import downloads, link_stats
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import engine, store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

log = logging.getLogger(__name__)

# A download has to begin within this time; later the client has to request it again.
LIFETIME_SECONDS = 60

# How long the status is available.
STATUS_SECONDS = 12 * 3600

# Most requested archives kept, the latest.
MAX_REMEMBERED = 1000

# Key prefix of shared values, followed by the archive's token.
_KEY_PREFIX = "zip."


@dataclass(slots=True)
class RequestedArchive:
    """An archive that a user requested."""

    items: list[int]
    name: str
    user: int
    bound: int | None
    link: str | None
    files: int
    made_at: int
    progress: zip_stream.ZipProgress | None = None
    told: dict[str, Any] | None = None  # the status reported by another process

    def status(self) -> dict[str, Any]:
        done = self.progress
        if done is None and self.told is not None:
            return self.told
        return {
            "total_file_count": self.files if done is None else done.plan.files,
            "downloaded_file_count": 0 if done is None else done.downloaded,
            "skipped_file_count": 0 if done is None else done.plan.skipped_files + done.lost,
            "skipped_folder_count": 0 if done is None else done.plan.skipped_folders,
            "state": "in_progress" if done is None else done.state,
        }

    def to_json(self) -> bytes:
        """Return what other processes need, as JSON."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "progress"}
        return json.dumps(found | {"told": None if self.progress is None else self.status()}).encode()


class RequestedArchives:
    """Recently requested archives, by the tokens in their URLs."""

    def __init__(self, opened: store.Store) -> None:
        self._known: OrderedDict[str, RequestedArchive] = OrderedDict()
        self._shared = opened.shared if opened.shared.receives_notifications else None

    async def add(self, archive: RequestedArchive) -> str:
        """Store an archive; return its token."""
        # The token begins with the time, so that expired entries are deleted as a range of names.
        token = f"{archive.made_at:016x}{chance.token_urlsafe(32)}"
        self.remember(token, archive)
        if self._shared is not None:
            over = archive.made_at - STATUS_SECONDS * 1_000_000
            await self._shared.drop_values(_KEY_PREFIX, f"{_KEY_PREFIX}{over:016x}")
            await self._shared.add_value(f"{_KEY_PREFIX}{token}", archive.to_json())
        return token

    def remember(self, token: str, archive: RequestedArchive) -> None:
        self._known[token] = archive
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    async def share_status(self, token: str, archive: RequestedArchive) -> None:
        """Share an archive's status with other processes, if the database is reachable."""
        if self._shared is not None:
            try:
                await self._shared.set_value(f"{_KEY_PREFIX}{token}", archive.to_json())
            except engine.DatabaseUnavailable as error:
                log.warning("the status of an archive is not shared: %s", error)

    def find(self, token: str, now: int, seconds: int) -> RequestedArchive:
        """Return an archive requested within the last `seconds`; 404 if there is none."""
        found = self._known.get(token)
        if self._shared is not None and (found is None or found.progress is None):
            noted = self._shared.value(f"{_KEY_PREFIX}{token}")
            found = None if noted is None else RequestedArchive(**json.loads(noted))
        if found is None or now - found.made_at > seconds * 1_000_000:
            raise problems.not_found("zip_download", "")
        return found


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(zip_downloads.NewZipDownload)
    opened = call.store
    numbers = list(dict.fromkeys(_check_item(call, one) for one in wish.items))
    now = opened.now()
    plan = await _plan(opened, call.caller, numbers, most=zip_downloads.MAX_FILES + 1, now=now)
    if plan.files > zip_downloads.MAX_FILES:
        message = f"An archive has at most {zip_downloads.MAX_FILES:,} files."
        raise problems.Refused(403, "operation_limit_exceeded", message)
    made = RequestedArchive(
        items=numbers,
        name=f"{(wish.download_file_name or 'download').removesuffix('.zip')}.zip",
        user=call.caller.id,
        bound=call.caller.bound,
        link=downloads.stored_link_of(call),
        files=plan.files,
        made_at=now,
    )
    token = await _requested_archives(call.request).add(made)
    url = call.request.url
    address = f"{url.scheme}://{url.netloc}/z/{token}"
    body = {
        "download_url": f"{address}/content",
        "status_url": f"{address}/status",
        "expires_at": item_serializer.to_timestamp(now + LIFETIME_SECONDS * 1_000_000),
        "name_conflicts": plan.conflicts,
    }
    return calls.answer(body, 202)


def _check_item(call: calls.Call, wish: zip_downloads.ZipTarget) -> int:
    """Return the number of an item that the caller may download."""
    if wish.id == wire_names.ROOT_ID:
        raise problems.invalid("items", "the root folder cannot be in an archive")
    kind = ItemKind.FOLDER if wish.type == "folder" else ItemKind.FILE
    row = calls.get_item(call.store.read, call.caller, kind, wish.id, needed=ItemRight.DOWNLOAD)
    if kind is ItemKind.FILE:
        calls.check_download(call, row)
    number: int = row["id"]
    return number


async def _plan(
    opened: store.Store, viewer: access_rights.Viewer, numbers: list[int], *, most: int, now: int
) -> archive_plan.ArchivePlan:
    return await opened.query(partial(archive_plan.make, viewer=viewer, wanted=numbers, most=most, now=now))


async def content(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    now = opened.now()
    archives, token = _requested_archives(request), request.path_params["word"]
    made = archives.find(token, now, LIFETIME_SECONDS)
    viewer = downloads.viewer_of(opened, made.user, made.bound, made.link)
    if viewer is None:
        raise problems.not_found("zip_download", "")
    plan = await _plan(opened, viewer, made.items, most=zip_downloads.MAX_FILES, now=now)
    progress = zip_stream.ZipProgress(plan)
    if request.method != "HEAD":
        made.progress = progress
        archives.remember(token, made)
        sql = "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
        for row in opened.read(sql, json.dumps(made.items)):
            kind = KIND_NAMES[ItemKind(row["kind"])].upper()
            await link_stats.notify_webhooks(opened, f"{kind}.DOWNLOADED", row, by=made.user)
    return zip_stream.ZipResponse(
        opened.blobs, made.name, progress, partial(archives.share_status, token, made)
    )


async def status(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    made = _requested_archives(request).find(request.path_params["word"], opened.now(), STATUS_SECONDS)
    return calls.answer(made.status())


def _requested_archives(request: requests.Request) -> RequestedArchives:
    archives: RequestedArchives = request.app.archives
    return archives


routes = [
    Operation(
        "POST /zip_downloads",
        create,
        "Ask for several files and folders as one archive",
        zip_downloads.ZipDownload,
        status=202,
        body=zip_downloads.NewZipDownload,
        headers=[operations.SHARED_LINK],
        errors=(404,),
        more="Items of one name get their ids into their names; both are told.  Web links are left out.",
    ),
]
public_routes = [
    Operation(
        "GET /z/{word}/content",
        content,
        "Download an archive",
        "application/zip",
        public=True,
        more="A ZIP archive, made while it is sent.  What may not be downloaded is left out and counted.",
    ),
    Operation(
        "GET /z/{word}/status",
        status,
        "How far the download of an archive is",
        zip_downloads.ZipDownloadStatus,
        public=True,
    ),
]
