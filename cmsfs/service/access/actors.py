"""The actor of a request: an external user, known only to the application that got the token.

An annotator token speaks for a user and names an actor.  What is done with it is the user's doing as far as
rights and `created_by` go; events tell the actor beside that.

Rule: set for each request, in whose context its transactions run as well.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

_current: ContextVar[Mapping[str, str] | None] = ContextVar("actor", default=None)


def begin(actor: Mapping[str, str] | None) -> None:
    """From here on this request is an actor's, or nobody's but the user's."""
    _current.set(actor)


def for_event() -> dict[str, Any]:
    """What an event says of the actor; nothing if there is none."""
    actor = _current.get()
    return {} if actor is None else {"actor": {"type": "external", "id": actor["id"], "name": actor["name"]}}
