"""The OAuth grants, each as the `fetch` function that `bearer.BearerAuth` calls for a token."""

from pathlib import Path
from typing import Literal

import pydantic

from cmsfs import errors
from cmsfs.auth import apps, link_file, refusals
from cmsfs.auth.bearer import Fetch
from cmsfs.client import session
from cmsfs.models.enterprise import tokens
from cmsfs.runtime import chance, clock

# Services accept a lifetime of a minute at most, and clocks differ.
ASSERTION_SECONDS = 45


def client_credentials(
    client: session.Client,
    client_id: str,
    client_secret: str,
    subject_type: Literal["user", "enterprise"],
    subject_id: str,
) -> Fetch:
    """Return the `fetch` of a server application that acts for a user or an enterprise.

    This grant has no refresh token: the same credentials give the next token.
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


def assertions(
    client: session.Client,
    app: apps.Application,
    audience: str,
    subject_type: Literal["user", "enterprise"],
    subject_id: str,
) -> Fetch:
    """Return the `fetch` of a server application that signs JWT assertions, for a user or the enterprise.

    `audience` is the URL of the token endpoint.  Raises `ConfigError` for a key that cannot be used.
    """
    if app.key is None:
        raise errors.ConfigError("The application's file has no private key (appAuth).")
    # Imported here: most accounts sign nothing, and the import takes a tenth of a command's start.
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    passphrase = app.key.passphrase.encode() if app.key.passphrase else None
    try:
        key = serialization.load_pem_private_key(app.key.pem.encode(), passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise errors.ConfigError(
            "The application's private key cannot be used: the passphrase is wrong, or it is no key."
        ) from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise errors.ConfigError("The application's private key is no RSA key.")
    key_id = app.key.key_id

    async def fetch() -> tokens.Token:
        claims = {
            "iss": app.client_id,
            "sub": subject_id,
            "box_sub_type": subject_type,
            "aud": audience,
            "jti": chance.token_urlsafe(32),
            "exp": int(clock.time()) + ASSERTION_SECONDS,
        }
        signed = jwt.encode(claims, key, algorithm="RS512", headers={"kid": key_id})
        grant = tokens.JwtBearer(
            client_id=app.client_id,
            client_secret=pydantic.SecretStr(app.client_secret),
            assertion=pydantic.SecretStr(signed),
        )
        return await client.tokens.request(grant)

    return fetch


def downscoped(
    client: session.Client,
    wider: Fetch,
    scope: str,
    *,
    resource: str | None = None,
    shared_link: str | None = None,
) -> Fetch:
    """Return the `fetch` of tokens limited to `scope` (space-delimited), and to `resource`, the URL of a file
    or folder, or to what `shared_link` shows.

    Each fetch gets a token from `wider` and exchanges it.  It raises `OAuthError` for rights that the wider
    token does not have itself.
    """

    async def fetch() -> tokens.Token:
        subject = await wider()
        grant = tokens.TokenExchange(
            subject_token=subject.access_token, scope=scope, resource=resource, shared_link=shared_link
        )
        return await client.tokens.request(grant)

    return fetch


async def visit(client: session.Client, url: str, password: pydantic.SecretStr | None) -> tokens.Token:
    """Request a token for a shared link without an account.

    Raises `OAuthError`: `incorrect_shared_item_password`, `invalid_grant` for a link that shows nothing, and
    another code if the service does not support such tokens.
    """
    return await client.tokens.request(tokens.LinkVisit(shared_link=url, shared_link_password=password))


def visiting(client: session.Client, path: Path | None) -> Fetch:
    """Return the `fetch` for the shared link stored at `path`.  Raises `ConfigError` if there is none.

    The file is read for every token, so that a new password takes effect at once; a link that has ended, or
    has another password, raises `NeedsLogin`.
    """
    link_file.read(path)

    async def fetch() -> tokens.Token:
        link = link_file.read(path)
        try:
            return await visit(client, link.url.get_secret_value(), link.password)
        except errors.OAuthError as error:
            messages = {tokens.LINK_PASSWORD: refusals.LINK_PASSWORD, "invalid_grant": refusals.LINK_ENDED}
            if error.error not in messages:
                raise
            raise errors.NeedsLogin(messages[error.error]) from error

    return fetch
