"""Where tokens come from: each grant as the `fetch` that `bearer.BearerAuth` wants."""

from collections.abc import Awaitable, Callable
from typing import Literal

import pydantic
import trio

from cmsfs.auth.bearer import Fetch
from cmsfs.client import session
from cmsfs.models import tokens


def client_credentials(
    client: session.Client,
    client_id: str,
    client_secret: str,
    subject_type: Literal["user", "enterprise"],
    subject_id: str,
) -> Fetch:
    """Tokens for a server application that speaks for a user or an enterprise.

    There is no refresh token in this grant: the same credentials give the next token.
    """
    grant = tokens.ClientCredentials(
        client_id=client_id,
        client_secret=pydantic.SecretStr(client_secret),
        service_subject_type=subject_type,
        subject_id=subject_id,
    )

    async def fetch() -> tokens.Token:
        return await client.tokens.request(grant)

    return fetch


def refreshing(
    client: session.Client,
    client_id: str,
    client_secret: str,
    refresh_token: pydantic.SecretStr,
    keep: Callable[[tokens.Token], Awaitable[None]],
) -> Fetch:
    """Tokens for a person who once consented: each fetch uses up a refresh token and brings the next.

    `keep` stores the new pair durably; it is called before the pair is used, for the old one is worthless
    from then on.  Cancelled: a fetch that has begun is finished first, so that the new pair is not lost.
    """
    current = refresh_token

    async def fetch() -> tokens.Token:
        nonlocal current
        grant = tokens.RefreshToken(
            client_id=client_id,
            client_secret=pydantic.SecretStr(client_secret),
            refresh_token=current,
        )
        with trio.CancelScope(shield=True):
            token = await client.tokens.request(grant)
            current = token.refresh_token or current
            await keep(token)
        return token

    return fetch


def downscoped(
    client: session.Client,
    wider: Fetch,
    scope: str,
    *,
    resource: str | None = None,
    shared_link: str | None = None,
) -> Fetch:
    """Tokens that can do no more than `scope`, space-delimited; only on `resource`, the URL of a file or
    folder, or on what `shared_link` shows.

    Each fetch asks `wider` for a token and has it exchanged.  Raises `OAuthError` for what the wider token
    may not do itself.
    """

    async def fetch() -> tokens.Token:
        subject = await wider()
        grant = tokens.TokenExchange(
            subject_token=subject.access_token, scope=scope, resource=resource, shared_link=shared_link
        )
        return await client.tokens.request(grant)

    return fetch
