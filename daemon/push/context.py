"""The dependencies that all operations share.

`dispatcher.Dispatcher` owns the context and passes it to the modules of `operations`, whose functions take a
claimed task, send requests, and write the result in one transaction that also ends the operation.

Rule: such a function either ends the operation (done, put back, cancelled) or raises.
"""

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from sqlite3 import Connection

from cmsfs import config, errors
from cmsfs.cache.blocks import BlockCache
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.journal import ops, queue
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.journal.sealing import Sealed, Sealer
from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import in_flight
from cmsfs.runtime import chance, clock
from cmsfs.sqlite import Database
from daemon.core import item_search, root_check
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.fetch.hydrate import Hydrator
from daemon.push.guard import Guard
from daemon.push.metadata_writer import MetadataWriter

# Backoff: most failures are transient; persistent ones are retried every five minutes, so that nobody needs
# to act when the cause is gone.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0

# How often a version that differs only in name or place is accepted as the new base.
REBASES = 3

# How often an item is asked for that was shown while the service answered that it is gone.
REASKS = 3

# How often an operation is retried at once after the situation has changed.
RECONSIDERATIONS = 3


@dataclass(frozen=True, slots=True)
class ConflictCopy:
    """A conflict copy as we last wrote it."""

    ino: Ino
    parent: Ino
    name: str
    sha1: str

    def is_as_left(self, now: Node, original: Node) -> bool:
        """Whether the copy, now `now`, is still in the same folder as the original with the same contents."""
        where = (now.ino, now.parent, now.name, now.sha1)
        as_left = where == (self.ino, self.parent, self.name, self.sha1) and now.draft is None
        return as_left and original.parent == self.parent


@dataclass(frozen=True, slots=True)
class PushContext:
    """Everything that operations use."""

    db: Database
    client: Client
    blocks: BlockCache
    drafts: Drafts
    sealer: Sealer
    remote_updates: RemoteUpdates
    hydrator: Hydrator
    health: Health
    commit: GroupCommit
    settle_seconds: float
    profile: config.Profile
    # Which files become web links: "plain" ones, "all" with an address, "never" (`Settings.web_links`).
    web_links: str
    # Called when the service reports that the quota is exhausted.
    full: Callable[[], None]
    # Called for an item whose deletion the service refuses, and which is restored.
    deletion_refused: Callable[[Node, errors.RemoteError], None]
    # The files that a program may have copied this one from (`vfs.heuristics.copy_detector`).
    copied_from: Callable[[Ino], Collection[Ino]]
    # Writes metadata values.
    metadata_writer: MetadataWriter
    # Called before an item is deleted: downloads contents that another file needs and only the item has.
    before_deletion: Callable[[str | None], Awaitable[None]]
    # Called with the node whose operation has ended or became obsolete.
    ended: Callable[[Ino], None]
    # Holds uploads and deletions after an alarm.
    guard: Guard
    # Bytes sent of each running upload, by the number of its operation.
    sent: dict[int, int] = field(default_factory=dict)
    # Files whose writers wait for the upload (fsync): they are uploaded while open.
    confirming: Counter[Ino] = field(default_factory=Counter)
    # Requests recorded in advance for files that were sealed before their uploads.
    noted: dict[Ino, in_flight.SentRequest] = field(default_factory=dict)
    sealed: dict[Ino, Sealed] = field(default_factory=dict)
    # Uploaded contents that must be moved to where they may be evicted.
    released: set[str] = field(default_factory=set)
    # Number of consecutive uploads of a file that were cancelled for newer contents.
    superseded: Counter[Ino] = field(default_factory=Counter)
    # Conflict copies of files that were appended to, by item ID; and the number of waits for one.
    copies: dict[str, ConflictCopy] = field(default_factory=dict)
    appending: Counter[Ino] = field(default_factory=Counter)
    # Operations whose place another item of ours still has at the service, by the ID of that item.
    blocked: dict[str, set[int]] = field(default_factory=dict)
    # Items that are being restored, by ID: on their way they pass their former places.
    passing: set[str] = field(default_factory=set)
    # How often each operation was retried after the situation had changed, by its number.
    reconsidered: Counter[int] = field(default_factory=Counter)
    # How often the name of each was refused for an item that could not be requested.
    untold: Counter[int] = field(default_factory=Counter)

    def goes_as_it_is(self, node: Node) -> bool:
        """Whether a file is uploaded although it is open for writing: its writers wait for that, or it has
        waited long enough for them."""
        if self.confirming.get(node.ino) or node.draft is None:
            return bool(self.confirming.get(node.ino))
        if Ability.VERSIONS in self.client.offers.lacking:
            return False  # later writes to it could never be uploaded
        return self.drafts.is_overdue(node.draft, node.size, self.settle_seconds)

    async def get(self, kind: NodeKind, item_id: str) -> items.Item:
        """Return the item as the service has it now.  Raises `NotFound` also for one in the trash."""
        with self.health.request("lookup"):
            return await item_search.look_at(self.db, self.client, kind, item_id)

    async def find(self, kind: NodeKind, item_id: str) -> items.Item | None:
        """Return the item as the service has it now; None: it is gone, or in the trash.

        Raises `RootGone` if the folder at which the drive begins is away.
        """
        asked = functools.partial(self.get, kind, item_id)
        for _ in range(REASKS):
            with self.remote_updates.watching() as shown:
                try:
                    return await root_check.ask(self.db, self.client, self.health, asked)
                except errors.NotFound:
                    # It may have been shown since the service answered.
                    if (kind, item_id) not in shown:
                        return None
        return None

    def list_soon(self, item: items.Item) -> None:
        """Start listing a folder that an answer brought, unless its contents are known; never waits.

        A folder that was made here may be that folder, whose contents programs have looked for in vain.
        """
        node = tree.find_remote(self.db, NodeKind(item.type), item.id)
        if node is not None and node.is_folder and node.parent is not None:
            self.hydrator.list_soon(node.ino)

    async def may_be_back(self, node: Node) -> bool:
        """Whether an item that was not found may be there by now: the folder that it has at the service, with
        which it may have been away, is there.  Anything else counts as gone."""
        folder = node.base_parent
        if folder in (None, tree.root_id(self.db)):
            return folder is not None and root_check.can_vanish(self.db)
        try:
            return await self.find(NodeKind.FOLDER, folder) is not None
        except (errors.Forbidden, errors.Gone, errors.NotShown):
            return False


def wait_ns(attempts: int) -> int:
    """Return the backoff after that many failed attempts, with jitter."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(attempts, 16))
    return int(longest * chance.uniform(0.5, 1.0) * 10**9)


def reconsider(context: PushContext, conn: Connection, op: ops.Op, why: str) -> None:
    """Retry the operation after the situation has changed, at once unless that was done a few times; earlier
    failures of another kind do not count."""
    context.reconsidered[op.seq] += 1
    wait = wait_ns(op.attempts) if context.reconsidered[op.seq] > RECONSIDERATIONS else 0
    queue.retry(conn, op, not_before_ns=clock.time_ns() + wait, error=why)


def has_moved(conn: Connection, before: Node) -> bool:
    """Whether the node was moved locally since the task was claimed, and still has a place."""
    now = tree.find_at(conn, before.ino)
    return (
        now is not None and now.parent is not None and (now.parent, now.name) != (before.parent, before.name)
    )
