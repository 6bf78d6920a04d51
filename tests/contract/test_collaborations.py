"""Collaborations and the administrators' events, from our client."""

from datetime import UTC, datetime

import pytest

from cmsfs import errors
from cmsfs.models.enterprise import collaborations


async def test_from_invitation_to_end(client, upload):
    folder = await client.folders.create("shared", "0")
    made = await client.collaborations.create(
        *("folder", folder.id, "viewer uploader"),
        login="ben@example.com",
        expires_at=datetime(2099, 1, 1, tzinfo=UTC),
    )
    assert (made.status, made.role, made.expires_at.year) == ("accepted", "viewer uploader", 2099)
    with pytest.raises(errors.ApiError) as caught:
        await client.collaborations.create("folder", folder.id, "viewer", login="ben@example.com")
    assert caught.value.code == "user_already_collaborator"
    wish = collaborations.UpdateCollaboration(role="editor", expires_at=None)
    changed = await client.collaborations.update(made.id, wish)
    assert (changed.role, changed.expires_at) == ("editor", None)
    invited = await client.collaborations.create("folder", folder.id, "viewer", login="x@nowhere.example")
    assert (invited.status, invited.invite_email) == ("pending", "x@nowhere.example")
    assert [one.id async for one in client.collaborations.of("folder", folder.id)] == [made.id, invited.id]
    assert [one async for one in client.collaborations.pending()] == []
    with pytest.raises(errors.Forbidden):
        await client.collaborations.answer(invited.id, accept=True)
    await client.collaborations.delete(invited.id)
    with pytest.raises(errors.NotFound):
        await client.collaborations.get(invited.id)
    await client.collaborations.hand_over(made.id)
    found = await client.items.get("folder", folder.id)
    assert (found.owned_by.login, found.permissions) == ("ben@example.com", None)


async def test_what_happened_in_the_enterprise(client, upload):
    start = datetime.now(UTC)
    await upload("a.txt")
    page = await client.events.of_enterprise(after=start, words=["UPLOAD"])
    assert [one.source["item_name"] for one in page.entries] == ["a.txt"]
    assert (await client.events.of_enterprise(before=start, words=["UPLOAD"])).entries[-1:] != page.entries
