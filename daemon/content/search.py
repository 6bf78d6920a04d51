"""Runs the searches of `.search` at the service and maps the results to the tree.

`cmsfs.query` parses the query; the names in it, of folders, users and metadata templates, are resolved here.
Matches are placed by the replica, which knows recent local renames and deletions; an unknown match is placed
by the parent folders that the service returns.

Rule: one request per page, as pages are read; nothing is requested ahead.
"""

import errno
import json
import os
from collections.abc import Sequence
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client import name_resolution
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.models.content import items, metadata_queries, search
from cmsfs.query import metadata_terms, parser
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database
from cmsfs.vfs.virtual.search_results import Match
from daemon.content.local_search import LocalResults, LocalSearch
from daemon.content.match_places import FIELDS, MatchPlaces
from daemon.core.health import Health
from daemon.fetch import path_lookup
from daemon.fetch.hydrate import Hydrator

# The largest page of the service: searches on the drive are rare, and limited per minute.
PAGE = search.MAX_LIMIT


class RemoteSearch:
    """Implements `FinderPort` of the vfs over one client."""

    def __init__(
        self,
        db: Database,
        client: Client,
        hydrator: Hydrator,
        health: Health,
        local: LocalSearch | None = None,
    ) -> None:
        """`local`: the search to use while the service is unreachable."""
        self._db = db
        self._client = client
        self._hydrator = hydrator
        self._health = health
        self._local = local

    async def begin(self, text: str) -> "RunningSearch | LocalResults":
        """Begin a search.  Raises `UserError`, `FileNotFoundError`, `OSError`, `CmsfsError`."""
        wanted = parser.parse(text)
        if self._local is not None and self._health.is_offline:
            return await self._local.search(wanted, [self._known_folder(path) for path in wanted.folders])
        self._health.check()
        folders = [await self._folder(path) for path in wanted.folders]
        if not folders and (root := tree.root_id(self._db)) != wire_names.ROOT_ID:
            folders = [root]  # a drive with a folder as its root finds nothing outside it
        if wanted.metadata is not None and wanted.metadata.query:
            return await self._begin_query(wanted.metadata, folders)
        query = wanted.query(
            everything=EVERYTHING,
            folders=folders,
            owners=[await self._owner(who) for who in wanted.owners],
            metadata=await self._metadata(wanted.metadata) if wanted.metadata else None,
        )
        return RunningSearch(self._db, self._health, _SearchPages(self._client, query))

    async def _begin_query(
        self, asked: metadata_terms.MetadataSearch, folders: Sequence[str]
    ) -> "RunningSearch":
        folder = folders[0] if folders else wire_names.ROOT_ID
        with self._health.request("search"):
            query = await name_resolution.find_metadata_query(
                self._client, asked, folder=folder, fields=FIELDS, limit=PAGE
            )
        if query is None:
            raise _absent(f"metadata template {asked.template}")
        return RunningSearch(self._db, self._health, _QueryPages(self._client, query))

    def _known_folder(self, path: str) -> Ino:
        ino = ROOT
        for name in filter(None, path.split("/")):
            node = tree.find_child(self._db, ino, name)
            if node is None or not node.is_folder:
                raise _absent(f"folder {path}")
            ino = node.ino
        return ino

    async def _folder(self, path: str) -> str:
        try:
            node = await path_lookup.find(self._db, self._hydrator, path)
        except errors.UserError:
            self._health.check()
            raise _absent(f"folder {path}") from None
        if not node.is_folder:
            raise errors.UserError(f"in: takes a folder, and {path} is none.", exit_code=2)
        if node.remote_id is None:
            raise _absent(f"folder {path} at the service yet")
        return node.remote_id

    async def _owner(self, who: str) -> str:
        """Return the ID of a user given by login, name or ID, or `me`."""
        # Owners of items are known locally; few users may list the users of the enterprise.
        if who != "me" and (found := await self._db.query(lambda conn: _known_owner(conn, who))):
            return found
        with self._health.request("search"):
            known = await name_resolution.find_user(self._client, who)
        if known is None:
            raise _absent(f"user {who}; owner: takes a login, a full name, an ID or me")
        return known

    async def _metadata(self, asked: metadata_terms.MetadataSearch) -> search.MetadataFilter:
        with self._health.request("search"):
            found = await name_resolution.find_metadata(self._client, asked)
        if found is None:
            raise _absent(f"metadata template {asked.template}")
        return found


class _SearchPages:
    """The pages of a search."""

    def __init__(self, client: Client, query: search.Query) -> None:
        self._client = client
        self._query = query.model_copy(update={"fields": FIELDS, "limit": PAGE})
        self._offset = 0
        self.total = 0
        self.is_complete = False

    async def next(self) -> Sequence[items.Item]:
        query = self._query.model_copy(update={"offset": self._offset})
        # `limit` and `offset` were not given by whoever made the query, and only what was given is sent.
        query.model_fields_set.update(("fields", "limit", "offset"))
        page = await self._client.search.page(query)
        self.total = page.total_count
        # A page may be short: the service removes items without access after paging.
        self._offset += page.limit if page.limit > 0 else len(page.entries)
        self.is_complete = not page.entries or self._offset >= min(page.total_count, search.MAX_OFFSET)
        return page.entries


class _QueryPages:
    """The pages of a metadata query, which nobody counts: `total` is what has come, and one if more will."""

    def __init__(self, client: Client, query: metadata_queries.MetadataQuery) -> None:
        self._client = client
        self._query = query
        self._count = 0
        self.total = 0
        self.is_complete = False

    async def next(self) -> Sequence[items.Item]:
        page = await self._client.search.by_metadata(self._query)
        self._query = self._query.model_copy(update={"marker": page.next_marker})
        self._count += len(page.entries)
        self.is_complete = page.next_marker is None
        self.total = self._count + (not self.is_complete)
        return page.entries


class RunningSearch:
    """A search in progress; implements `SearchPort`."""

    partial = ""

    def __init__(self, db: Database, health: Health, pages: _SearchPages | _QueryPages) -> None:
        self._health = health
        self._pages = pages
        self._places = MatchPlaces(db)

    @property
    def total(self) -> int:
        return self._pages.total

    @property
    def is_complete(self) -> bool:
        return self._pages.is_complete

    async def more(self) -> Sequence[Match]:
        """Return the next page of matches on this drive.  Cancelled: it can be requested again."""
        with self._health.request("search"):
            entries = await self._pages.next()
        return [match for item in entries if (match := self._places.of(item)) is not None]

    def is_gone(self, match: Match) -> bool:
        """See `SearchPort.is_gone`."""
        return self._places.is_gone(match)


def _known_owner(conn: Connection, who: str) -> str | None:
    """Return the ID of an owner of something in the replica, by login or name."""
    rows = conn.execute(
        "SELECT DISTINCT json_extract(item, '$.owned_by') FROM node WHERE item IS NOT NULL"
    ).fetchall()
    for (text,) in rows:
        owner = json.loads(text or "{}")
        if name_resolution.is_called(who, owner.get("login"), owner.get("name")):
            return str(owner.get("id"))
    return None


def _absent(what: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), what)
