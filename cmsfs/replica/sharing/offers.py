"""Shares that await the user's answer before they appear on the drive (`shared = "ask"`).

An undecided item has no node.  Decisions are stored by the item's id; an offer that was forgotten, or an item
that is shared again, is asked again.

Rule: an offer never removes an item from the tree.
"""

import enum
from collections.abc import Iterable
from sqlite3 import Connection

import pydantic

from cmsfs.replica import kv_store
from cmsfs.replica.nodes import NodeKind, Remote
from cmsfs.replica.sharing import shares
from cmsfs.sqlite import Database

_ALL = "SELECT value FROM cursor WHERE key >= 'offer:' AND key < 'offer;'"


class OfferState(enum.StrEnum):
    """What the user has decided about an offer."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    DECLINED = "declined"


class Offer(pydantic.BaseModel):
    """An offered item; `owner` is the owner's display name."""

    kind: NodeKind
    id: str
    name: str
    owner: str
    state: OfferState = OfferState.WAITING


def holds(conn: Connection, found: shares.Rules, remote: Remote) -> bool:
    """Whether a new item gets no node because the user is asked first: it is offered, or was declined."""
    if not shares.is_shared(found, remote):
        return False
    known = at(conn, remote.kind, remote.id)
    if known is not None and known.state is OfferState.ACCEPTED:
        return False
    told = offered(remote, known.state if known is not None else OfferState.WAITING)
    if told != known:
        put(conn, told)
    return True


def offered(remote: Remote, state: OfferState) -> Offer:
    """Return an item's offer in this state."""
    whose = getattr(remote.item, "owned_by", None) or {}
    told = whose if isinstance(whose, dict) else whose.model_dump()
    owner = told.get("name") or told.get("login") or told.get("id") or ""
    return Offer(kind=remote.kind, id=remote.id, name=remote.name, owner=str(owner), state=state)


def at(conn: Connection, kind: NodeKind, item_id: str) -> Offer | None:
    """Return the stored offer of an item, if any."""
    text = kv_store.at(conn, _key(kind, item_id))
    return Offer.model_validate_json(text) if text is not None else None


def put(conn: Connection, offer: Offer) -> None:
    """Store an offer."""
    kv_store.put(conn, _key(offer.kind, offer.id), offer.model_dump_json())


def forget(conn: Connection, kind: NodeKind, item_id: str) -> None:
    """Delete the offer of an item that is no longer shared."""
    kv_store.drop(conn, _key(kind, item_id))


def forget_all(conn: Connection) -> None:
    """Delete all offers, because the user is no longer asked."""
    kv_store.drop_all(conn, "offer:")


def undecided(db: Database) -> list[Offer]:
    """Return undecided and declined offers, by owner and name."""
    found = (Offer.model_validate_json(row["value"]) for row in db.rows(_ALL))
    return _sorted(one for one in found if one.state is not OfferState.ACCEPTED)


def is_accepted(db: Database, kind: NodeKind, item_id: str) -> bool:
    """Whether the user has accepted this item."""
    text = kv_store.get(db, _key(kind, item_id))
    return text is not None and Offer.model_validate_json(text).state is OfferState.ACCEPTED


def _sorted(found: Iterable[Offer]) -> list[Offer]:
    return sorted(found, key=lambda one: (one.owner, one.name, one.kind, one.id))


def _key(kind: NodeKind, item_id: str) -> str:
    return f"offer:{kind.value}:{item_id}"
