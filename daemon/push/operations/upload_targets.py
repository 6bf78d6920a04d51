"""Where an upload goes: a new file, or a new version of an existing one.

Rule: a new version carries the version that it starts from, all of it.  `Base` has no empty field, so that no
code can send over an item without saying what it has seen of it.
"""

import json
from dataclasses import dataclass

from cmsfs.journal import in_flight
from cmsfs.replica.nodes import Ino, Node


@dataclass(frozen=True, slots=True)
class Base:
    """The version of an item that a change here starts from: the last one that was seen here, or that this
    machine's own upload made."""

    item: str
    etag: str
    sha1: str


def base_of(node: Node) -> Base | None:
    """What a node is based on; None: it is not known."""
    if node.remote_id is None or node.etag is None or node.base_sha1 is None:
        return None
    return Base(node.remote_id, node.etag, node.base_sha1)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of this name in this folder, which has none."""

    folder_id: str
    name: str


@dataclass(frozen=True, slots=True)
class NewVersion:
    """The next version of an item, if it still has the one that it is based on."""

    base: Base


Target = NewFile | NewVersion


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
    if isinstance(target, NewVersion):
        return Purpose(target.base.item, "", "")
    return Purpose(None, target.folder_id, target.name)


def sent_request(ino: Ino, sha1: str, target: Target) -> in_flight.SentRequest:
    """What is noted of bytes that are sent there."""
    if isinstance(target, NewVersion):
        return in_flight.SentRequest(ino, sha1, remote_id=target.base.item)
    return in_flight.SentRequest(ino, sha1, folder=target.folder_id, name=target.name)
