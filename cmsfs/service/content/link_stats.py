"""Download and preview counts of shared links, and webhook events for downloads.

A download is counted when it begins; a request that resumes one is not counted again.
"""

from sqlite3 import Row

from starlette import requests

from cmsfs.service.access import calls
from cmsfs.service.events import webhook_triggers
from cmsfs.service.storage.store import Store


def link_used_by(call: calls.Call) -> int | None:
    """Return the item whose link gives the caller access to somebody else's item, or None."""
    shared = call.caller.shared
    return None if shared is None or shared.is_own else shared.item


async def count_download(opened: Store, request: requests.Request, link: int | None) -> None:
    """Count a download through the link of this item; None: through no link."""
    if link is not None and is_from_start(request):
        await opened.write(
            lambda conn: conn.execute(
                "INSERT INTO link_use (item, downloads) VALUES (?, 1)"
                " ON CONFLICT (item) DO UPDATE SET downloads = link_use.downloads + 1",
                (link,),
            )
        )


async def notify_webhooks(opened: Store, trigger: str, row: Row, *, by: int) -> None:
    """Queue webhook deliveries for a download or preview of an item, if a webhook subscribes to it."""
    if webhook_triggers.has_subscriber(opened.read, trigger, row):
        now = opened.now()
        await opened.write(lambda conn: webhook_triggers.enqueue(conn, trigger, row, by=by, now=now))


def is_from_start(request: requests.Request) -> bool:
    """Return whether a request downloads a file from its beginning."""
    return request.headers.get("range", "bytes=0-").startswith("bytes=0-")


async def count_preview(call: calls.Call) -> None:
    """Count a preview, if it came through a link."""
    link = link_used_by(call)
    if link is not None:
        await call.store.write(
            lambda conn: conn.execute(
                "INSERT INTO link_use (item, previews) VALUES (?, 1)"
                " ON CONFLICT (item) DO UPDATE SET previews = link_use.previews + 1",
                (link,),
            )
        )
