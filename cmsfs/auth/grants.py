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

# Services take a minute at most, and clocks differ.
ASSERTION_SECONDS = 45


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


def assertions(
    client: session.Client,
    app: apps.Application,
    audience: str,
    subject_type: Literal["user", "enterprise"],
    subject_id: str,
) -> Fetch:
    """Tokens for a server application that signs with its key, for a user or the enterprise.

    `audience` is the URL of the token endpoint.  Raises `ConfigError` for a key that cannot be used.
    """
    if app.key is None:
        raise errors.ConfigError("The application's file has no private key (appAuth).")
    # Here: most accounts sign nothing, and loading this takes a command as long as a tenth of all the rest.
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


async def visit(client: session.Client, url: str, password: pydantic.SecretStr | None) -> tokens.Token:
    """A token for what a shared link shows to who has no account.

    Raises `OAuthError`: `incorrect_shared_item_password`, `invalid_grant` for a link that shows nothing, and
    another one where a service knows no such tokens.
    """
    return await client.tokens.request(tokens.LinkVisit(shared_link=url, shared_link_password=password))


def visiting(client: session.Client, path: Path | None) -> Fetch:
    """Tokens for the link that is kept there.  Raises `ConfigError` where none is.

    The file is read anew for every token, so that a password that was named again counts at once; a link that
    has ended, or has another password, is `NeedsLogin`.
    """
    link_file.read(path)

    async def fetch() -> tokens.Token:
        link = link_file.read(path)
        try:
            return await visit(client, link.url.get_secret_value(), link.password)
        except errors.OAuthError as error:
            said = {tokens.LINK_PASSWORD: refusals.LINK_PASSWORD, "invalid_grant": refusals.LINK_ENDED}
            if error.error not in said:
                raise
            raise errors.NeedsLogin(said[error.error]) from error

    return fetch
