"""Where an upload goes: a new file, or a new version of an existing one.

Rule: a new version carries the version that it starts from, all of it (`Base`).
"""

import json
from dataclasses import dataclass

from cmsfs.replica.nodes import Base


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of this name in this folder, which has none."""

    folder_id: str
    name: str


# A new file, or the next version of an item, if it still has the one that it is based on.
Target = NewFile | Base


@dataclass(frozen=True, slots=True)
class Purpose:
    """What an upload session was begun for; which version is replaced is asked for only at its end."""

    file_id: str | None
    folder_id: str
    name: str

    def to_json(self) -> str:
        return json.dumps([self.file_id, self.folder_id, self.name])

    @classmethod
    def from_json(cls, text: str) -> "Purpose":
        return cls(*json.loads(text))


def purpose_of(target: Target) -> Purpose:
    """What a session for this target is for."""
    if isinstance(target, Base):
        return Purpose(target.item, "", "")
    return Purpose(None, target.folder_id, target.name)
