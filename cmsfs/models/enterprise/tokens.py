"""The token endpoint: the six grants, the token response, and the OAuth error body.

A grant's `form()` has the fields of the form-encoded body.  Secrets are `SecretStr`, so that they do not
appear when a grant or a token is printed or logged.
"""

from typing import Any, Final, Literal

import pydantic

from cmsfs.models.base import Model
from cmsfs.models.content.items import Restriction

ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"
ID_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:id_token"
CLIENT_CREDENTIALS: Final = "client_credentials"
AUTHORIZATION_CODE: Final = "authorization_code"
REFRESH_TOKEN: Final = "refresh_token"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SHARED_LINK: Final = "urn:cmsfs:oauth:grant-type:shared-link"
# The error code for a missing or wrong password of a shared link.
LINK_PASSWORD: Final = "incorrect_shared_item_password"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


class Grant(Model):
    """The base of the grants."""

    def form(self) -> dict[str, str]:
        """Return the fields that have a value, under their wire names, with secrets in plain text."""
        return {
            name: _plain(value) for name, value in self.model_dump(by_alias=True, exclude_none=True).items()
        }


def _plain(value: Any) -> str:
    return value.get_secret_value() if isinstance(value, pydantic.SecretStr) else str(value)


class ClientCredentials(Grant):
    grant_type: Literal["client_credentials"] = "client_credentials"
    client_id: str
    client_secret: pydantic.SecretStr
    # All compatible services read the public API's spelling; the specification's `service_subject_type` is
    # sent as well.
    service_subject_type: Literal["enterprise", "user"]
    subject_type: Literal["enterprise", "user"] | None = pydantic.Field(None, alias="box_subject_type")
    subject_id: str = pydantic.Field(alias="box_subject_id")

    @pydantic.model_validator(mode="after")
    def _both_spellings(self) -> "ClientCredentials":
        self.subject_type = self.subject_type or self.service_subject_type
        return self


class AuthorizationCode(Grant):
    grant_type: Literal["authorization_code"] = "authorization_code"
    client_id: str
    client_secret: pydantic.SecretStr | None = None
    code: pydantic.SecretStr
    redirect_uri: str | None = None
    code_verifier: pydantic.SecretStr | None = None


class RefreshToken(Grant):
    grant_type: Literal["refresh_token"] = "refresh_token"
    client_id: str | None = None
    client_secret: pydantic.SecretStr | None = None
    refresh_token: pydantic.SecretStr


class JwtBearer(Grant):
    grant_type: Literal["urn:ietf:params:oauth:grant-type:jwt-bearer"] = JWT_BEARER
    client_id: str
    client_secret: pydantic.SecretStr
    assertion: pydantic.SecretStr


class TokenExchange(Grant):
    """The exchange of a token for a downscoped one; `scope` is space-delimited, `resource` an item's URL."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"] = TOKEN_EXCHANGE
    subject_token: pydantic.SecretStr
    subject_token_type: str = ACCESS_TOKEN_TYPE
    scope: str
    resource: str | None = None
    shared_link: str | None = pydantic.Field(None, alias="box_shared_link")
    actor_token: pydantic.SecretStr | None = None
    actor_token_type: str | None = None


class LinkVisit(Grant):
    """Grants what a shared link gives access to; with its password, if it has one."""

    grant_type: Literal["urn:cmsfs:oauth:grant-type:shared-link"] = SHARED_LINK
    shared_link: str
    shared_link_password: pydantic.SecretStr | None = None


class Revocation(Grant):
    """Revokes an access or refresh token, with all tokens of the same authorization."""

    client_id: str
    client_secret: pydantic.SecretStr
    token: pydantic.SecretStr


class Token(Model):
    access_token: pydantic.SecretStr
    expires_in: int = 3600
    token_type: str = "bearer"
    refresh_token: pydantic.SecretStr | None = None
    restricted_to: list[Restriction] | None = None
    issued_token_type: str | None = None


class OAuthProblem(Model):
    """The body of an error response, RFC 6749 section 5.2."""

    error: str
    error_description: str = ""
