"""The decision table of the merge: what a remote update does, by the local state of the node.

`decide` compares both sides and returns the verdict; `cmsfs.replica.merge.apply_remote` executes it.

Rule: local changes that are not uploaded always survive: no verdict on a node with unsent contents or a
pending deletion touches these.
"""

import enum
from collections.abc import Mapping, Set
from sqlite3 import Connection

from cmsfs.models.content.entries import Entry
from cmsfs.replica import inodes, link_texts, tree
from cmsfs.replica.merge import lineages, placement
from cmsfs.replica.nodes import ROOT, Node, NodeKind, Remote, shortcut_of
from cmsfs.replica.sharing import offers, shares

EXECUTE = 0o111


class Local(enum.Enum):
    """The local state of an item's node; the first one that applies."""

    UNKNOWN = enum.auto()  # there is no node
    OFFERED = enum.auto()  # there is no node: the item is a share that the user has not accepted
    ROOT = enum.auto()  # the root of the drive
    TRASHED = enum.auto()  # deleted locally, and the deletion is pending
    UNLINKED = enum.auto()  # removed from the drive, but perhaps still open or a working directory
    UNSENT = enum.auto()  # has contents that are not uploaded
    RUNNING = enum.auto()  # an executable file that is open
    PROGRAM = enum.auto()  # an executable file
    OPEN = enum.auto()  # open
    CLEAN = enum.auto()  # equal to the service's item


class News(enum.Enum):
    """What has changed of the item; its bytes have changed if a reader of the node would get others.

    For unsent contents: if the service's contents differ from their base.
    """

    PLACE = enum.auto()  # place or name, of the known version
    FACTS = enum.auto()  # the version, but not the bytes
    MY_BYTES = enum.auto()  # the bytes, by this account on another machine
    THEIR_BYTES = enum.auto()  # the bytes, by somebody else
    WHOSE_BYTES = enum.auto()  # the bytes, and it is unknown by whom


class Verdict(enum.Enum):
    """The action to take."""

    IGNORE = enum.auto()  # do nothing
    ASIDE = enum.auto()  # defer: record it, and request the item when the local change is done
    APPEAR = enum.auto()  # create a node for the item
    BESIDE = enum.auto()  # create a new node for the item; the previous one becomes local-only
    PLACE = enum.auto()  # move the node to the item's place
    TAKE = enum.auto()  # PLACE, and update the node to the item's version
    KEEP = enum.auto()  # PLACE; the node keeps its contents, and the new version is recorded
    PART = enum.auto()  # a new node gets the name and the item; the open one continues without them
    DISARM = enum.auto()  # TAKE, and remove the execute bits
    PART_DISARM = enum.auto()  # PART and DISARM


_N, _V = News, Verdict
_NEWS = (_N.PLACE, _N.FACTS, _N.MY_BYTES, _N.THEIR_BYTES, _N.WHOSE_BYTES)

# fmt: off
_ROWS = {
    # news of               its place    its facts    bytes: ours  others'         whose?
    Local.UNKNOWN:         (_V.APPEAR,   _V.APPEAR,   _V.APPEAR,   _V.APPEAR,      _V.APPEAR),
    Local.OFFERED:         (_V.IGNORE,   _V.IGNORE,   _V.IGNORE,   _V.IGNORE,      _V.IGNORE),
    Local.ROOT:            (_V.IGNORE,   _V.IGNORE,   _V.IGNORE,   _V.IGNORE,      _V.IGNORE),
    # Whether the deletion is still valid is decided when it is sent, by its base etag.
    Local.TRASHED:         (_V.IGNORE,   _V.ASIDE,    _V.ASIDE,    _V.ASIDE,       _V.ASIDE),
    # The restored item gets a new node; open handles keep the old one.  And the kernel shows a removed folder
    # as empty for as long as it is some process's working directory.
    Local.UNLINKED:        (_V.BESIDE,   _V.BESIDE,   _V.BESIDE,   _V.BESIDE,      _V.BESIDE),
    # Both sides have new contents: the base version is kept, so that the upload is rejected and the conflict
    # is resolved then, with both contents available.
    Local.UNSENT:          (_V.PLACE,    _V.TAKE,     _V.KEEP,     _V.KEEP,        _V.KEEP),
    # The author decides whether the file stays executable: request the item to find out.
    Local.RUNNING:         (_V.PLACE,    _V.TAKE,     _V.PART,     _V.PART_DISARM, _V.ASIDE),
    Local.PROGRAM:         (_V.PLACE,    _V.TAKE,     _V.TAKE,     _V.DISARM,      _V.ASIDE),
    Local.OPEN:            (_V.PLACE,    _V.TAKE,     _V.PART,     _V.PART,        _V.PART),
    Local.CLEAN:           (_V.PLACE,    _V.TAKE,     _V.TAKE,     _V.TAKE,        _V.TAKE),
}
# fmt: on

