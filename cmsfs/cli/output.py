"""How results look: sentences, aligned tables, sizes and times, and JSON for programs.

Rule: results go to standard output, everything else to standard error; with `--json` standard output
holds exactly one JSON document.
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

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Give a command the option `--json` (parameter `as_json`)."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def say(text: str) -> None:
    """A result, on standard output."""
    click.echo(text)


def note(text: str) -> None:
    """Something by the way, on standard error."""
    click.echo(text, err=True)


def complain(text: str) -> None:
    """The sentence of a failure, on standard error."""
    if text:
        click.echo(f"cmsfs: {text}", err=True)


def document(value: Any) -> None:
    """The one JSON document of a command."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Rows in aligned columns; the last column is not padded."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        click.echo(indent + "  ".join([*cells, row[-1]]).rstrip())


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
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
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
