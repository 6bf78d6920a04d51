"""Tells what of a user's drives the service does not have, while no drive runs: `cmsfsd --unsent`.

The package asks before it is removed: afterwards nobody on the machine could tell.

Rule: it only looks; a tree that cannot be read is told as one, for what is in it is not known.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from cmsfs import database_files, output
from daemon.push import recovered_files


def report(states: Path) -> Iterator[str]:
    """A line for each account below the folder that has changes, or recovered files; with the place."""
    for database in sorted(states.glob("*/replica.db")):
        folder = database.parent
        try:
            found = [_unsent(database), _recovered(folder / "recovered")]
        except (sqlite3.Error, OSError) as error:
            yield f"account {folder.name}: its changes cannot be counted ({error}); they are in {folder}"
            continue
        if told := " and ".join(filter(None, found)):
            yield f"account {folder.name}: {told} in {folder}"


def _unsent(database: Path) -> str:
    with closing(database_files.connect(database, read_only=True)) as conn:
        (count,) = conn.execute("SELECT count(*) FROM op").fetchone()
    return f"{output.plural(count, 'change')} that the service does not have" if count else ""


def _recovered(folder: Path) -> str:
    count = len(recovered_files.waiting(folder))
    return output.plural(count, "recovered file") if count else ""
