"""`cmsfs search`: searches the service, and manages saved searches that the drive shows as folders.

A running drive is asked, which may work offline; otherwise the service.  On a drive, `.search/QUERY/`
contains the matches.

Rule: the query language is that of the drive's `.search` (`cmsfs.query`), so that a query works in both.
"""

import click

from cmsfs import config, errors, output
from cmsfs.cli.support import context, daemonctl, path_argument
from cmsfs.config import saved_searches
from cmsfs.ipc import control, searching
from cmsfs.query import filters

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
        if save is not None:
            _save(kept, save, words)
        elif as_json:
            _print_json(ctx.settings(), words, limit)
        else:
            _show(_search(ctx.settings(), words, limit), long=long)


def _save(kept: saved_searches.SavedSearches, name: str, words: str) -> None:
    from cmsfs.query import parser  # the models of the service

    parser.parse(words)
    kept.save(name, words)
    output.say(f"Saved; a drive shows its matches in .search/{name}.")


def _search(settings: config.Settings, words: str, limit: int) -> searching.FoundItems:
    if (daemon := daemonctl.find_account(settings.place)) is not None and daemon.stage == "mounted":
        request = control.SearchDrive(query=words, limit=limit)
        return daemonctl.ask(daemon, request, searching.FoundItems)
    from cmsfs.cli.commands.drive import remote_search  # the libraries of the client

    return remote_search.results(settings, words, limit)


def _print_json(settings: config.Settings, words: str, limit: int) -> None:
    """Print the items with all fields, which only the service has; without it those that a drive knows."""
    from cmsfs.cli.commands.drive import remote_search

    try:
        output.document(remote_search.documents(settings, words, limit))
    except* errors.Offline:
        found = _search(settings, words, limit)
        output.document([one.model_dump(mode="json") for one in found.entries])
        _note_partial(found)


def _note_partial(found: searching.FoundItems) -> None:
    if found.partial:
        output.note(f"Without the service: {found.partial}.")


def _kept(kept: saved_searches.SavedSearches, name: str | None, query: tuple[str, ...]) -> list[str]:
    """Return the words of a saved search; none without a name."""
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
    """Return the query as one text, with the quotes that the shell removed."""
    given = [*query, *([f"type:{kind}"] if kind else ()), *(_in(folder) if folder is not None else ())]
    return " ".join(_quoted(one) for one in given)


def _in(folder: str) -> list[str]:
    return [f"in:{filters.quoted(folder)}"]


def _quoted(argument: str) -> str:
    key, colon, value = argument.partition(":")
    if colon and key in filters.KEYS and " " in value and '"' not in value and not _has_filters(value):
        return f'{key}:"{value}"'
    return argument


def _has_filters(value: str) -> bool:
    return any(word.partition(":")[0] in filters.KEYS for word in value.split()[1:] if ":" in word)


def _show(found: searching.FoundItems, *, long: bool) -> None:
    if long:
        output.table([_row(item) for item in found.entries])
    else:
        for item in found.entries:
            output.say(item.path)
    if not found.entries:
        output.note("No matches.")
    elif found.total > len(found.entries):
        output.note(f"{found.total - len(found.entries):,} more matches; --limit shows more.")
    _note_partial(found)


def _show_saved(kept: saved_searches.SavedSearches, *, as_json: bool) -> None:
    queries = dict(sorted(kept.all().items()))
    if as_json:
        output.document(queries)
    elif queries:
        output.table([[name, query] for name, query in queries.items()])
    else:
        output.note(f"There are no saved searches; `{output.command()} search --save NAME QUERY` saves one.")


def _row(item: searching.FoundItem) -> list[str]:
    kind = next(word for word, wire in TYPES.items() if wire == item.type)
    size = output.size(item.size) if item.size is not None else ""
    when = item.modified_at.astimezone().strftime("%Y-%m-%d %H:%M") if item.modified_at else ""
    return [kind, size.rjust(8), when, item.path]
