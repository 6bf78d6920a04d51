"""What a restore has done, on this disk, so that it can be undone: a line for each change, before it.

Rule: a line says how the item was before, never what to do: a line whose change never happened does no harm.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cmsfs.client.history.as_of import ItemState


class UndoLog:
    """The changes of one restore, the last of which `read` gives first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> IO[str]:
        """Forget the restore before; close what is returned."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "w", encoding="utf-8")

    @staticmethod
    def note(file: IO[str], before: ItemState) -> None:
        kind, number = before.key
        line = {"kind": kind, "id": number, "name": before.name, "parent": before.parent}
        file.write(json.dumps({**line, "version": before.version, "trashed": before.is_trashed}) + "\n")
        file.flush()

    def read(self) -> Iterator[ItemState]:
        """How each item was before it was changed, the last change first; nothing without a restore."""
        if not self._path.exists():
            return
        seen = set()
        states = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
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
