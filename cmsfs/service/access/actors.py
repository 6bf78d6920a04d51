"""Who makes a request, beside its user: the actor, and the client's session.

An annotator token speaks for a user and names an actor, an external user that only its application knows.
What is done with it is the user's doing as far as rights and `created_by` go; events tell the actor beside.

A client that names its session finds that in the events of what it did, and can wait for those of others.

Rule: set for each request, in whose context its transactions run as well.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from starlette.requests import Request

from cmsfs.models import wire_names

# Where an event keeps the session, which is shown outside of its details.
SESSION = "session"
_LONGEST = 64

_current: ContextVar[Mapping[str, str] | None] = ContextVar("actor", default=None)
_session: ContextVar[str | None] = ContextVar("session", default=None)


def begin(actor: Mapping[str, str] | None, request: Request) -> None:
    """From here on this request is an actor's, or nobody's but the user's; and of the session it names."""
    _current.set(actor)
    _session.set(session_of(request))


def session_of(request: Request) -> str | None:
    """The session that a request names, if it is a name."""
    told = request.headers.get(wire_names.SESSION_HEADER, "")
    return told if told and told.isascii() and told.isprintable() and len(told) <= _LONGEST else None


def for_event() -> dict[str, Any]:
    """What an event says of the actor and the session; nothing if there are none."""
    actor, session = _current.get(), _session.get()
    said: dict[str, Any] = {} if session is None else {SESSION: session}
    if actor is not None:
        said["actor"] = {"type": "external", "id": actor["id"], "name": actor["name"]}
    return said
