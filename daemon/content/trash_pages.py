"""The items in the service's trash, page by page."""

import logging
from collections.abc import Sequence

from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.content.trash import TRASH_FIELDS
from cmsfs.client.session import Client
from cmsfs.models.content import search
from cmsfs.replica.nodes import Remote, remote_from_item
from daemon.core.health import Health

log = logging.getLogger(__name__)


class Listed:
    """The trash, read by its own listing."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health
        self._marker: str | None = None
        self._ended = False

    async def next(self) -> Sequence[Remote]:
        while not self._ended:
            self._health.check()
            with self._health.request("trash"):
                page = await self._client.trash.page(self._marker)
            self._ended = not page.next_marker or page.next_marker == self._marker
            self._marker = page.next_marker
            if page.entries:
                return [remote_from_item(item) for item in page.entries]
        return []


class Searched:
    """The trash, read by search if there is no listing: its first ten thousand items."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health
        self._offset = 0
        self._ended = False

    async def next(self) -> Sequence[Remote]:
        if self._ended:
            return []
        query = search.Query(
            query=EVERYTHING,
            trash_content="trashed_only",
            fields=list(TRASH_FIELDS),
            limit=search.MAX_LIMIT,
            offset=self._offset,
        )
        self._health.check()
        with self._health.request("trash"):
            page = await self._client.search.page(query)
        self._offset += page.limit or len(page.entries)
        self._ended = self._offset >= page.total_count or self._offset > search.MAX_OFFSET
        if self._ended and self._offset < page.total_count:
            log.warning("the trash has more items than a search can return; the oldest are not shown")
        return [remote_from_item(item) for item in page.entries]
