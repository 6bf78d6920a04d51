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
        """Return once everything in the folder is in the replica; OSError when it cannot be had in time."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once these blocks (inclusive) are cached; OSError when they cannot be had in time."""

    def ahead(self, content: Content, first: int, last: int, *, kept: bool = False) -> None:
        """These blocks will probably be read soon, or are `kept` whatever room the cache has; never waits,
        never fails."""

    def began(self, ino: Ino) -> None:
        """A file is being read from its beginning, its neighbours may be next; never waits, never fails."""


class PinsPort(Protocol):
    """Pins and unpins items."""

    async def __call__(self, ino: Ino, *, pinned: bool) -> None:
        """Keep an item and all that is below it, or no longer; OSError (ENOSPC) when it does not fit."""


class Wakeable(Protocol):
    """Woken when the journal has new operations."""

    def wake(self) -> None:
        """The journal has work, or a file that was busy no longer is."""


class RightsPort(Protocol):
    """What may be done with nodes."""

    @property
    def is_read_only(self) -> bool:
        """Whether nothing at all may be changed with this account."""

    def on(self, node: Node) -> NodeRight:
        """What the service allows with a node; all while that is unknown."""

    async def learn(self, node: Node) -> NodeRight:
        """As `on`, once the rights that a use of this node depends on are known or cannot be; never fails."""

    def reason(self, node: Node) -> str | None:
        """Why a right is missing just now, in words; None: it is the account's role."""


class AccountPort(Protocol):
    """The state of the account and the connection."""

    @property
    def is_online(self) -> bool:
        """Whether changes made elsewhere are being heard of."""

    @property
    def rights(self) -> RightsPort:
        """What the account may do."""

    def space(self) -> tuple[int, int] | None:
        """Bytes the account may use and has used; None while that is unknown."""

    @property
    def largest_file(self) -> int | None:
        """The most bytes a file may have at the service; None while that is unknown."""

    def doubt_space(self) -> None:
        """Ask the service soon: a write is refused for what may have changed."""


class ItemDetailsPort(Protocol):
    """Fetches details of single items."""

    async def learn(self, node: Node, about: DetailSubject) -> None:
        """Return once this is known of an item, as new as it has to be, or an older answer cannot be renewed.

        `OSError` when nothing is known of it and nothing can be: ENETDOWN, ETIMEDOUT.
        """

    async def history(self, node: Node) -> list[str]:
        """Who did what and when, a line each, the newest last; none where the service does not tell.

        `OSError`: ENETDOWN, ETIMEDOUT.
        """

    async def learn_policies(self) -> None:
        """Return once what policies are assigned to is known, or cannot be in time; never fails."""

    async def judge_metadata(self, place: ValuePlace, text: str) -> None:
        """`OSError` (EINVAL) if the template does not allow this value; nothing while that is unknown."""

    async def set_metadata(self, node: Node, place: ValuePlace, text: str | None) -> None:
        """Set a value of the metadata of an item that the service has; None takes it away.

        `OSError`: EINVAL for what the template does not allow, ENODATA without a value, ESTALE if somebody
        else has changed it, EACCES without the right, ENETDOWN and ETIMEDOUT without the service.
        """


class DeleteGuardPort(Protocol):
    """Tells which deletions the service may refuse, and which only leave a share."""

    async def is_left(self, node: Node) -> bool:
        """Whether removing the node is leaving what somebody else shares: the item itself stays.

        `OSError` (EACCES): it cannot be left; the reason is in the log.
        """

    def is_doubtful(self, node: Node) -> bool:
        """Whether the service had better be asked before a program is told that a file is deleted.

        Answered from what is known here, at once.
        """

    async def ask(self, node: Node) -> bool:
        """Put a file into the service's trash now.

        True: it is there.  False: nobody knows, it is to be sent as any other deletion.  `OSError` (EPERM):
        the service refuses; the reason is in the log.
        """


class FolderLocksPort(Protocol):
    """Tells which folders are locked against being moved and deleted."""

    async def check(self, node: Node, *, removes: bool) -> None:
        """`OSError` (EPERM) if the folder is known to be locked against this; the reason is in the log.

        Asks the service if that is not known, for some seconds at most; what is not known is allowed.
        """


class FavoritesPort(Protocol):
    """The favorites of the account."""

    async def find(self, node: Node) -> bool | None:
        """Whether an item is one; None if that cannot be known."""

    async def set(self, node: Node, *, is_one: bool) -> None:
        """Have an item among them, or not.

        `OSError`: ENOTSUP where there are none, EBUSY for an item that the service does not have yet, EACCES
        without the right, ENETDOWN and ETIMEDOUT without the service.
        """


class TrashPages(Protocol):
    """What is in the trash, page by page."""

    async def next(self) -> Sequence[Remote]:
        """The next items; none at the end."""


class TrashPort(Protocol):
    """The trash at the service.  All raise `CmsfsError`, or `OSError` for what the drive itself refuses."""

    def pages(self) -> TrashPages:
        """A listing of it, from the beginning."""

    async def settle(self) -> bool:
        """Wait for a while until what was deleted on the drive is there; whether anything has come since the
        last call."""

    def original_path(self, item: Remote) -> str:
        """Where an item was, from the top of the drive, as far as that is known."""

    async def restore(self, item: Remote, parent: Ino, name: str) -> Ino:
        """Bring an item back into a folder of the drive under a name there; the node that it is."""

    async def purge(self, item: Remote) -> None:
        """Remove an item for good."""

    async def put(self, parent: Ino, name: str) -> ItemKey | None:
        """Put an item of the drive there, at once, a folder with all that is in it.

        None: somebody else shares it, and it is left.
        """
