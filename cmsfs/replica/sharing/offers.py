"""Shares that await the user's answer before they appear on the drive (`shared = "ask"`).

An item that nobody has decided on has no place and no name here.  What was decided is kept by the item's id;
what was forgotten is asked again, and so is what is shared anew.

Rule: what is in the tree is never taken out of it by an offer.
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
    """One item; `owner` is whose it is, in words."""

    kind: NodeKind
    id: str
    name: str
    owner: str
    state: OfferState = OfferState.WAITING


def holds(conn: Connection, found: shares.Rules, remote: Remote) -> bool:
    """Whether an item that has no place here gets none, where the person is asked: it is offered, or was
    declined."""
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
    """The offer of an item."""
    whose = getattr(remote.item, "owned_by", None) or {}
    told = whose if isinstance(whose, dict) else whose.model_dump()
    owner = told.get("name") or told.get("login") or told.get("id") or ""
    return Offer(kind=remote.kind, id=remote.id, name=remote.name, owner=str(owner), state=state)


def at(conn: Connection, kind: NodeKind, item_id: str) -> Offer | None:
    """What is known of the offer of an item."""
    text = kv_store.at(conn, _key(kind, item_id))
    return Offer.model_validate_json(text) if text is not None else None


def put(conn: Connection, offer: Offer) -> None:
    """Keep an offer as it is now."""
    kv_store.put(conn, _key(offer.kind, offer.id), offer.model_dump_json())


def forget(conn: Connection, kind: NodeKind, item_id: str) -> None:
    """The item is no longer shared."""
    kv_store.drop(conn, _key(kind, item_id))


def forget_all(conn: Connection) -> None:
    """Nobody wants to be asked any more."""
    kv_store.drop_all(conn, "offer:")


def undecided(db: Database) -> list[Offer]:
    """What waits for the person, and what was declined; by owner and name."""
    found = (Offer.model_validate_json(row["value"]) for row in db.rows(_ALL))
    return _sorted(one for one in found if one.state is not OfferState.ACCEPTED)


def is_accepted(db: Database, kind: NodeKind, item_id: str) -> bool:
    """Whether the person has said yes to this item."""
    text = kv_store.get(db, _key(kind, item_id))
    return text is not None and Offer.model_validate_json(text).state is OfferState.ACCEPTED


def _sorted(found: Iterable[Offer]) -> list[Offer]:
    return sorted(found, key=lambda one: (one.owner, one.name, one.kind, one.id))


def _key(kind: NodeKind, item_id: str) -> str:
    return f"offer:{kind.value}:{item_id}"
