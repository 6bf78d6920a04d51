"""Interfaces that the vfs requires of the layers above it.

The running agent (`daemon`) implements these; the vfs never knows a client.
"""

from collections.abc import Sequence
from typing import Protocol

from cmsfs.replica.item_details import DetailSubject
from cmsfs.replica.nodes import Content, Ino, ItemKey, Node, Remote
from cmsfs.vfs.metadata_values import ValuePlace
from cmsfs.vfs.permissions import NodeRight


class HydratorPort(Protocol):
    """Downloads what is missing locally."""

    async def listing(self, folder: Ino) -> None:
        """Wait until the folder is completely listed in the replica; OSError if it cannot be in time."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Wait until these blocks (inclusive) are cached; OSError if that is impossible in time."""

    def ahead(self, content: Content, first: int, last: int, *, kept: bool = False) -> None:
        """Prefetch blocks that will probably be read soon, or must be `kept` however full the cache is; never
        waits, never fails."""

    def began(self, ino: Ino, content: Content) -> None:
        """Note that a file is read from its start, so its neighbours may be next; never waits or fails."""


class PinsPort(Protocol):
    """Pins and unpins items."""

    async def __call__(self, ino: Ino, *, pinned: bool) -> None:
        """Pin or unpin an item and everything below it; OSError (ENOSPC) if it does not fit."""


class Wakeable(Protocol):
    """Woken when the journal has new operations."""

    def wake(self) -> None:
        """Signal that the journal has work, or that a busy file no longer is."""


class RightsPort(Protocol):
    """The permissions on nodes."""

    @property
    def is_read_only(self) -> bool:
        """Whether this account may change nothing at all."""

    def on(self, node: Node) -> NodeRight:
        """Return the rights on a node; all rights while they are unknown."""

    async def learn(self, node: Node) -> NodeRight:
        """Like `on`, but first wait for the rights that a use of this node depends on; never fails."""

    def reason(self, node: Node) -> str | None:
        """Return why a right is missing at the moment, in words; None if the account's role is the reason."""


class AccountPort(Protocol):
    """The state of the account and the connection."""

    @property
    def is_online(self) -> bool:
        """Whether remote changes are being received."""

    @property
    def rights(self) -> RightsPort:
        """The account's permissions on nodes."""

    def space(self) -> tuple[int, int] | None:
        """Return the account's quota and used space in bytes; None while unknown."""

    @property
    def largest_file(self) -> int | None:
        """The service's maximum file size in bytes; None while unknown."""

    def doubt_space(self) -> None:
        """Refresh the used space soon: a write was rejected because of a possibly stale value."""


class ItemDetailsPort(Protocol):
    """Fetches details of single items."""

    async def learn(self, node: Node, about: DetailSubject) -> None:
        """Wait until these details of an item are known and recent enough, or cannot be refreshed.

        `OSError` if nothing is known and nothing can be fetched: ENETDOWN, ETIMEDOUT.
        """

    async def history(self, node: Node) -> list[str]:
        """Return who did what and when, one line each, newest last; empty if the service does not tell.

        `OSError`: ENETDOWN, ETIMEDOUT.
        """

    async def learn_policies(self) -> None:
        """Wait until the assignments of policies are known, or cannot be in time; never fails."""

    async def judge_metadata(self, place: ValuePlace, text: str) -> None:
        """Raise `OSError` (EINVAL) if the template is known not to allow this value."""

    async def set_metadata(self, node: Node, place: ValuePlace, text: str | None) -> None:
        """Set a metadata value of an item that the service has; None removes it.

        `OSError`: EINVAL for what the template does not allow, ENODATA without a value, ESTALE if somebody
        else has changed it, EACCES without the right, ENETDOWN and ETIMEDOUT without the service.
        """


class DeleteGuardPort(Protocol):
    """Tells which deletions the service may reject, and which only leave a share."""

    async def is_left(self, node: Node) -> bool:
        """Whether deleting the node means leaving another user's share: the item itself stays.

        `OSError` (EACCES): it cannot be left; the reason is in the log.
        """

    async def is_doubtful(self, node: Node) -> bool:
        """Whether to delete at the service before a program is told that a file is deleted.

        Answered from what is known here; soon after a start, when policies have been read.
        """

    async def ask(self, node: Node) -> int | None:
        """Move a file to the service's trash now; return the sequence that it had there before.

        None: unknown, so send it like any other deletion.  `OSError` (EPERM): the service rejects it; the
        reason is in the log.
        """


class FolderLocksPort(Protocol):
    """Tells which folders are locked against moving and deletion."""

    async def check(self, node: Node, *, removes: bool) -> None:
        """Raise `OSError` (EPERM) if the folder is known to be locked against this; logs the reason.

        Asks the service if that is not known, for some seconds at most; what is not known is allowed.
        """


class FavoritesPort(Protocol):
    """The favorites of the account."""

    async def find(self, node: Node) -> bool | None:
        """Whether an item is a favorite; None if that cannot be determined."""

    async def set(self, node: Node, *, is_one: bool) -> None:
        """Add an item to the favorites, or remove it.

        `OSError`: ENOTSUP where there are none, EBUSY for an item that the service does not have yet, EACCES
        without the right, ENETDOWN and ETIMEDOUT without the service.
        """


class TrashPages(Protocol):
    """A listing of the trash, page by page."""

    async def next(self) -> Sequence[Remote]:
        """Return the next items; none at the end."""


class TrashPort(Protocol):
    """The trash at the service.  Methods raise `CmsfsError`, or `OSError` if the drive rejects a call."""

    def pages(self) -> TrashPages:
        """Start a listing of the trash."""

    async def settle(self) -> bool:
        """Wait for a while until items deleted on the drive are in the trash; return whether any has arrived
        since the last call."""

    def original_path(self, item: Remote) -> str:
        """Return an item's former location, from the root of the drive, as far as it is known."""

    async def restore(self, item: Remote, parent: Ino, name: str) -> Ino:
        """Restore an item into a folder of the drive under a name; return its node."""

    async def purge(self, item: Remote) -> None:
        """Delete an item permanently."""

    async def put(self, parent: Ino, name: str) -> ItemKey | None:
        """Move an item of the drive to the trash at once, a folder with everything in it.

        None: somebody else shares it, and it is left.
        """
