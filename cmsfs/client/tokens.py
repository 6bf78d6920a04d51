"""The token endpoint: a grant for a token."""

from cmsfs.client.retry import Repeat
from cmsfs.client.wire import Wire
from cmsfs.models import tokens

# Asking twice with the same credentials gives two good tokens.  A code, a refresh token and an assertion
# are good for one use: a repeat after a broken connection could only be refused.
_REPEATABLE = (tokens.ClientCredentials, tokens.TokenExchange)


class Tokens:
    """POST /oauth2/token."""

    def __init__(self, wire: Wire, auth_url: str) -> None:
        self._wire = wire
        self._url = f"{auth_url}/oauth2/token"

    async def request(self, grant: tokens.Grant) -> tokens.Token:
        """Raises `OAuthError` for a refusal."""
        repeat = Repeat.READ if isinstance(grant, _REPEATABLE) else Repeat.CHANGE
        return await self._wire.token(tokens.Token, self._url, grant.form(), repeat=repeat)
