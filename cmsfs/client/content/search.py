"""The search endpoint: one page, or an iterator over all results.

Search is also how the drive lists and how it learns of changes; `EVERYTHING` and `FIELDS` are for that.
"""

from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import entries, items, metadata_queries, search

# A query is required and there is none for "all": everything but what holds a word that nothing holds.
EVERYTHING = 'NOT "qzxvkjwyhcmsfsqzxvkj"'

# What the drive asks of every item, and no more: a page of 200 is decoded on the event loop, and with
# all fields it is three times as large and takes four times as long (measured).
FIELDS = (
    # id and type come always; with these the row of the tree: place, version, bytes, times
    *("id", "type", "name", "parent", "etag", "sequence_id", "item_status", "trashed_at"),
    *("sha1", "file_version", "size", "created_at", "modified_at", "content_modified_at"),
    "url",  # a web link's text
    # shown as extended attributes
    *("owned_by", "description", "tags", "classification", "lock", "expires_at", "disposition_at"),
)
# Not among them: `path_collection` (the longest field; `parent` places an item, and the chain of parents
# comes with the folders themselves) and `permissions` (thirteen booleans; a right that is missing is
# learned from the answer to the change).

FIELDS_PARAM = {"fields": ",".join(FIELDS)}

# Of a single file also who changed it last.
FILE_PARAM = {"fields": ",".join((*FIELDS, "modified_by"))}


class SearchApi:
    """GET /search, and metadata queries."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/search"
        self._queries = f"{base_url}/metadata_queries/execute_read"

    async def page(self, query: search.Query) -> search.SearchResults:
        """The page that the query's offset and limit say, with `FIELDS` unless it names others."""
        params = query.params()
        return await self._wire.ask(
            search.SearchResults,
            "GET",
            self._url,
            kind="search",
            repeat=Repeat.READ,
            params=FIELDS_PARAM | params,
        )

    async def listing(self, query: search.Query) -> entries.EntryPage:
        """As `page`, its items as the drive's tree takes them."""
        params = query.params()
        return await self._wire.ask(
            entries.EntryPage,
            "GET",
            self._url,
            kind="search",
            repeat=Repeat.READ,
            params=FIELDS_PARAM | params,
        )

    async def by_metadata(
        self, query: metadata_queries.MetadataQuery
    ) -> metadata_queries.MetadataQueryResults:
        """The page of a metadata query that its marker says."""
        return await self._wire.ask(
            metadata_queries.MetadataQueryResults,
            "POST",
            self._queries,
            kind="search",
            repeat=Repeat.READ,
            body=query.body(),
        )

    def entries(self, query: search.Query) -> paging.ByOffset[items.Item]:
        """All entries from the query's offset on, each once, page by page as they are asked for.

        More than 10,000 cannot be reached: the page beyond raises `BadRequest`.
        """

        async def fetch(offset: int) -> search.SearchResults:
            return await self.page(query.model_copy(update={"offset": offset}))

        return paging.ByOffset(fetch, key=lambda item: (item.type, item.id), offset=query.offset)
