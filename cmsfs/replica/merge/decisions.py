"""The decision table of the merge: what a remote update does, by the local state of the node.

`decide` looks at both sides and says it; `cmsfs.replica.merge.apply_remote` carries it out.

Rule: local work that the service does not have yet always survives: no verdict on a node with unsent bytes or
with a deletion to be sent touches these.
"""

import enum
from collections.abc import Mapping, Set
from sqlite3 import Connection

from cmsfs.models.content.entries import Entry
from cmsfs.replica import inodes, link_texts, tree
from cmsfs.replica.merge import placement
from cmsfs.replica.nodes import ROOT, Node, NodeKind, Remote, said_by
from cmsfs.replica.sharing import offers, shares

EXECUTE = 0o111


class Local(enum.Enum):
    """The local state of an item's node; of those that apply, the first."""

    UNKNOWN = enum.auto()  # there is none
    OFFERED = enum.auto()  # it gets none: others share it, and nobody has accepted that
    ROOT = enum.auto()  # it is what the drive begins at
    TRASHED = enum.auto()  # it was deleted here, and the service is still to be told
    UNLINKED = enum.auto()  # it went from the drive, and somebody may go on writing it or standing in it
    UNSENT = enum.auto()  # it has bytes that only we have
    RUNNING = enum.auto()  # a file that may be run, and is open
    PROGRAM = enum.auto()  # a file that may be run
    OPEN = enum.auto()  # somebody has it open
    CLEAN = enum.auto()  # it is as the service has it


class News(enum.Enum):
    """What has changed of the item; bytes are new where a reader of the node would get others.

    Of bytes that only we have: where the service has others than those they were laid over.
    """

    PLACE = enum.auto()  # its place or its name, of the version that is known
    FACTS = enum.auto()  # its version, but not its bytes
    MY_BYTES = enum.auto()  # its bytes, which the account itself has changed elsewhere
    THEIR_BYTES = enum.auto()  # its bytes, which somebody else has changed
    WHOSE_BYTES = enum.auto()  # its bytes, and it was not told who has changed them


class Verdict(enum.Enum):
    """The action to take."""

    IGNORE = enum.auto()  # nothing
    ASIDE = enum.auto()  # nothing now: it is noted, and asked about when what is in the way has ended
    APPEAR = enum.auto()  # the item gets a node
    BESIDE = enum.auto()  # the item gets a node of its own, and the one that was its is only ours
    PLACE = enum.auto()  # the node goes where the item is
    TAKE = enum.auto()  # and becomes what the item is
    KEEP = enum.auto()  # the node goes where the item is; its bytes stay, and the new ones are noted
    PART = enum.auto()  # name and item go to a fresh node, which takes it; the open one goes on without
    DISARM = enum.auto()  # it is taken, and may not be run any more
    PART_DISARM = enum.auto()  # both


_N, _V = News, Verdict
_NEWS = (_N.PLACE, _N.FACTS, _N.MY_BYTES, _N.THEIR_BYTES, _N.WHOSE_BYTES)

# fmt: off
_ROWS = {
    # news of               its place    its facts    bytes: ours  others'         whose?
    Local.UNKNOWN:         (_V.APPEAR,   _V.APPEAR,   _V.APPEAR,   _V.APPEAR,      _V.APPEAR),
    Local.OFFERED:         (_V.IGNORE,   _V.IGNORE,   _V.IGNORE,   _V.IGNORE,      _V.IGNORE),
    Local.ROOT:            (_V.IGNORE,   _V.IGNORE,   _V.IGNORE,   _V.IGNORE,      _V.IGNORE),
    # Whether the deletion still holds is decided when it is sent, by the etag it started from.
    Local.TRASHED:         (_V.IGNORE,   _V.ASIDE,    _V.ASIDE,    _V.ASIDE,       _V.ASIDE),
    # What comes back is theirs; who has it open goes on with ours.  And the kernel shows a folder that went
    # as empty for good, for as long as somebody stands in it.
    Local.UNLINKED:        (_V.BESIDE,   _V.BESIDE,   _V.BESIDE,   _V.BESIDE,      _V.BESIDE),
    # Both sides have new bytes: the version we started from is kept, so that the upload is refused and the
    # conflict is decided there, with both contents at hand.
    Local.UNSENT:          (_V.PLACE,    _V.TAKE,     _V.KEEP,     _V.KEEP,        _V.KEEP),
    # Whose bytes they are decides whether they may be run: the item is asked about.
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
    """What becomes of what the service says of the item of this node (None: it has none), of which these
    kinds of changes are still to be sent."""
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
    # What comes back is what the service has, whatever it was here when it was deleted.
    is_version = is_version or (node.parent is None and local is not Local.TRASHED)
    news = _news_of_bytes(conn, node, remote, pending) if is_version else None
    if news is None:
        return VERDICTS[local, News.FACTS if is_version else News.PLACE]
    # Asked only where it matters: who opens the node later waits for the end of this transaction.
    if local in _OPEN and inodes.is_open(conn, node.ino):
        local = _OPEN[local]
    return VERDICTS[local, news]


def _is_version(conn: Connection, node: Node, remote: Remote) -> bool:
    """Whether the service says something else of the item than it said last, beside where it is."""
    if node.etag is None or remote.sequence != node.sequence or remote.etag != node.etag:
        return True
    # A service that came back from a backup gives numbers a second time, for something else.
    if node.kind is NodeKind.LINK:
        return link_texts.said(conn, node.ino) != said_by(remote.item)
    return remote.sha1 != node.base_sha1


def _local(conn: Connection, node: Node, remote: Remote, pending: Set[str]) -> Local:
    """How the node stands, but for whether somebody has it open."""
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


def _news_of_bytes(conn: Connection, node: Node, remote: Remote, pending: Set[str]) -> News | None:
    """Whose bytes the item has got; None: it has those that it had."""
    if "upload" in pending or node.draft is not None:
        has_others = remote.sha1 != node.base_sha1
    else:
        # A web link has no SHA-1: it is what it says.
        has_others = node.kind is not NodeKind.LINK and remote.sha1 != node.sha1
    if node.kind is NodeKind.LINK and not has_others:
        has_others = link_texts.said(conn, node.ino) != said_by(remote.item)
    if not has_others:
        return None
    changed_by = remote.user_id("modified_by")
    if changed_by is None and isinstance(remote.item, Entry):
        return News.WHOSE_BYTES  # who asks for this very item is told more
    is_mine = changed_by is not None and changed_by == shares.rules(conn).me
    return News.MY_BYTES if is_mine else News.THEIR_BYTES
