"""Shows items that others share in their folder, and notifies the user.

The tree must know the account's user to distinguish own items from shared ones; the service reports it at the
first contact and whenever the account is refreshed.
"""

from cmsfs import config
from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.merge import shared_placement
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.replica.sharing import offers, shares
from cmsfs.sqlite import Database
from daemon.core.remote_updates import RemoteUpdates

# How many of the newest items a notification names.
NAMED = 3


class SharedItems:
    """Keeps the rules of the tree (`replica.sharing.shares`) in line with the account and the settings, and
    records what was shared since the start."""

    def __init__(
        self, db: Database, remote_updates: RemoteUpdates, hub: Hub, settings: config.Settings
    ) -> None:
        self._db = db
        self._remote_updates = remote_updates
        self._settings = settings
        rows = db.rows(
            "SELECT ino FROM node WHERE base_parent = ? AND parent IS NOT NULL", wire_names.ROOT_ID
        )
        self._seen: set[Ino] = {row["ino"] for row in rows}
        self._messages: list[str] = []
        self._offered: set[tuple[NodeKind, str]] = set()
        self._is_placed = False
        self.count = 0  # shared since the start
        hub.subscribe(self._on_changes, {ChangeKind.ENTRY}, own=False)

    async def belongs_to(self, user_id: str) -> None:
        """Configure the tree for the user to whom the drive belongs."""
        settings = self._settings
        wanted = shares.Rules(
            # With a folder as its root the drive does not show items shared into the real root.
            me=None if settings.folder.strip("/") or settings.is_link else user_id,
            in_root=settings.shared == "root",
            reserved=(settings.trash,) if settings.trash else (),
            asks=settings.shared == "ask",
        )
        if not await self._db.query(lambda conn: shares.rules(conn) == wanted):
            self._remote_updates.publish(
                await self._db.write(lambda conn: shared_placement.configure(conn, wanted))
            )
        if not self._is_placed and settings.shared == "root":
            self._remote_updates.publish(await self._db.write(shared_placement.begin))
        self._is_placed = True

    def news(self) -> tuple[int, str]:
        """Return the number of items shared or offered since the start, and a message about the last ones."""
        waiting = [one for one in offers.undecided(self._db) if one.state is offers.OfferState.WAITING]
        for one in waiting:
            if (one.kind, one.id) not in self._offered:
                self._add_message(f"{one.owner} shares {one.name}: Accept it with `cmsfs shared`.")
        self._offered = {(one.kind, one.id) for one in waiting}
        return self.count, " ".join(self._messages[-NAMED:])

    def _on_changes(self, changes: list[Change]) -> None:
        """Record newly shared items; during the first listing all shared items appear and none is new."""
        shelves: dict[Ino, bool] = {}
        for change in changes:
            parent = change.parent
            if change.what is ChangeKind.ENTRY and parent is not None and parent not in shelves:
                folder = tree.find(self._db, parent)
                shelves[parent] = folder is not None and (folder.is_shelf or folder.ino == ROOT)
        # Only of items where shared ones are shown: of all items of a large drive they would be too many.
        news = dict.fromkeys(
            change.ino
            for change in changes
            if change.what is ChangeKind.ENTRY
            and shelves.get(change.parent or 0)
            and change.ino not in self._seen
        )
        if news and not tree.is_listed(self._db, ROOT):
            self._seen.update(news)
            return
        for ino in news:
            self._report(ino)

    def _report(self, ino: Ino) -> None:
        """Report an item that appeared where shared items are shown."""
        self._seen.add(ino)
        if not (who := shares.owner(self._db, ino)):
            return
        node = tree.find(self._db, ino)
        if node is None or not offers.is_accepted(self._db, node.kind, node.remote_id or ""):
            self._add_message(f"{who} shares {tree.path(self._db, ino).lstrip('/')}.")

    def _add_message(self, sentence: str) -> None:
        self.count += 1
        self._messages.append(sentence)
        del self._messages[:-NAMED]
