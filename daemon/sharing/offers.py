"""Lists shares that await the user's answer, and accepts or declines them (`replica.sharing.offers`).

Rule: the service is asked before an item is shown: it may be shared no more, or be called otherwise by now.
"""

import logging
from collections.abc import Sequence
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.ipc import attention
from cmsfs.replica import tree
from cmsfs.replica.nodes import KINDS, NodeKind
from cmsfs.replica.sharing import offers
from cmsfs.sqlite import Database
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.fetch.hydrate import Hydrator
from daemon.listing.deletion_check import fetch_item

log = logging.getLogger(__name__)


class Offers:
    """Answers `cmsfs shared`."""

    def __init__(
        self, db: Database, client: Client, remote_updates: RemoteUpdates, hydrator: Hydrator, health: Health
    ) -> None:
        self._db = db
        self._client = client
        self._remote_updates = remote_updates
        self._hydrator = hydrator
        self._health = health

    def undecided(self) -> list[attention.OfferStatus]:
        """What waits for the person, and what was declined."""
        return [
            attention.OfferStatus(
                type=one.kind.value,
                id=one.id,
                name=one.name,
                owner=one.owner,
                declined=one.state is offers.OfferState.DECLINED,
            )
            for one in offers.undecided(self._db)
        ]

    async def decide(self, words: Sequence[str], *, accept: bool) -> str:
        """Accept or decline the offers that these ids or names mean; a sentence.

        Raises `UserError` for what is not offered, or means several, before anything is decided;
        `RemoteError` where the service cannot be asked.
        """
        chosen = [self._meant(word) for word in words]
        said = []
        for one in chosen:
            said.append(await (self._accept(one) if accept else self._decline(one)))
        return " ".join(said)

    def _meant(self, word: str) -> offers.Offer:
        known = offers.undecided(self._db)
        name = word.rstrip("/").rpartition("/")[2]
        found = [one for one in known if one.id == word] or [one for one in known if one.name == name]
        if not found:
            raise errors.UserError(f"There is no shared item {word}; `cmsfs shared` lists them.")
        if len(found) > 1:
            ids = ", ".join(one.id for one in found)
            raise errors.UserError(f"Several shared items are named {name}; choose one by its ID ({ids}).")
        return found[0]

    async def _decline(self, one: offers.Offer) -> str:
        await self._db.write(lambda conn: _decide(conn, one, offers.OfferState.DECLINED))
        return f"{one.name} is not shown."

    async def _accept(self, one: offers.Offer) -> str:
        item = await fetch_item(self._client, self._health, one.kind, one.id)
        if item is None:
            await self._db.write(lambda conn: offers.forget(conn, one.kind, one.id))
            return f"{one.name} is no longer shared."
        await self._db.write(lambda conn: _decide(conn, one, offers.OfferState.ACCEPTED))

        def note(conn: Connection) -> None:
            node = tree.remote_at(conn, KINDS[item.type], item.id)
            if node is not None and node.is_folder:
                # What was heard of it meanwhile need not be all.
                tree.mark_unlisted_below(conn, node.ino)

        await self._remote_updates.apply([item], note=note, is_answer=True)
        node = tree.find_remote(self._db, one.kind, one.id)
        if node is None or node.parent is None:
            return f"{one.name} is accepted and appears after the next sync."
        if node.kind is NodeKind.FOLDER:
            self._hydrator.list_soon(node.ino)
        return f"{one.name} is in {tree.path(self._db, node.ino)}."


def _decide(conn: Connection, one: offers.Offer, state: offers.OfferState) -> None:
    offers.put(conn, one.model_copy(update={"state": state}))
