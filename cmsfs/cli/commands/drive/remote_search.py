"""Searches at the service directly, if no drive is running."""

from cmsfs import config, errors
from cmsfs.auth import connect
from cmsfs.cli.support import asking
from cmsfs.client import name_resolution, remote_paths
from cmsfs.client.content import search as client_search
from cmsfs.client.session import Client
from cmsfs.ipc.searching import FoundItem, FoundItems
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.models.content import search as models_search
from cmsfs.query import parser


def results(settings: config.Settings, words: str, limit: int) -> FoundItems:
    """Return up to `limit` matches.  Raises `UserError`, `CmsfsError`."""
    found, total = _run(settings, words, limit)
    return FoundItems(entries=[_to_found_item(item) for item in found], total=total)


def documents(settings: config.Settings, words: str, limit: int) -> list[dict[str, object]]:
    """Return up to `limit` matches for JSON output, with all fields of the service."""
    return [remote_paths.as_json(item) for item in _run(settings, words, limit)[0]]


def _run(settings: config.Settings, words: str, limit: int) -> tuple[list[remote_paths.Found], int]:
    wanted = parser.parse(words)
    return asking.run(_search, settings, wanted, limit, seconds=asking.SECONDS + 0.2 * limit)


def _to_found_item(item: remote_paths.Found) -> FoundItem:
    size = int(item.size or 0) if isinstance(item, items.File) else None
    return FoundItem(type=item.type, path=remote_paths.path_of(item), size=size, modified_at=item.modified_at)


async def _search(
    settings: config.Settings, wanted: parser.ParsedSearch, limit: int
) -> tuple[list[remote_paths.Found], int]:
    """Return up to `limit` matches, and the total."""
    async with connect.open_backend(settings) as client:
        if wanted.metadata is not None and wanted.metadata.query:
            return await _by_metadata(client, settings, wanted, limit)
        query = (await _query(client, settings, wanted)).model_copy()
        query.fields = [*remote_paths.FIELDS, "path_collection"]
        query.limit = min(limit, models_search.MAX_LIMIT)
        found: list[remote_paths.Found] = []
        total = 0
        while len(found) < limit:
            query.offset = min(query.offset, models_search.MAX_OFFSET)
            page = await client.search.page(query)
            total = page.total_count
            known = {(one.type, one.id) for one in found}
            found += [one for one in page.entries if (one.type, one.id) not in known]
            query.offset += page.limit if page.limit > 0 else len(page.entries)
            if not page.entries or query.offset >= min(total, models_search.MAX_OFFSET):
                break
        return found[:limit], total


async def _by_metadata(
    client: Client, settings: config.Settings, wanted: parser.ParsedSearch, limit: int
) -> tuple[list[remote_paths.Found], int]:
    """Return matches of a metadata query; the total is one more than these if there are more."""
    assert wanted.metadata is not None
    paths = remote_paths.RemotePaths(client, settings)
    query = await name_resolution.find_metadata_query(
        client,
        wanted.metadata,
        folder=await _folder(paths, wanted.folders[0]) if wanted.folders else wire_names.ROOT_ID,
        fields=[*remote_paths.FIELDS, "path_collection"],
        limit=limit,
    )
    if query is None:
        raise errors.UserError(f"There is no metadata template {wanted.metadata.template}.")
    found: list[remote_paths.Found] = []
    while True:
        page = await client.search.by_metadata(query)
        found += page.entries
        if page.next_marker is None or len(found) >= limit:
            return found[:limit], len(found) + (page.next_marker is not None)
        query = query.model_copy(update={"marker": page.next_marker})


async def _folder(paths: remote_paths.RemotePaths, path: str) -> str:
    above = remote_paths.normal(path)
    return wire_names.ROOT_ID if above == "/" else (await paths.get_folder(above)).id


async def _query(
    client: Client, settings: config.Settings, wanted: parser.ParsedSearch
) -> models_search.Query:
    paths = remote_paths.RemotePaths(client, settings)
    owners = [await _owner(client, who) for who in wanted.owners]
    metadata = None
    if wanted.metadata is not None:
        metadata = await name_resolution.find_metadata(client, wanted.metadata)
        if metadata is None:
            raise errors.UserError(f"There is no metadata template {wanted.metadata.template}.")
    folders = [await _folder(paths, path) for path in wanted.folders]
    everything = client_search.EVERYTHING
    return wanted.query(everything=everything, folders=folders, owners=owners, metadata=metadata)


async def _owner(client: Client, who: str) -> str:
    if (found := await name_resolution.find_user(client, who)) is None:
        raise errors.UserError(f"There is no user {who}; owner: takes a login, a full name, an ID or me.")
    return found
