"""Targets of uploads: a new file, or a new version of an existing one.

Rule: a new version is sent with its base (`Base`).
"""

import json
from dataclasses import dataclass

from cmsfs.replica.nodes import Base


@dataclass(frozen=True, slots=True)
class NewFile:
    """A new file of this name in this folder."""

    folder_id: str
    name: str


# A new file, or a new version of an item, if it still has the base version.
Target = NewFile | Base


@dataclass(frozen=True, slots=True)
class Purpose:
    """The target of an upload session; the replaced version is sent only with its commit."""

    file_id: str | None
    folder_id: str
    name: str

    def to_json(self) -> str:
        return json.dumps([self.file_id, self.folder_id, self.name])

    @classmethod
    def from_json(cls, text: str) -> "Purpose":
        return cls(*json.loads(text))


def purpose_of(target: Target) -> Purpose:
    """Return the purpose of a session for this target."""
    if isinstance(target, Base):
        return Purpose(target.item, "", "")
    return Purpose(None, target.folder_id, target.name)
