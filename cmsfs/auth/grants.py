"""Where tokens come from: each grant as the `fetch` that `bearer.BearerAuth` wants."""

from typing import Literal

import pydantic

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