VERDICTS: Mapping[tuple[Local, News], Verdict] = {
    (local, news): verdict for local, row in _ROWS.items() for news, verdict in zip(_NEWS, row, strict=True)
}

_OPEN = {Local.PROGRAM: Local.RUNNING, Local.CLEAN: Local.OPEN}


def decide(conn: Connection, node: Node | None, remote: Remote, pending: Set[str]) -> Verdict:
    """Return the verdict on a remote item, for its node (None: it has none) with these kinds of pending
    changes."""
    if node is None:
        rules = shares.rules(conn)
        is_offered = rules.asks and offers.holds(conn, rules, remote)
        return VERDICTS[Local.OFFERED if is_offered else Local.UNKNOWN, News.FACTS]
    if node.ino == ROOT:
        return VERDICTS[Local.ROOT, News.FACTS]
    is_version = _is_version(conn, node, remote)
    if not is_version and placement.is_in_place(conn, node, remote):
        return Verdict.IGNORE
    local = _local(conn, node, remote, pending)
    if local in _OPEN and not is_version and _is_unlinked_open(conn, node, remote):
        local = Local.UNLINKED
    # A restored item has the service's version, whatever the node was when it was deleted.
    is_version = is_version or (node.parent is None and local is not Local.TRASHED)
    news = _news_of_bytes(conn, node, remote, pending) if is_version else None
    if news is None:
        return VERDICTS[local, News.FACTS if is_version else News.PLACE]
    # Checked only where it matters: a later open waits for the end of this transaction.
    if local in _OPEN and inodes.is_open(conn, node.ino):
        local = _OPEN[local]
    return VERDICTS[local, news]


def _is_version(conn: Connection, node: Node, remote: Remote) -> bool:
    """Whether the item differs from its last known state in anything but its place."""
    if node.etag is None or remote.sequence != node.sequence or remote.etag != node.etag:
        return True
    # A service restored from a backup reuses sequence numbers for other states.
    if node.kind is NodeKind.LINK:
        return link_texts.remote_shortcut(conn, node.ino) != shortcut_of(remote.item)
    return remote.sha1 != node.base_sha1


def _local(conn: Connection, node: Node, remote: Remote, pending: Set[str]) -> Local:
    """Return the local state of the node, except whether it is open."""
    if "trash" in pending:
        return Local.TRASHED
    if node.parent is None:
        rules = shares.rules(conn)
        if rules.asks and offers.holds(conn, rules, remote):
            return Local.OFFERED
        if node.draft is not None or (node.is_folder and tree.was_shown(conn, node.ino)):
            return Local.UNLINKED
    if "upload" in pending or node.draft is not None:
        return Local.UNSENT
    return Local.PROGRAM if node.kind is NodeKind.FILE and node.mode & EXECUTE else Local.CLEAN


def _is_unlinked_open(conn: Connection, node: Node, remote: Remote) -> bool:
    """Whether a program here unlinked the file, and has it open, and older news shows it where nobody sees
    it.

    As it was deleted with its folder, such news may come after the deletion.  With its name, the open file
    would count as removed by somebody else once that folder is gone, and what is written to it be kept.
    """
    if node.parent is not None or lineages.is_displaced(conn, node.ino) or not inodes.is_open(conn, node.ino):
        return False
    folder = tree.remote_at(conn, NodeKind.FOLDER, remote.parent_id or "")
    return folder is not None and not tree.is_below(conn, folder.ino, ROOT)


def _news_of_bytes(conn: Connection, node: Node, remote: Remote, pending: Set[str]) -> News | None:
    """Return who changed the item's bytes; None if they are unchanged."""
    if "upload" in pending or node.draft is not None:
        has_others = remote.sha1 != node.base_sha1
    else:
        # A web link has no SHA-1: its target and description are compared.
        has_others = node.kind is not NodeKind.LINK and remote.sha1 != node.sha1
    if node.kind is NodeKind.LINK and not has_others:
        has_others = link_texts.remote_shortcut(conn, node.ino) != shortcut_of(remote.item)
    if not has_others:
        return None
    changed_by = remote.user_id("modified_by")
    if changed_by is None and isinstance(remote.item, Entry):
        return News.WHOSE_BYTES  # a request for the item itself returns the author
    is_mine = changed_by is not None and changed_by == shares.rules(conn).me
    return News.MY_BYTES if is_mine else News.THEIR_BYTES
