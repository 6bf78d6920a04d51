"""/users/me and /users/:id."""

import pytest

from cmsfs import errors


async def test_who_i_am_and_what_room_i_have(client, credentials, upload):
    before = await client.users.me()
    assert (before.id, before.type) == (credentials.user_id, "user")
    assert before.space_amount > 0
    await upload("a.txt", bytes(1000))
    after = await client.users.get(credentials.user_id)
    assert after.space_used == before.space_used + 1000


async def test_a_user_that_is_not_there(client):
    with pytest.raises(errors.NotFound):
        await client.users.get("987654321")
