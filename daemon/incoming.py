"""The one way in for what the service says: applied to the tree, then told to the kernel.

Listings and polls hand their pages to `apply`.  What the push is making at this moment is left out: the
item that a page shows may be our own, whose answer is still on its way, and would be taken for somebody
else's of the same name.  Its own answer, or the next poll, brings it.  So it is with what was sent without an
answer (`journal.unheard`), until the push has found out.

Rule: publish after the commit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from sqlite3 import Connection

from cmsfs.journal import unheard
from cmsfs.models import entries, items, names
from cmsfs.replica import changes, cursor, remote, tree
from cmsfs.replica.nodes import Remote, remote_from_item
from cmsfs.sqlite import Database

_Place = tuple[str | None, str]  # the folder's id at the service, the key of the name


class Incoming:
    """Applies items of the service to the replica and publishes what changed."""

    def __init__(self, db: Database, hub: changes.Hub) -> None:
        self._db = db
        self._hub = hub
        self._making: Counter[_Place] = Counter()

    @contextmanager
    def making(self, parent_id: str, name: str) -> Iterator[None]:
        """While an item of this name is being made in this folder."""
        place = (parent_id, names.name_key(name))
        self._making[place] += 1
        try:
            yield
        finally:
            self._making[place] -= 1
            if not self._making[place]:
                del self._making[place]

    async def apply(
        self, found: Sequence[items.Item | entries.Entry], *, generation: int | None = None
    ) -> None:
        """Bring the tree up to what these items say; `generation` is that of a listing."""
        # What begins to be made while the transaction waits for its turn cannot be on this page, unless an
        # earlier attempt made it; the push expects that.
        remotes = [remote_from_item(item) for item in found]
        making = self._making.keys() | unheard.places(self._db)
        if making:
            remotes = [one for one in remotes if not self._is_ours(one, making)]
        if not remotes:
            return

        def txn(conn: Connection) -> list[changes.Change]:
            number = cursor.generation(conn) if generation is None else generation
            return remote.apply(conn, remotes, generation=number)

        self._hub.publish(await self._db.write(txn))

    def publish(self, found: Iterable[changes.Change]) -> None:
        """Tell of changes that somebody else has committed."""
        self._hub.publish(found)

    def _is_ours(self, one: Remote, making: Set[_Place]) -> bool:
        place = (one.parent_id, names.name_key(one.name))
        return place in making and tree.find_remote(self._db, one.kind, one.id) is None
