"""What every operation needs: the objects that all of them share.

`dispatcher.Dispatcher` owns the context and passes it to the modules of `operations`, whose
functions take a claimed task, ask the service, and write what follows in one transaction that also ends the
operation.

Rule: such a function either ends the operation (done, given back, cancelled) or raises.
"""

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
from daemon.core import item_search
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.fetch.hydrate import Hydrator
from daemon.push.guard import Guard
from daemon.push.metadata_writer import MetadataWriter

# Most of what fails fails once; what goes on failing is tried every five minutes, so that nobody needs to
# come by when the cause is gone.
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 300.0

# How often a version that turns out to differ in name or place only is taken as the one to replace.
REBASES = 3


@dataclass(frozen=True, slots=True)
class ConflictCopy:
    """A conflict copy as it was left here."""

    ino: Ino
    parent: Ino
    name: str
    sha1: str

    def is_as_left(self, now: Node, original: Node) -> bool:
        """Whether the copy, which is `now` so, still lies beside the original with the same bytes."""
        where = (now.ino, now.parent, now.name, now.sha1)
        as_left = where == (self.ino, self.parent, self.name, self.sha1) and now.draft is None
        return as_left and original.parent == self.parent


@dataclass(frozen=True, slots=True)
class PushContext:
    """Everything that an operation may use."""

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
    # To be called when the service says that the account is full.
    full: Callable[[], None]
    # To be called with what the service does not let us delete, and which comes back therefore.
    came_back: Callable[[Node, errors.RemoteError], None]
    # The files that a program may have copied this one from (`vfs.heuristics.copy_detector`).
    copied_from: Callable[[Ino], Collection[Ino]]
    # Sets values of metadata.
    metadata_writer: MetadataWriter
    # To be called before an item is deleted: brings here what only it has of the bytes of another file.
    before_deletion: Callable[[str | None], Awaitable[None]]
    # To be called with the node whose operation has ended, or was pointless.
    ended: Callable[[Ino], None]
    # Whether anything may be sent.
    guard: Guard
    # Bytes sent of each running upload, by the number of its operation.
    sent: dict[int, int] = field(default_factory=dict)
    # Files whose writers wait for the service to have them: they are sent while they are open.
    confirming: Counter[Ino] = field(default_factory=Counter)
    # What was noted as being sent, and the bytes, of files that were sealed ahead of their uploads.
    noted: dict[Ino, in_flight.SentRequest] = field(default_factory=dict)
    sealed: dict[Ino, Sealed] = field(default_factory=dict)
    # Contents that the service has by now, and that are to go where they may be evicted.
    released: set[str] = field(default_factory=set)
    # How many uploads of a file in a row were cancelled because it had newer bytes.
    superseded: Counter[Ino] = field(default_factory=Counter)
    # The conflict copies of files that were appended to, by the item; and how often one was waited for.
    copies: dict[str, ConflictCopy] = field(default_factory=dict)
    appending: Counter[Ino] = field(default_factory=Counter)

    def goes_as_it_is(self, node: Node) -> bool:
        """Whether a file is sent although it is open for writing: its writers wait for that, or it has waited
        long enough for them."""
        if self.confirming.get(node.ino) or node.draft is None:
            return bool(self.confirming.get(node.ino))
        if Ability.VERSIONS in self.client.offers.lacking:
            return False  # what is written to it after that could never be sent
        return self.drafts.is_overdue(node.draft, node.size, self.settle_seconds)

    async def get(self, kind: NodeKind, item_id: str) -> items.Item:
        """The item as the service has it now.  Raises `NotFound` also for one in the trash."""
        with self.health.request("lookup"):
            return await item_search.look_at(self.db, self.client, kind, item_id)


def wait_ns(attempts: int) -> int:
    """How long to wait after that many failed attempts; spread, so that many do not come at once."""
    longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(attempts, 16))
    return int(longest * chance.uniform(0.5, 1.0) * 10**9)


def reconsider(conn: Connection, op: ops.Op, why: str) -> None:
    """The situation has changed: look at the operation anew, at once unless that was done before."""
    not_before = clock.time_ns() + (wait_ns(op.attempts) if op.attempts > 2 else 0)
    queue.retry(conn, op, not_before_ns=not_before, error=why)


def has_moved(conn: Connection, before: Node) -> bool:
    """Whether the node was put elsewhere here since the task was claimed, and still has a place."""
    now = tree.get(conn, before.ino)
    return now.parent is not None and (now.parent, now.name) != (before.parent, before.name)
