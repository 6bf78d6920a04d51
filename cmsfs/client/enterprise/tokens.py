"""The token endpoint: exchanges a grant for a token, and revokes tokens."""

import pydantic

from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.enterprise import tokens

# Asking twice with the same credentials gives two good tokens.  A code, a refresh token and an assertion
# are good for one use: a repeat after a broken connection could only be refused.
_REPEATABLE = (tokens.ClientCredentials, tokens.TokenExchange)


class TokensApi:
    """POST /oauth2/token and /oauth2/revoke."""

    def __init__(self, wire: Wire, auth_url: str) -> None:
        self._wire = wire
        self._url = f"{auth_url}/oauth2/token"
        self._revoke_url = f"{auth_url}/oauth2/revoke"

    async def request(self, grant: tokens.Grant) -> tokens.Token:
        """Raises `OAuthError` for a refusal."""
        repeat = Repeat.READ if isinstance(grant, _REPEATABLE) else Repeat.CHANGE
        return await self._wire.token(tokens.Token, self._url, grant.form(), repeat=repeat)

    async def revoke(
        self, client_id: str, client_secret: pydantic.SecretStr, token: pydantic.SecretStr
    ) -> None:
        """End an access or refresh token, and with it all that came of the same consent."""
        form = {
            "client_id": client_id,
            "client_secret": client_secret.get_secret_value(),
            "token": token.get_secret_value(),
        }
        # Ending what is ended already is no mistake, so that asking twice is safe.
        await self._wire.form(self._revoke_url, form, repeat=Repeat.READ)
