"""The undo log of a restore, on the local disk: one line for each change, written before the change.

Rule: a line holds the item's previous state, not an action, so a line whose change never happened is
harmless.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from cmsfs.client.history.as_of import ItemState

_FOLDER, _ENDED = "folder", "ended"


class UndoLog:
    """The changes of one restore; `read` yields the last one first.

    The next restore of the same folder continues an interrupted one; the log then covers both.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, folder: str) -> IO[str]:
        """Open the log and discard the previous restore, unless that was of this folder (its id) and
        unfinished.  The caller closes the file."""
        is_continued = self._is_unfinished(folder)
        mode = os.O_APPEND if is_continued else os.O_TRUNC
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | mode, 0o600)
        file = os.fdopen(descriptor, "a", encoding="utf-8")
        if not is_continued:
            _write(file, {_FOLDER: folder})
        return file

    @staticmethod
    def note(file: IO[str], before: ItemState) -> None:
        kind, number = before.key
        line = {"kind": kind, "id": number, "name": before.name, "parent": before.parent}
        _write(file, {**line, "version": before.version, "trashed": before.is_trashed})

    @staticmethod
    def end(file: IO[str]) -> None:
        """Mark the restore as finished, so that the next one starts a new log."""
        _write(file, {_ENDED: True})

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        lines = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue  # truncated by a crash, so its change never began
        return lines

    def _is_unfinished(self, folder: str) -> bool:
        lines = self._lines()
        return bool(lines) and lines[0].get(_FOLDER) == folder and _ENDED not in lines[-1]

    def read(self) -> Iterator[ItemState]:
        """Yield each item's state before the restore, last changed first; nothing if there was no restore."""
        seen = set()
        states = []
        for line in self._lines():
            if "kind" not in line:
                continue
            key = line["kind"], line["id"]
            if key not in seen:
                # The state before the first change of the item counts.
                seen.add(key)
                states.append(
                    ItemState(
                        key,
                        line["name"],
                        line["parent"],
                        version=line["version"],
                        is_trashed=line["trashed"],
                    )
                )
        yield from reversed(states)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _write(file: IO[str], line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()
