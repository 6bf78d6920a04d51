"""Groups for tests, made by the administrator."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest


@pytest.fixture
def group_of(api: Any) -> Callable[..., Awaitable[Any]]:
    """`await group_of(name, *members, **fields)`: a new group."""

    async def make(name: str, *members: Any, **fields: Any) -> Any:
        made = await api.ask("POST", "/groups", json={"name": name} | fields, expect=201)
        for one in members:
            body = {"user": {"id": str(one.user)}, "group": {"id": made["id"]}}
            await api.ask("POST", "/group_memberships", json=body, expect=201)
        return made

    return make


async def share_with(
    owner: Any, item: Any, group: Any, role: str = "editor", *, expect: int = 201, **more: Any
) -> Any:
    """The collaboration of a group with an item."""
    body = {
        "item": {"type": item["type"], "id": item["id"]},
        "accessible_by": {"type": "group", "id": group["id"]},
        "role": role,
    }
    return await owner.ask("POST", "/collaborations", json=body | more, expect=expect)


async def shared_with(caller: Any) -> list[str]:
    """The names in the caller's root."""
    return [one["name"] for one in (await caller.ask("GET", "/folders/0/items"))["entries"]]
