"""POST /oauth2/token and the bearer token on every other call."""

import hashlib

import httpx
import pydantic
import pytest
import trio

from cmsfs import errors
from cmsfs.auth import bearer, grants, token_refresh, token_store
from cmsfs.client import session
from cmsfs.client.content.uploads import PIECE, BytesSource
from cmsfs.models.base import Reference
from cmsfs.models.content import uploads
from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import access_tokens


def grant(credentials, **changes):
    values = {
        "client_id": credentials.client_id,
        "client_secret": credentials.client_secret,
        "service_subject_type": "user",
        "subject_id": credentials.user_id,
    }
    return tokens.ClientCredentials(**values | changes)


async def test_client_credentials_give_a_token(anonymous, credentials):
    token = await anonymous.tokens.request(grant(credentials))
    assert token.token_type == "bearer"
    assert token.expires_in > 60
    assert len(token.access_token.get_secret_value()) >= 16
    enterprise = {"service_subject_type": "enterprise", "subject_id": credentials.enterprise_id}
    assert (await anonymous.tokens.request(grant(credentials, **enterprise))).access_token


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_secret": "wrong"}, "invalid_client"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"subject_id": "987654321"}, "invalid_grant"),
    ],
)
async def test_refusals_are_oauth_errors(anonymous, credentials, changes, code):
    with pytest.raises(errors.OAuthError) as caught:
        await anonymous.tokens.request(grant(credentials, **changes))
    assert caught.value.error == code


async def test_without_a_token_nothing_is_told(anonymous):
    with pytest.raises(errors.Unauthorized) as caught:
        await anonymous.users.me()
    assert caught.value.status == 401


async def test_a_dead_token_is_renewed_once_for_all(way, anonymous, credentials, upload):
    file = await upload("a.txt", b"text")
    fresh = grants.client_credentials(
        anonymous, credentials.client_id, credentials.client_secret, "user", credentials.user_id
    )
    fetched: list[str] = []

    async def fetch():
        fetched.append("dead" if not fetched else "fresh")
        return tokens.Token(access_token="dead") if len(fetched) == 1 else await fresh()

    async with (
        session.open_client(way.endpoints, transport=way.transport, auth=bearer.BearerAuth(fetch)) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(10):
            nursery.start_soon(client.items.get, "file", file.id)
    assert fetched == ["dead", "fresh"]


async def test_upload_with_expired_token_is_repeated(way, anonymous, credentials):
    fresh = grants.client_credentials(
        anonymous, credentials.client_id, credentials.client_secret, "user", credentials.user_id
    )
    first = [tokens.Token(access_token="dead")]

    async def fetch():
        return first.pop() if first else await fresh()

    data = bytes(3 * PIECE)
    async with session.open_client(
        way.endpoints, transport=way.transport, auth=bearer.BearerAuth(fetch)
    ) as client:
        made = await client.uploads.new_file(
            uploads.UploadAttributes(name="a", parent=Reference(id="0")),
            BytesSource(data),
            sha1=hashlib.sha1(data).hexdigest(),
        )
    assert made.size == len(data)


async def test_both_paths_of_the_endpoint_answer(way, credentials):
    async with httpx.AsyncClient(transport=way.transport) as http:
        for path in ("/oauth2/token", "/api/oauth2/token"):
            answer = await http.post(way.endpoints.auth_url + path, data=grant(credentials).form())
            assert answer.status_code == 200


async def test_consent_refreshes_until_revoked(anonymous, credentials, store, tmp_path):
    def consent(conn):
        app, user = credentials.client_id, int(credentials.user_id)
        family = access_tokens.begin_family(conn, app, user, granted=None, now=store.now())
        return access_tokens.issue_pair(conn, family, now=store.now())["refresh_token"]

    keep = token_store.FileTokenStore(tmp_path / "token")
    first = await store.write(consent)
    keep.write(token_store.StoredLogin(credentials.client_id, credentials.client_secret, first, "", 0))
    fetch = token_refresh.refreshing_fetch(anonymous, keep, tmp_path / "lock")
    seen = {first}
    # Each time the token is asked for again it counts as refused.
    assert (await fetch()).access_token != (await fetch()).access_token
    seen.add(keep.read().refresh_token)
    await fetch()
    seen.add(keep.read().refresh_token)
    assert len(seen) == 3
    secret = pydantic.SecretStr(credentials.client_secret)
    for _ in range(2):
        await anonymous.tokens.revoke(
            credentials.client_id, secret, pydantic.SecretStr(keep.read().access_token)
        )
    with pytest.raises(errors.NeedsLogin):
        await fetch()
