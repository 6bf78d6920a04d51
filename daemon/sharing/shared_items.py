"""Shows items that others share in their folder, and notifies the user.

The tree needs to know whose drive it is before it can tell one's own from what others share; the service says
so at the first contact, and again whenever the account is looked at.
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

# The newest are named; there may be many at once.
NAMED = 3


class SharedItems:
    """Keeps the rules of the tree (`replica.sharing.shares`) in line with the account and the settings, and
    remembers what was shared since the start."""

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
        self._said: list[str] = []
        self._offered: set[tuple[NodeKind, str]] = set()
        self._has_begun = False
        self.count = 0  # shared since the start
        hub.subscribe(self._heard, {ChangeKind.ENTRY}, own=False)

    async def belongs_to(self, user_id: str) -> None:
        """The service says whose drive this is."""
        settings = self._settings
        wanted = shares.Rules(
            # A drive that begins at a folder has no root that others could share into.
            me=None if settings.folder.strip("/") or settings.is_link else user_id,
            in_root=settings.shared == "root",
            reserved=(settings.trash,) if settings.trash else (),
            asks=settings.shared == "ask",
        )
        if not await self._db.query(lambda conn: shares.rules(conn) == wanted):
            self._remote_updates.publish(
                await self._db.write(lambda conn: shared_placement.configure(conn, wanted))
            )
        if not self._has_begun and settings.shared == "root":
            self._remote_updates.publish(await self._db.write(shared_placement.begin))
        self._has_begun = True

    def news(self) -> tuple[int, str]:
        """How much others have shared, or offered, since the start, and a sentence on the last of it."""
        waiting = [one for one in offers.undecided(self._db) if one.state is offers.OfferState.WAITING]
        for one in waiting:
            if (one.kind, one.id) not in self._offered:
                self._say(f"{one.owner} shares {one.name}: Accept it with `cmsfs shared`.")
        self._offered = {(one.kind, one.id) for one in waiting}
        return self.count, " ".join(self._said[-NAMED:])

    def _heard(self, changes: list[Change]) -> None:
        """What is shared while the drive is known; at first everything that was ever shared comes at once."""
        news = [
            change
            for change in changes
            if change.what is ChangeKind.ENTRY and change.parent is not None and change.ino not in self._seen
        ]
        if news and not tree.is_listed(self._db, ROOT):
            self._seen.update(change.ino for change in news)
            return
        shelves: dict[Ino, bool] = {}
        for change in news:
            if change.parent is not None and change.parent not in shelves:
                folder = tree.find(self._db, change.parent)
                shelves[change.parent] = folder is not None and (folder.is_shelf or folder.ino == ROOT)
        for ino in dict.fromkeys(change.ino for change in news if shelves.get(change.parent or ROOT)):
            self._note(ino)

    def _note(self, ino: Ino) -> None:
        """It has come to where shared items are."""
        self._seen.add(ino)
        if not (who := shares.owner(self._db, ino)):
            return
        node = tree.find(self._db, ino)
        if node is None or not offers.is_accepted(self._db, node.kind, node.remote_id or ""):
            self._say(f"{who} shares {tree.path(self._db, ino).lstrip('/')}.")

    def _say(self, sentence: str) -> None:
        self.count += 1
        self._said.append(sentence)
        del self._said[:-NAMED]
