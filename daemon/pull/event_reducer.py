"""Reduces a page of events to one update per item.

Where the newest event of an item carries all that the tree keeps of it, that is taken; a service puts more or
less into it, and the fields of a change that the tree keeps and an event never shows are those of before.
What an event cannot say, whether we still see an item, what a copy took over, is asked of the service.

Rule: of several events of one item the one with the highest `sequence_id` speaks, among equals the latest.
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

# These change what is in the tree's columns, and nothing besides.  Others may change a description or tags,
# which an event does not show, or bring something along.
_TOLD = frozenset({events.CREATE, events.UPLOAD, events.MOVE, events.RENAME, events.TRASH, events.PROMOTE})
# A place that is not shown to us.
_HIDDEN = "hidden"
# These may change what we see at all, at the same sequence number.
_ACCESS = frozenset(
    {events.COLLAB_INVITE, events.COLLAB_ADD, events.COLLAB_REMOVE, events.COLLAB_ROLE, _HIDDEN}
)
# What a new item has of fields that its event does not show: nothing.
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
    """One item: `item` is how it is now, or it `is_gone`; neither: the service has to be asked.

    `is_made`: all that is in this folder is told by later events.  `is_uncertain`: it was out of our sight,
    and what was changed below it then was told to nobody.
    """

    key: ItemKey
    sequence: int | None = None
    item: Entry | None = None
    is_gone: bool = False
    is_made: bool = False
    is_uncertain: bool = False


@dataclass(slots=True)
class _Told:
    event: events.Event
    sequence: int | None
    words: set[str]


def reduce(
    db: Database, page: Iterable[events.Event], newest: Mapping[ItemKey, int]
) -> tuple[set[ItemKey], list[ItemVerdict]]:
    """All items that these events are about, whatever was changed of them; and a verdict on each of which the
    tree keeps something that may have changed, in the order of their last news.

    `newest`: the numbers that were heard of items before.
    """
    touched: set[ItemKey] = set()
    told: dict[ItemKey, _Told] = {}
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
        told[key] = _Told(event, sequence, words)
    found = (_verdict(db, key, one, newest.get(key, 0)) for key, one in told.items())
    return touched, [one for one in found if one is not None]


def _verdict(db: Database, key: ItemKey, told: _Told, newest: int) -> ItemVerdict | None:
    """What there is to do; None: it is no news."""
    verdict = ItemVerdict(key, told.sequence)
    source = told.event.source or {}
    is_trashed = source.get("item_status") in ("trashed", "deleted")
    if told.words & _ACCESS and not is_trashed:
        # What changes our access does not change the item, whose number may be an old one.
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
        # Known already: for the most part it was our own change.
        return None
    if not told.words <= _TOLD or (node is None and not told.words & _NEW):
        return verdict
    verdict.item = _entry(db, key, node, source)
    verdict.is_made = node is None and verdict.item is not None and events.CREATE in told.words
    return verdict


def _entry(db: Database, key: ItemKey, node: Node | None, source: dict[str, Any]) -> Entry | None:
    """The item of an event, if all that the tree needs is there."""
    if any(source.get(name) is None for name in _NEEDED[key[0]]):
        return None
    values = {name: value for name, value in source.items() if name in FIELDS}
    if node is None and source["parent"].get("id") == wire_names.ROOT_ID and not source.get("owned_by"):
        return None  # it may be somebody else's
    if node is not None:
        facts = json.loads(tree.item_json(db, node.ino) or "{}")
        values = {**{name: value for name, value in facts.items() if name not in source}, **values}
    try:
        return Entry.model_validate(values)
    except pydantic.ValidationError:
        return None


def _key(source: dict[str, Any]) -> ItemKey | None:
    """What a source is about, in either of its two forms."""
    kind = KINDS.get(str(source.get("type") or source.get("item_type") or ""))
    number = source.get("id") or source.get("item_id")
    # An id that nobody could ask for is as good as none.
    is_id = isinstance(number, str | int) and str(number).isprintable() and len(str(number)) <= _LONGEST_ID
    return (kind, str(number)) if kind is not None and number and is_id else None


_DIGITS = 18  # so many fit into 63 bits


def _number(text: object) -> int | None:
    """A sequence number; None for what is none, or can be none: then the item itself is asked about."""
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return int(text)
