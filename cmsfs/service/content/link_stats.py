"""Download and preview counts of shared links, and what webhooks are told of downloads.

A fetch counts when it begins; one that goes on where another broke off is none of its own.
"""

from sqlite3 import Row

from starlette import requests

from cmsfs.service.access import calls
from cmsfs.service.events import webhook_triggers
from cmsfs.service.storage.store import Store


def of(call: calls.Call) -> int | None:
    """The item by whose link a caller comes to what is somebody else's."""
    shared = call.caller.shared
    return None if shared is None or shared.is_own else shared.item


async def count_download(opened: Store, request: requests.Request, link: int | None) -> None:
    """A file was fetched through the link of this item; None: through none."""
    if link is not None and begins(request):
        await opened.write(
            lambda conn: conn.execute(
                "INSERT INTO link_use (item, downloads) VALUES (?, 1)"
                " ON CONFLICT (item) DO UPDATE SET downloads = link_use.downloads + 1",
                (link,),
            )
        )


async def tell(opened: Store, trigger: str, row: Row, *, by: int) -> None:
    """Tell webhooks, if any is on the file, that it was fetched or looked at."""
    if webhook_triggers.is_watched(opened.read, trigger, row):
        now = opened.now()
        await opened.write(lambda conn: webhook_triggers.enqueue(conn, trigger, row, by=by, now=now))


def begins(request: requests.Request) -> bool:
    """Whether a request fetches a file from its beginning."""
    return request.headers.get("range", "bytes=0-").startswith("bytes=0-")


async def count_preview(call: calls.Call) -> None:
    """A file was looked at, perhaps through a link."""
    link = of(call)
    if link is not None:
        await call.store.write(
            lambda conn: conn.execute(
                "INSERT INTO link_use (item, previews) VALUES (?, 1)"
                " ON CONFLICT (item) DO UPDATE SET previews = link_use.previews + 1",
                (link,),
            )
        )
