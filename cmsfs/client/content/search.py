"""The search endpoint: one page, or an iterator over all results.

The drive also uses search to list all items and to find changes, with `EVERYTHING` and `FIELDS`.
"""

from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import entries, items, metadata_queries, search

# A query is required, and there is none for "all": everything that does not contain a word that never occurs.
EVERYTHING = 'NOT "qzxvkjwyhcmsfsqzxvkj"'

# The fields that the drive needs of every item, and no more: a page of 200 is decoded on the event loop;
# with all fields it is three times as large and takes four times as long (measured).
FIELDS = (
    # id and type are always sent; the others fill the row of the tree: location, version, content, times
    *("id", "type", "name", "parent", "etag", "sequence_id", "item_status", "trashed_at"),
    *("sha1", "file_version", "size", "created_at", "modified_at", "content_modified_at"),
    "url",  # the contents of a web link's file
    # shown as extended attributes
    *("owned_by", "description", "tags", "classification", "lock", "expires_at", "disposition_at"),
)
# Not included: `path_collection` (the longest field; `parent` locates an item, and the ancestors are listed
# as folders themselves) and `permissions` (thirteen booleans; a missing permission shows in the response to
# the change).

FIELDS_PARAM = {"fields": ",".join(FIELDS)}

# For a single file also who modified it last.
FILE_PARAM = {"fields": ",".join((*FIELDS, "modified_by"))}


class SearchApi:
    """GET /search, and metadata queries."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/search"
        self._queries = f"{base_url}/metadata_queries/execute_read"

    async def page(self, query: search.Query) -> search.SearchResults:
        """Return the page at the query's offset and limit, with `FIELDS` unless the query names others."""
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
        """Return the same page as `page`, as lean entries for the drive's tree."""
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
        """Return the page of a metadata query at its marker."""
        return await self._wire.ask(
            metadata_queries.MetadataQueryResults,
            "POST",
            self._queries,
            kind="search",
            repeat=Repeat.READ,
            body=query.body(),
        )

    def entries(self, query: search.Query) -> paging.ByOffset[items.Item]:
        """Return all entries from the query's offset on, without duplicates; pages are requested as needed.

        Raises `BadRequest` beyond the first 10,000 entries.
        """

        async def fetch(offset: int) -> search.SearchResults:
            return await self.page(query.model_copy(update={"offset": offset}))

        return paging.ByOffset(fetch, key=lambda item: (item.type, item.id), offset=query.offset)
