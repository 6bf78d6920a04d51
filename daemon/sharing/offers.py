"""Lists offers of shared items, and accepts or declines them (`replica.sharing.offers`).

Rule: before an item is shown the service is asked for it: it may be unshared or renamed by now.
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
        """Return the offers that await a decision and those that were declined."""
        return [
            attention.OfferStatus(
                type=offer.kind.value,
                id=offer.id,
                name=offer.name,
                owner=offer.owner,
                declined=offer.state is offers.OfferState.DECLINED,
            )
            for offer in offers.undecided(self._db)
        ]

    async def decide(self, names: Sequence[str], *, accept: bool) -> str:
        """Accept or decline the offers with these ids or names; return a message.

        Raises `UserError` if one is unknown or ambiguous, before anything is decided; `RemoteError` if the
        service cannot be reached.
        """
        chosen = [self._find_offer(text) for text in names]
        messages = []
        for offer in chosen:
            messages.append(await (self._accept(offer) if accept else self._decline(offer)))
        return " ".join(messages)

    def _find_offer(self, text: str) -> offers.Offer:
        known = offers.undecided(self._db)
        name = text.rstrip("/").rpartition("/")[2]
        found = [offer for offer in known if offer.id == text] or [
            offer for offer in known if offer.name == name
        ]
        if not found:
            raise errors.UserError(f"There is no shared item {text}; `cmsfs shared` lists them.")
        if len(found) > 1:
            ids = ", ".join(offer.id for offer in found)
            raise errors.UserError(f"Several shared items are named {name}; choose one by its ID ({ids}).")
        return found[0]

    async def _decline(self, offer: offers.Offer) -> str:
        await self._db.write(lambda conn: _decide(conn, offer, offers.OfferState.DECLINED))
        return f"{offer.name} is not shown."

    async def _accept(self, offer: offers.Offer) -> str:
        item = await fetch_item(self._client, self._health, offer.kind, offer.id)
        if item is None:
            await self._db.write(lambda conn: offers.forget(conn, offer.kind, offer.id))
            return f"{offer.name} is no longer shared."
        await self._db.write(lambda conn: _decide(conn, offer, offers.OfferState.ACCEPTED))

        def note(conn: Connection) -> None:
            node = tree.remote_at(conn, KINDS[item.type], item.id)
            if node is not None and node.is_folder:
                # What is known of its contents may be incomplete.
                tree.mark_unlisted_below(conn, node.ino)

        await self._remote_updates.apply([item], note=note, is_answer=True)
        node = tree.find_remote(self._db, offer.kind, offer.id)
        if node is None or node.parent is None:
            return f"{offer.name} is accepted and appears after the next sync."
        if node.kind is NodeKind.FOLDER:
            self._hydrator.list_soon(node.ino)
        return f"{offer.name} is in {tree.path(self._db, node.ino)}."


def _decide(conn: Connection, offer: offers.Offer, state: offers.OfferState) -> None:
    offers.put(conn, offer.model_copy(update={"state": state}))
