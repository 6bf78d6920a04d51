"""Refresh tokens: one use each, and the end of the family for whoever shows an old one."""

import pytest

from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import access_tokens

SECRET = {"client_id": "tests", "client_secret": "a secret of the tests"}


@pytest.fixture
async def pair(api, service):
    """The first pair of a family."""

    def txn(conn):
        family = access_tokens.begin_family(conn, "tests", api.user, granted=None, now=service.now())
        return access_tokens.issue_pair(conn, family, now=service.now())

    return await service.write(txn)


def form(made):
    return {"grant_type": tokens.REFRESH_TOKEN, "refresh_token": made["refresh_token"]}


async def revoke(api, token, **change):
    return await api.http.post("http://service.test/oauth2/revoke", data=SECRET | {"token": token} | change)


async def test_each_refresh_gives_a_new_pair(api, pair):
    seen = {pair["refresh_token"]}
    for _ in range(3):
        pair = await api.oauth(form(pair))
        assert pair["refresh_token"] not in seen
        seen.add(pair["refresh_token"])
        assert await api.status(pair["access_token"]) == 200
        assert (pair["expires_in"], pair["token_type"], pair["restricted_to"]) == (3600, "bearer", [])


async def test_the_form_of_our_own_model_is_taken(api, pair):
    assert await api.oauth(tokens.RefreshToken(refresh_token=pair["refresh_token"]).form())


async def test_reuse_ends_the_family(api, pair):
    second = await api.oauth(form(pair))
    third = await api.oauth(form(second))
    assert await api.refused(form(pair)) == "invalid_grant"
    assert await api.refused(form(third)) == "invalid_grant"
    assert await api.status(third["access_token"]) == 401
    assert await api.status(pair["access_token"]) == 401


async def test_refresh_token_lives_60_days(api, pair, service):
    day = 24 * 3600 * 1_000_000
    pair = await api.oauth(form(pair))
    left = service.read("SELECT expires_at FROM family")[0]["expires_at"] - service.now()
    assert 59 * day < left <= 60 * day
    await service.write(
        lambda conn: conn.execute("UPDATE family SET expires_at = expires_at - ?", (60 * day,))
    )
    assert await api.refused(form(pair)) == "invalid_grant"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"refresh_token": ""}, "invalid_request"),
        ({"refresh_token": "nonsense"}, "invalid_grant"),
        ({"client_secret": "x"}, "invalid_client"),
        ({"client_id": "x"}, "invalid_client"),
    ],
)
async def test_refusals_use_nothing_up(api, pair, change, error):
    assert await api.refused(form(pair) | change) == error
    assert await api.oauth(form(pair))


async def test_access_token_cannot_refresh(api, pair):
    assert await api.refused(form({"refresh_token": pair["access_token"]})) == "invalid_grant"
    assert await api.status(pair["refresh_token"]) == 401


async def test_an_inactive_user_gets_no_more(api, pair, service):
    await service.write(lambda conn: conn.execute("UPDATE account SET status = 'inactive'"))
    assert await api.refused(form(pair)) == "invalid_grant"


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_revoking_either_ends_the_family(api, pair, which):
    own = api.http.headers["authorization"].removeprefix("Bearer ")
    narrow = await api.oauth(
        {
            "grant_type": tokens.TOKEN_EXCHANGE,
            "subject_token": pair["access_token"],
            "subject_token_type": tokens.ACCESS_TOKEN_TYPE,
            "scope": "item_preview",
        }
    )
    second = await api.oauth(form(pair))
    answer = await revoke(api, second[which])
    assert (answer.status_code, answer.content) == (200, b"")
    for dead in (pair, second, narrow):
        assert await api.status(dead["access_token"]) == 401
    assert await api.refused(form(second)) == "invalid_grant"
    assert await api.status(own) == 200


async def test_revoking_a_narrowed_token_leaves_the_family(api, pair):
    api.http.headers["authorization"] = f"Bearer {pair['access_token']}"
    narrow = await api.narrowed("item_preview")
    await revoke(api, narrow)
    assert await api.status(narrow) == 401
    assert await api.status(pair["access_token"]) == 200
    assert await api.oauth(form(pair))


async def test_nobody_else_can_revoke_or_refresh(api, pair, service):
    await service.write(
        lambda conn: conn.execute(
            "INSERT INTO app SELECT 'other', secret_hash, name, enterprise, service_user, scopes, grants,"
            " redirect_uris FROM app"
        )
    )
    other = {"client_id": "other"}
    assert await api.refused(form(pair) | other) == "invalid_grant"
    for token in (pair["access_token"], pair["refresh_token"]):
        assert (await revoke(api, token, **other)).status_code == 200
    assert await api.status(pair["access_token"]) == 200
    assert await api.oauth(form(pair))


async def test_a_deleted_user_leaves_no_tokens(api, pair, service):
    for table in ("token", "family", "refresh_token"):
        assert service.read(f"SELECT count(*) AS n FROM {table}")[0]["n"]
    await service.write(lambda conn: conn.execute("DELETE FROM app"))
    for table in ("token", "family", "refresh_token"):
        assert service.read(f"SELECT count(*) AS n FROM {table}")[0]["n"] == 0
