"""Helpers for tests of sharing: create collaborations, and read their events."""

from typing import Any


async def share(
    owner: Any, item: Any, user: Any, role: str = "editor", *, expect: int = 201, **more: Any
) -> Any:
    """Create a collaboration as the owner."""
    whom = (
        {"type": "user", "login": user} if isinstance(user, str) else {"type": "user", "id": str(user.user)}
    )
    body = {"item": {"type": item["type"], "id": item["id"]}, "accessible_by": whom, "role": role} | more
    return await owner.ask("POST", "/collaborations", json=body, expect=expect)


async def position(api: Any) -> int:
    return (await api.ask("GET", "/events?stream_position=now"))["next_stream_position"]


async def told(api: Any, since: int, **params: Any) -> list[tuple[str, Any]]:
    """Return the events of a stream since a position."""
    page = await api.ask("GET", "/events", params={"stream_position": since} | params)
    return [(one["event_type"], one["source"]) for one in page["entries"]]
