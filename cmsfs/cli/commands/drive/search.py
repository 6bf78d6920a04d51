"""`cmsfs search`: searches the service, and manages saved searches that the drive shows as folders.

Straight through the client, so it works without a drive, too; on a drive `.search/QUERY/` holds the matches.

Rule: the words are those of the drive's `.search` (`cmsfs.query`), so that what was tried here can be
used there.
"""

import click

from cmsfs import config, errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, path_argument
from cmsfs.client import name_resolution, remote_paths
from cmsfs.client.content import search as client_search
from cmsfs.client.session import Client
from cmsfs.config import saved_searches
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.models.content import search as models_search
from cmsfs.query import parser

TYPES = {"file": "file", "folder": "folder", "link": "web_link"}


@click.command()
@click.argument("query", nargs=-1)
@click.option(
    "--type", "kind", type=click.Choice(list(TYPES)), help="Filter by type, like type: in the query."
)
@click.option(
    "--in",
    "folder",
    type=path_argument.PATH,
    metavar="REMOTE",
    help="Search below this folder, like in: in the query.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of results."
)
@click.option("-l", "--long", is_flag=True, help="Show type, size and time, too.")
@click.option(
    "--save",
    metavar="NAME",
    help="Save QUERY under a name instead of searching; the drive shows it as .search/NAME.",
)
@click.option("--run", metavar="NAME", help="Run a saved search instead of QUERY.")
@click.option("--saved", is_flag=True, help="List saved searches.")
@click.option("--forget", metavar="NAME", help="Delete a saved search.")
@output.json_option
@context.pass_context
def search(
    ctx: context.Context,
    query: tuple[str, ...],
    *,
    kind: str | None,
    folder: str | None,
    limit: int,
    long: bool,
    save: str | None,
    run: str | None,
    saved: bool,
    forget: str | None,
    as_json: bool,
) -> None:
    """Search names, descriptions and contents, and print the paths of matches.

    QUERY consists of words, "phrases", AND, OR, NOT, and filters, which must all match:
    type:file, ext:pdf,odt, in:Legal/Contracts, owner:LOGIN, size:1M..10M, modified:2026-03, created:7d,
    content:name, metadata:TEMPLATE.FIELD=VALUE.  Or one condition on metadata alone, perhaps with in:,
    metadata:"TEMPLATE where FIELD > VALUE AND (FIELD LIKE 'TEXT%' OR FIELD IS NULL)".
    """
    kept = saved_searches.SavedSearches(ctx.settings().paths.searches, ctx.settings().account)
    if sum((save is not None, run is not None, saved, forget is not None)) > 1:
        raise click.UsageError("--save, --run, --saved and --forget are mutually exclusive.")
    if forget is not None:
        if not kept.remove(forget):
            raise errors.UserError(f"There is no saved search {forget!r}.")
        output.say(f"Deleted the saved search {forget}.")
    elif saved:
        _show_saved(kept, as_json=as_json)
    else:
        words = " ".join(part for part in (*_kept(kept, run, query), _words(query, kind, folder)) if part)
        wanted = parser.parse(words)
        if save is not None:
            kept.save(save, words)
            output.say(f"Saved; a drive shows its matches in .search/{save}.")
            return
        found, total = asking.run(_search, ctx, wanted, limit, seconds=asking.SECONDS + 0.2 * limit)
        _show(found, total, long=long, as_json=as_json)


def _kept(kept: saved_searches.SavedSearches, name: str | None, query: tuple[str, ...]) -> list[str]:
    """The words that are kept under a name, as they were written; none without a name."""
    if name is None:
        return []
    if query:
        raise click.UsageError("--run takes no QUERY, only --type and --in.")
    if (found := kept.all().get(name)) is None:
        raise errors.UserError(
            f"There is no saved search {name!r}; `{output.command()} search --saved` lists them."
        )
    return [found]


def _words(query: tuple[str, ...], kind: str | None, folder: str | None) -> str:
    """The query as one text: what the shell took the quotes from gets them back."""
    given = [*query, *([f"type:{kind}"] if kind else ()), *(_in(folder) if folder is not None else ())]
    return " ".join(_quoted(one) for one in given)


def _in(folder: str) -> list[str]:
    return [f"in:{parser.quoted(folder)}"]


def _quoted(argument: str) -> str:
    key, colon, value = argument.partition(":")
    if colon and key in parser.KEYS and " " in value and '"' not in value and not _has_filters(value):
        return f'{key}:"{value}"'
    return argument


def _has_filters(value: str) -> bool:
    return any(word.partition(":")[0] in parser.KEYS for word in value.split()[1:] if ":" in word)


async def _search(
    ctx: context.Context, wanted: parser.ParsedSearch, limit: int
) -> tuple[list[remote_paths.Found], int]:
    """Up to so many matches, and how many there are."""
    settings = ctx.settings()
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
    """Matches of a metadata query; there is one more than these if there are more."""
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


def _show(found: list[remote_paths.Found], total: int, *, long: bool, as_json: bool) -> None:
    if as_json:
        output.document([remote_paths.as_json(item) for item in found])
        return
    if long:
        output.table([_row(item) for item in found])
    else:
        for item in found:
            output.say(remote_paths.path_of(item))
    if not found:
        output.note("No matches.")
    elif total > len(found):
        output.note(f"{total - len(found):,} more matches; --limit shows more.")


def _show_saved(kept: saved_searches.SavedSearches, *, as_json: bool) -> None:
    queries = dict(sorted(kept.all().items()))
    if as_json:
        output.document(queries)
    elif queries:
        output.table([[name, query] for name, query in queries.items()])
    else:
        output.note(f"There are no saved searches; `{output.command()} search --save NAME QUERY` saves one.")


def _row(item: remote_paths.Found) -> list[str]:
    kind = next(word for word, wire in TYPES.items() if wire == item.type)
    size = output.size(int(item.size or 0)) if isinstance(item, items.File) else ""
    when = item.modified_at.astimezone().strftime("%Y-%m-%d %H:%M") if item.modified_at else ""
    return [kind, size.rjust(8), when, remote_paths.path_of(item)]
