"""What a restore has done, on this disk, so that it can be undone: a line for each change, before it.

Rule: a line says how the item was before, never what to do: a line whose change never happened does no harm.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from cmsfs.client.history.as_of import ItemState

_FOLDER, _ENDED = "folder", "ended"


class UndoLog:
    """The changes of one restore, the last of which `read` gives first.

    A restore that was interrupted goes on with the next one of the same folder: the log is of both, then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, folder: str) -> IO[str]:
        """Forget the restore before, unless it was of this folder (its id) and has not ended; close what is
        returned."""
        goes_on = self._is_open(folder)
        mode = os.O_APPEND if goes_on else os.O_TRUNC
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | mode, 0o600)
        file = os.fdopen(descriptor, "a", encoding="utf-8")
        if not goes_on:
            _write(file, {_FOLDER: folder})
        return file

    @staticmethod
    def note(file: IO[str], before: ItemState) -> None:
        kind, number = before.key
        line = {"kind": kind, "id": number, "name": before.name, "parent": before.parent}
        _write(file, {**line, "version": before.version, "trashed": before.is_trashed})

    @staticmethod
    def end(file: IO[str]) -> None:
        """The restore was carried through, so the next one is another."""
        _write(file, {_ENDED: True})

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        said = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                said.append(json.loads(line))
            except ValueError:
                continue  # cut off in the middle, so its change never began
        return said

    def _is_open(self, folder: str) -> bool:
        lines = self._lines()
        return bool(lines) and lines[0].get(_FOLDER) == folder and _ENDED not in lines[-1]

    def read(self) -> Iterator[ItemState]:
        """How each item was before it was changed, the last change first; nothing without a restore."""
        seen = set()
        states = []
        for said in self._lines():
            if "kind" not in said:
                continue
            key = said["kind"], said["id"]
            if key not in seen:
                # What counts is how it was before the first of its changes.
                seen.add(key)
                states.append(
                    ItemState(
                        key,
                        said["name"],
                        said["parent"],
                        version=said["version"],
                        is_trashed=said["trashed"],
                    )
                )
        yield from reversed(states)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _write(file: IO[str], line: dict[str, Any]) -> None:
    file.write(json.dumps(line) + "\n")
    file.flush()
