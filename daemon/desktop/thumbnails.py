"""Downloads thumbnails of a photo folder before a file manager would create its own.

To create thumbnails, a file manager reads every photo of a folder, which downloads them all.  With the
setting `thumbnails`, when a folder is opened, its thumbnails are first downloaded from the service
(`representations`) to the desktop's cache, a few kB each; opening the folder waits briefly for them.

Images from the service are decoded and scaled in the worker process, never in this one.

Rule: errors here never fail the opening of a folder; without a thumbnail, the file manager reads the photo.
"""

import logging
import tempfile
from collections import OrderedDict
from pathlib import Path

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.runtime import threads
from cmsfs.service.worker import worker_client
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core.health import Health
from daemon.desktop import thumbnail_cache

log = logging.getLogger(__name__)

# File types for which both file managers and the service create thumbnails.
IMAGES = frozenset(("bmp", "gif", "jfif", "jpe", "jpeg", "jpg", "png", "tif", "tiff", "webp"))

# The smallest size offered by the service that is not below the largest cached size.
HINTS = {256: "[jpg?dimensions=320x320]", 512: "[jpg?dimensions=1024x1024]"}
MAX_BYTES = 1024 * 1024

# Opening a folder waits this long for its thumbnails; the rest are downloaded in the background.
WAIT_SECONDS = 3.0

# Limits: thumbnails per folder, waiting folders, parallel requests, and seconds per thumbnail.
MOST = 500
FOLDERS = 8
AT_ONCE = 4
PICTURE_SECONDS = 20.0

# Number of contents without a thumbnail that are remembered.
REMEMBERED = 10_000


class Thumbnails:
    """Fills `cache` (`~/.cache/thumbnails`) for files below `mountpoint`."""

    def __init__(self, db: Database, client: Client, health: Health, mountpoint: Path, cache: Path) -> None:
        self._db = db
        self._client = client
        self._health = health
        self._mountpoint = mountpoint
        self._cache = cache
        self._waiting: OrderedDict[Ino, trio.Event] = OrderedDict()
        self._came = Signal()
        self._none: OrderedDict[str, None] = OrderedDict()
        self._worker = trio.Lock()
        self.made = 0

    async def opened(self, folder: Ino) -> None:
        """Request the thumbnails of a folder that is being opened, and wait briefly.  Never raises."""
        if not self._health.may_work or not self._photos(folder):
            return
        done = self._waiting.setdefault(folder, trio.Event())
        self._waiting.move_to_end(folder)
        while len(self._waiting) > FOLDERS:
            self._waiting.popitem(last=False)[1].set()
        self._came.set()
        with trio.move_on_after(WAIT_SECONDS):
            await done.wait()

    async def run(self) -> None:
        """Download the thumbnails of opened folders, the latest first, until cancelled."""
        async with worker_client.open_worker() as shop:
            while True:
                while not self._waiting:
                    self._came.clear()
                    await shop.stop()
                    await self._came.wait()
                folder, done = self._waiting.popitem()
                try:
                    await self._fill(folder, shop)
                finally:
                    done.set()

    async def _fill(self, folder: Ino, shop: worker_client.WorkerClient) -> None:
        photos = self._photos(folder)
        above = self._mountpoint / tree.path(self._db, folder).lstrip("/")
        stale = await threads.run_sync(self._stale, above, photos)
        limiter = trio.CapacityLimiter(AT_ONCE)
        async with trio.open_nursery() as nursery:
            for photo in stale:
                await limiter.acquire_on_behalf_of(photo.ino)
                nursery.start_soon(self._one, above, photo, shop, limiter)

    def _photos(self, folder: Ino) -> list[Node]:
        found: list[Node] = []
        name = ""
        while len(found) < MOST and (page := tree.children_by_name(self._db, folder, after=name)):
            found += [node for node in page if self._is_photo(node)]
            name = page[-1].name
        return found[:MOST]

    def _is_photo(self, node: Node) -> bool:
        # Local changes have no thumbnail at the service.
        return (
            node.kind is NodeKind.FILE
            and node.remote_id is not None
            and node.draft is None
            and node.sha1 is not None
            and node.sha1 == node.base_sha1
            and node.sha1 not in self._none
            and node.name.rpartition(".")[2].lower() in IMAGES
        )

    def _stale(self, above: Path, photos: list[Node]) -> list[Node]:
        return [one for one in photos if not self._is_fresh(above, one)]

    def _is_fresh(self, above: Path, photo: Node) -> bool:
        uri = thumbnail_cache.uri(above / photo.name)
        return thumbnail_cache.is_fresh(self._cache, uri, photo.mtime_ns // 10**9)

    async def _one(
        self, above: Path, photo: Node, shop: worker_client.WorkerClient, limiter: trio.CapacityLimiter
    ) -> None:
        assert photo.remote_id is not None and photo.sha1 is not None
        try:
            with trio.move_on_after(PICTURE_SECONDS), self._health.request("thumbnail"):
                hints = HINTS[max(thumbnail_cache.sizes(self._cache).values())]
                small = await self._client.representations.read(photo.remote_id, hints, limit=MAX_BYTES)
                if small is None:
                    self._has_none(photo.sha1)
                else:
                    await self._keep(above, photo, small, shop)
        except (errors.CmsfsError, OSError, ValueError) as error:
            log.info("no thumbnail of %s: %s", photo.name, error)
        except worker_client.WorkerFailed as error:
            log.info("the thumbnail of %s is unusable: %s", photo.name, error)
            self._has_none(photo.sha1)
        finally:
            limiter.release_on_behalf_of(photo.ino)

    async def _keep(self, above: Path, photo: Node, small: bytes, shop: worker_client.WorkerClient) -> None:
        uri, mtime = thumbnail_cache.uri(above / photo.name), photo.mtime_ns // 10**9
        with tempfile.TemporaryDirectory(prefix="cmsfs-") as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            source.write_bytes(small)
            for size, pixels in thumbnail_cache.sizes(self._cache).items():
                job = {"what": "picture", "extension": "png", "width": pixels, "height": pixels}
                async with self._worker:
                    await shop.run_job(job | {"source": str(source), "target": str(target)})
                thumbnail_cache.write(self._cache, size, uri, mtime, target.read_bytes())
        self.made += 1

    def _has_none(self, sha1: str) -> None:
        self._none[sha1] = None
        while len(self._none) > REMEMBERED:
            self._none.popitem(last=False)
