"""OAuth applications read from a file: client id, secret and, optionally, the key that signs JWT assertions.

Three formats are accepted: the download of the public API's console (`boxAppSettings`), the flat file that
`cmsfs serve` writes beside its data, and a file with only `client_id` and `client_secret`.

Rule: the file is read where it is used and never copied; error messages do not quote its contents.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cmsfs import errors


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key that an application signs its assertions with."""

    key_id: str
    pem: str = field(repr=False)
    passphrase: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Application:
    """An OAuth application and its credentials."""

    client_id: str
    client_secret: str = field(repr=False)
    user_id: str = ""
    enterprise_id: str = ""
    key: SigningKey | None = None


def read(path: Path) -> Application:
    """Read an application from a file.  Raises `ConfigError`, naming the file and what is missing."""
    try:
        document = json.loads(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.ConfigError(f"The application's file {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise errors.ConfigError(f"The application's file {path} is no JSON.") from None
    if not isinstance(document, dict):
        raise errors.ConfigError(f"The application's file {path} is no JSON object.")
    nested = document.get("boxAppSettings")
    if isinstance(nested, dict):
        return Application(
            client_id=_text(path, nested, "clientID"),
            client_secret=_text(path, nested, "clientSecret"),
            user_id=_text(path, document, "userID", optional=True),
            enterprise_id=_text(path, document, "enterpriseID", optional=True),
            key=_key(path, nested),
        )
    return Application(
        client_id=_text(path, document, "client_id"),
        client_secret=_text(path, document, "client_secret"),
        user_id=_text(path, document, "user_id", optional=True),
        enterprise_id=_text(path, document, "enterprise_id", optional=True),
    )


def _key(path: Path, settings: dict[str, Any]) -> SigningKey | None:
    found = settings.get("appAuth")
    if not isinstance(found, dict) or not found.get("privateKey"):
        return None
    return SigningKey(
        key_id=_text(path, found, "publicKeyID"),
        pem=_text(path, found, "privateKey"),
        passphrase=_text(path, found, "passphrase", optional=True) or None,
    )


def _text(path: Path, document: dict[str, Any], name: str, *, optional: bool = False) -> str:
    value = document.get(name)
    if optional and value in (None, "", "0"):
        return ""
    if not isinstance(value, str) or not value:
        raise errors.ConfigError(f"The application's file {path} has no {name}.")
    return value
