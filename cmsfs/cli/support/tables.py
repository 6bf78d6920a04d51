"""Prints records of the service: several as a table, one as key-value lines, or as JSON.

`--fields` selects the fields to show, by dotted names (`enterprise.name`); without it, a table has the
columns of its command, and a single record all of its fields.

Rule: all pages are fetched unless `--limit` is given.
"""

import sys
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
import pydantic

from cmsfs import errors, output

F = TypeVar("F", bound=Callable[..., Any])

# The progress line on a terminal is updated after this many records.
COUNTED = 200


def _split(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (value or "").split(",") if name.strip())
    if value is not None and not names:
        raise click.BadParameter("give at least one field.", ctx, param)
    return names


def fields_option(example: str) -> Callable[[F], F]:
    """Give a command the option `--fields` (parameter `fields`, a tuple of dotted names), with an example."""
    return click.option(
        "--fields", metavar="NAMES", callback=_split, help=f"Fields to show, comma-separated: {example}."
    )


def limit_option(command: F) -> F:
    """Give a command the option `--limit` (parameter `limit`, None for all)."""
    return click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows (default: all).")(
        command
    )


def requested_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the fields to request from the service: the first part of each name."""
    return tuple(dict.fromkeys(name.split(".")[0] for name in fields))


async def collected(entries: AsyncIterable[Any], noun: str, *, limit: int | None = None) -> list[Any]:
    """Return the entries of all pages; show their count on standard error meanwhile."""
    found: list[Any] = []
    shown = False
    async for entry in entries:
        found.append(entry)
        if len(found) == limit:
            break
        if len(found) % COUNTED == 0 and sys.stderr.isatty():
            click.echo(f"\r{output.plural(len(found), noun)} …", nl=False, err=True)
            shown = True
    if shown:
        click.echo("\r\033[K", nl=False, err=True)
    return found


def show_all(
    found: Sequence[pydantic.BaseModel],
    columns: Sequence[str],
    *,
    noun: str,
    fields: Sequence[str] = (),
    as_json: bool,
) -> None:
    """Print records: a table with a line of names above it, or a JSON list."""
    documents = [_document(record) for record in found]
    wanted = fields or columns
    _check(documents, found, fields)
    if as_json:
        output.document([_chosen(one, fields) for one in documents])
    elif documents:
        output.table([list(wanted), *([_text(_value(one, name)) for name in wanted] for one in documents)])
    else:
        output.note(f"There is no {noun}.")


def show(record: pydantic.BaseModel, *, fields: Sequence[str] = (), as_json: bool) -> None:
    """Print one record: a line for each field that has a value, or a JSON object."""
    document = _document(record)
    _check([document], [record], fields)
    if as_json:
        output.document(_chosen(document, fields))
        return
    rows = [(name, _text(_value(document, name))) for name in (fields or _leaves(document))]
    output.table([row for row in rows if fields or row[1]])


def _document(record: pydantic.BaseModel) -> dict[str, Any]:
    return record.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _check(
    documents: Sequence[Mapping[str, Any]], found: Sequence[pydantic.BaseModel], fields: Sequence[str]
) -> None:
    """Raises `UserError` for a field that records of this kind do not have."""
    for name in fields:
        first = name.split(".")[0]
        models = {type(record) for record in found}
        known = {info.alias or key for model in models for key, info in model.model_fields.items()}
        if found and first not in known and not any(first in one for one in documents):
            raise errors.UserError(f"There is no field {first!r}; available are {', '.join(sorted(known))}.")


def _chosen(document: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: _value(document, name) for name in fields} if fields else document


def _value(document: Mapping[str, Any], name: str) -> Any:
    value: Any = document
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _leaves(document: Mapping[str, Any], above: str = "") -> list[str]:
    names: list[str] = []
    for key, value in document.items():
        names += _leaves(value, f"{above}{key}.") if isinstance(value, Mapping) else [f"{above}{key}"]
    return names


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case [*entries]:
            return ", ".join(_text(entry) for entry in entries)
        case Mapping():
            words = [_text(value.get(key)) for key in ("name", "displayName", "login", "key", "id")]
            return next((word for word in words if word), "")
        case str() if (moment := _moment(value)) is not None:
            return moment.astimezone().strftime("%Y-%m-%d %H:%M")
        case _:
            # A name with a line break in it must not look like two records.
            return " ".join(str(value).split())


def _moment(text: str) -> datetime | None:
    if len(text) < 20 or text[4:5] != "-" or text[10:11] != "T":
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
