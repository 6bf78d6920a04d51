"""Formats results: sentences, aligned tables, sizes and times for people; JSON for programs.

Rule: results go to standard output, everything else to standard error; with `--json` standard output
holds exactly one JSON document.  On a terminal what is not printable is shown (`\\e`, `\\u202e`): names and a
service's words are never obeyed.  A file or a pipe gets them as they are.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from cmsfs import errors, printable
from cmsfs.runtime import clock

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Give a command the option `--json` (parameter `as_json`)."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def say(text: str) -> None:
    """A result, on standard output."""
    _print(text)


def note(text: str) -> None:
    """Something by the way, on standard error."""
    _print(text, err=True)


def complain(text: str) -> None:
    """The sentence of a failure, on standard error."""
    if text:
        _print(f"cmsfs: {text}", err=True)


def printed(text: str, *, nl: bool = True) -> None:
    """A text of many lines that somebody wrote, on standard output."""
    _print(text, nl=nl)


def _print(text: str, *, err: bool = False, nl: bool = True) -> None:
    stream = sys.stderr if err else sys.stdout
    click.echo(printable.escaped(text, keep="\n\t") if stream.isatty() else text, nl=nl, err=err)


def confirm(question: str) -> bool:
    """A question that is answered by yes or no, on standard error.

    Raises `UserError` where nobody can answer; each command that asks has `--yes`.
    """
    try:
        return click.confirm(printable.escaped(question), err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise errors.UserError(
            "\nNobody answers: there is no terminal; --yes skips the question.", exit_code=2
        ) from None


def document(value: Any) -> None:
    """The one JSON document of a command."""
    click.echo(as_json(value, indent=2))


def as_json(value: Any, *, indent: int | None = None) -> str:
    """JSON as people read it: only what would not be seen is escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isascii():
        return text
    return "".join(
        one if one == "\n" or printable.is_seen(text, place) else json.dumps(one)[1:-1]
        for place, one in enumerate(text)
    )


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Rows in aligned columns; the last column is not padded."""
    if not rows:
        return
    if sys.stdout.isatty():
        rows = [[printable.escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        _print(indent + "  ".join([*cells, row[-1]]).rstrip())


def size(count: int) -> str:
    """Bytes for people: 0 B, 999 B, 1.2 kB, 34.5 MB."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} PB"


def ago(moment: datetime, *, now: datetime | None = None) -> str:
    """How long ago something was: 5 s ago, 3 min ago, 2 h ago, 4 days ago."""
    seconds = max(0, int(((now or clock.datetime_now(UTC)) - moment).total_seconds()))
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * length if unit == "days" else length):
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def plural(count: int, noun: str) -> str:
    """1 change, 2 changes, 1,234 changes."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def command() -> str:
    """How to call this very command in a shell: by name if it is on the PATH, else by its path."""
    beside = Path(sys.executable).parent / "cmsfs"
    found = shutil.which("cmsfs")
    if found and Path(found).resolve() == beside.resolve():
        return "cmsfs"
    return shlex.quote(str(beside))
