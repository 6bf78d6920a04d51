"""Reduces a page of events to one update per item.

If the newest event of an item has all fields that the tree stores, it is used as it is.  Services include
more or fewer fields; a field that the tree stores and events never show keeps its value.  What an event
cannot show, such as whether we still see an item or what a copy contains, is requested.

Rule: among several events of an item the one with the highest `sequence_id` counts, among equals the latest.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from cmsfs.client.content.search import FIELDS
from cmsfs.models import wire_names
from cmsfs.models.content import events
from cmsfs.models.content.entries import Entry
from cmsfs.replica import tree
from cmsfs.replica.nodes import KINDS, ItemKey, Node, NodeKind
from cmsfs.sqlite import Database

_LONGEST_ID = 100

# These change only columns of the tree.  Other events may change a description or tags, which they do not
# show, or add further items.
_COMPLETE = frozenset(
    {events.CREATE, events.UPLOAD, events.MOVE, events.RENAME, events.TRASH, events.PROMOTE}
)
# The parent of an item in a folder that is hidden from us.
_HIDDEN = "hidden"
# These may change what is visible to us, at the same sequence number.
_ACCESS = frozenset(
    {events.COLLAB_INVITE, events.COLLAB_ADD, events.COLLAB_REMOVE, events.COLLAB_ROLE, _HIDDEN}
)
# These create items: fields that their event does not show are empty.
_NEW = frozenset({events.CREATE, events.UPLOAD})

_NEEDED = {
    NodeKind.FOLDER: ("name", "parent", "etag", "sequence_id", "item_status", "modified_at"),
    NodeKind.FILE: (
        "name",
        "parent",
        "etag",
        "sequence_id",
        "item_status",
        "modified_at",
        "sha1",
        "size",
        "file_version",
    ),
    NodeKind.LINK: ("name", "parent", "etag", "sequence_id", "item_status", "modified_at", "url"),
}


@dataclass(slots=True)
class ItemVerdict:
    """The result for one item: its new state `item`, or it `is_gone`; neither: request it.

    `is_made`: later events report the whole content of this folder.  `is_uncertain`: it was invisible to us,
    and changes below it in that time were not reported.  `is_restored`: it was in the trash, where its
    contents counted as gone if they were requested.
    """

    key: ItemKey
    sequence: int | None = None
    item: Entry | None = None
    is_gone: bool = False
    is_made: bool = False
    is_uncertain: bool = False
    is_restored: bool = False


@dataclass(slots=True)
class _ItemEvents:
    event: events.Event
    sequence: int | None
    words: set[str]


def reduce(
    db: Database, page: Iterable[events.Event], newest: Mapping[ItemKey, int]
) -> tuple[set[ItemKey], list[ItemVerdict]]:
    """Return all items that these events concern, and a verdict on each whose stored state may have changed,
    in the order of their last event.

    `newest`: the highest sequence number already received of each item.
    """
    touched: set[ItemKey] = set()
    told: dict[ItemKey, _ItemEvents] = {}
    for event in page:
        source = event.source or {}
        key = _key(source)
        if key is None:
            continue
        touched.add(key)
        if event.event_type not in events.TREE:
            continue
        sequence = _number(source.get("sequence_id"))
        before = told.pop(key, None)
        words = {event.event_type} | (before.words if before else set())
        if "parent" in source and not source["parent"]:
            words.add(_HIDDEN)
        if before is not None and (before.sequence or 0) > (sequence or 0):
            event, sequence = before.event, before.sequence
        told[key] = _ItemEvents(event, sequence, words)
    found = (_verdict(db, key, one, newest.get(key, 0)) for key, one in told.items())
    return touched, [one for one in found if one is not None]


def _verdict(db: Database, key: ItemKey, told: _ItemEvents, newest: int) -> ItemVerdict | None:
    """Return the verdict on an item; None if nothing is new."""
    verdict = ItemVerdict(key, told.sequence)
    source = told.event.source or {}
    is_trashed = source.get("item_status") in ("trashed", "deleted")
    verdict.is_restored = events.RESTORE in told.words and not is_trashed
    if told.words & _ACCESS and not is_trashed:
        # A change of access does not change the item, whose sequence number may be old.
        verdict.is_uncertain = True
        return verdict
    if told.sequence is not None and told.sequence < newest:
        return None
    if is_trashed:
        verdict.is_gone = True
        return verdict
    node = tree.find_remote(db, *key)
    if (
        node is not None
        and node.parent is not None
        and told.sequence is not None
        and told.sequence <= node.sequence
    ):
        # Already known: usually our own change.
        return None
    if not told.words <= _COMPLETE or (node is None and not told.words & _NEW):
        return verdict
    verdict.item = _entry(db, key, node, source)
    verdict.is_made = node is None and verdict.item is not None and events.CREATE in told.words
    return verdict


def _entry(db: Database, key: ItemKey, node: Node | None, source: dict[str, Any]) -> Entry | None:
    """Return the item of an event if it has all fields that the tree needs."""
    if any(source.get(name) is None for name in _NEEDED[key[0]]):
        return None
    values = {name: value for name, value in source.items() if name in FIELDS}
    if node is None and source["parent"].get("id") == wire_names.ROOT_ID and not source.get("owned_by"):
        return None  # it may belong to another account
    if node is not None:
        facts = json.loads(tree.item_json(db, node.ino) or "{}")
        values = {**{name: value for name, value in facts.items() if name not in source}, **values}
    try:
        return Entry.of(values)
    except pydantic.ValidationError:
        return None


def _key(source: dict[str, Any]) -> ItemKey | None:
    """Return the item that a source describes, in either of its two forms."""
    kind = KINDS.get(str(source.get("type") or source.get("item_type") or ""))
    number = source.get("id") or source.get("item_id")
    # An ID that cannot be requested counts as none.
    is_id = isinstance(number, str | int) and str(number).isprintable() and len(str(number)) <= _LONGEST_ID
    return (kind, str(number)) if kind is not None and number and is_id else None


_DIGITS = 18  # fit into 63 bits


def _number(text: object) -> int | None:
    """Return a sequence number; None if the value is none, so that the item is requested."""
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return int(text)
