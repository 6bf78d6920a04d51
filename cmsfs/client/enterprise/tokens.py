"""The token endpoint: exchanges a grant for a token, and revokes tokens."""

import pydantic

from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.enterprise import tokens

# Two requests with the same credentials return two valid tokens.  A code, a refresh token and an assertion
# are valid for one use: a retry after a broken connection could only be rejected.
_REPEATABLE = (tokens.ClientCredentials, tokens.TokenExchange)


class TokensApi:
    """POST /oauth2/token and /oauth2/revoke."""

    def __init__(self, wire: Wire, auth_url: str) -> None:
        self._wire = wire
        self._url = f"{auth_url}/oauth2/token"
        self._revoke_url = f"{auth_url}/oauth2/revoke"

    async def request(self, grant: tokens.Grant) -> tokens.Token:
        """Request a token.  Raises `OAuthError` if the service rejects the grant."""
        repeat = Repeat.READ if isinstance(grant, _REPEATABLE) else Repeat.CHANGE
        return await self._wire.token(tokens.Token, self._url, grant.form(), repeat=repeat)

    async def revoke(
        self, client_id: str, client_secret: pydantic.SecretStr, token: pydantic.SecretStr
    ) -> None:
        """Revoke an access or refresh token, with all tokens of the same authorization."""
        form = {
            "client_id": client_id,
            "client_secret": client_secret.get_secret_value(),
            "token": token.get_secret_value(),
        }
        # Revoking a revoked token is no error, so the request can be repeated.
        await self._wire.form(self._revoke_url, form, repeat=Repeat.READ)
