"""Who makes a request besides its user: the actor, and the client's session.

An annotator token belongs to a user and names an actor, an external user known only to its application.
Rights and `created_by` are the user's; events also name the actor.

A client that sends a session id finds it in the events of its own changes, and can wait for events of other
sessions.

Rule: both are context variables, set per request; its transactions run in the same context.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from starlette.requests import Request

from cmsfs.models import wire_names

# The key of the session in an event's details; responses show it outside of them.
SESSION = "session"
_MAX_LENGTH = 64

_current: ContextVar[Mapping[str, str] | None] = ContextVar("actor", default=None)
_session: ContextVar[str | None] = ContextVar("session", default=None)


def set_current(actor: Mapping[str, str] | None, request: Request) -> None:
    """Set the actor and the session of the current request; None clears the actor."""
    _current.set(actor)
    _session.set(session_of(request))


def session_of(request: Request) -> str | None:
    """Return the session id that a request sends, if it is valid."""
    session_id = request.headers.get(wire_names.SESSION_HEADER, "")
    return (
        session_id
        if session_id and session_id.isascii() and session_id.isprintable() and len(session_id) <= _MAX_LENGTH
        else None
    )


def for_event() -> dict[str, Any]:
    """Return the actor and the session for an event's details; empty if there are none."""
    actor, session = _current.get(), _session.get()
    details: dict[str, Any] = {} if session is None else {SESSION: session}
    if actor is not None:
        details["actor"] = {"type": "external", "id": actor["id"], "name": actor["name"]}
    return details
