"""Stores the shared link that a drive is mounted from.

The link's URL grants access like a key, and so does its password; both are stored in a file in the account's
state that only this user can read, never in the configuration, an argument or the environment.

Rule: this module imports nothing of the client, since a starting drive reads it.
"""

import json
import os
import stat
from pathlib import Path
from typing import Literal

import pydantic

from cmsfs import errors, process_env


class LinkAccess(pydantic.BaseModel):
    """A shared link, its password and the item that it shows."""

    url: pydantic.SecretStr
    password: pydantic.SecretStr | None = None
    type: Literal["file", "folder"]
    id: str
    name: str
    account: str = ""  # the account whose tokens are used, if the link shows nothing without one


def read(path: Path | None) -> LinkAccess:
    """Read the stored link.  Raises `ConfigError`, also for a file that others can read."""
    if path is None:
        raise errors.ConfigError('`login = "link"` needs link_file: `cmsfs mount LINK` sets both.')
    path = path.expanduser()
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise errors.ConfigError(f"{path} holds a shared link and can be read by others: chmod 600 it.")
        return LinkAccess.model_validate_json(path.read_bytes())
    except OSError as error:
        raise errors.ConfigError(
            f"The shared link in {path} cannot be read: {error.strerror}; `cmsfs mount LINK` writes it."
        ) from None
    except pydantic.ValidationError:
        raise errors.ConfigError(f"{path} holds no shared link; `cmsfs mount LINK` writes it.") from None


def keep(path: Path, link: LinkAccess) -> None:
    """Write the link atomically, readable by this user only."""
    process_env.private_folder(path.parent)
    document = link.model_dump() | {"url": link.url.get_secret_value()}
    document["password"] = None if link.password is None else link.password.get_secret_value()
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
