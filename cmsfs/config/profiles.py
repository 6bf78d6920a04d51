"""Service profiles: URLs and capabilities of a service, one TOML file each in `cmsfs/profiles`."""

import functools
import tomllib
from importlib import resources
from typing import Any, Literal

import pydantic

from cmsfs import errors
from cmsfs.config.paths import config_file
from cmsfs.config.settings import Settings


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Limits(_Model):
    """The service's request limits for an account; 0 means no limit."""

    requests_per_minute: int = 0
    uploads_per_minute: int = 0
    searches_per_minute: int = 0


class Profile(_Model):
    """How a service is reached and what it can do."""

    title: str
    embedded: bool = False
    base_url: str = ""
    upload_url: str = ""
    auth_url: str = ""
    authorize_url: str = ""
    item_page: str = ""  # URL template of an item's web page, with `{type}` and `{id}`
    lister: Literal["search", "folder_items"] = "search"
    folder_items: bool = False  # single folders can be listed, too, which is used if a tree is very large
    feed: Literal["search", "events"] = "search"
    # From this size on, files are uploaded in parallel, resumable parts; 0: never.
    parts_from_bytes: int = 0
    # The service can delete a folder on the condition that its contents are those that we know.
    known_trees: bool = False
    copies: bool = False  # the service can copy files itself, without an upload
    # The service may lack operations: they are probed at every mount (`cmsfs.client.offers`).
    varies: bool = False
    # The trash can be listed, and files and folders can be restored; otherwise it is listed by search, and
    # only web links can be restored, to their original place.
    trash: bool = False
    limits: Limits = Limits()


def require_service(settings: Settings) -> None:
    """Raise `ConfigError` unless a service is configured for the account."""
    if not settings.names_service:
        option = "" if settings.account == "default" else f"--account {settings.account} "
        raise errors.ConfigError(
            f"Not logged in: `cmsfs {option}login ADDRESS` logs in to a service, "
            "`cmsfs demo` mounts a demo drive."
        )


def profile_names() -> list[str]:
    """Return the names of all profiles."""
    folder = resources.files("cmsfs") / "profiles"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def profile(settings: Settings) -> Profile:
    """Return the profile of the settings, with the URLs that the settings override.

    Raises `ConfigError` for an unknown profile, or if URLs are missing.
    """
    values = dict(_shipped(settings.profile))
    for key in ("base_url", "upload_url", "auth_url", "authorize_url"):
        if given := getattr(settings, key):
            values[key] = given.rstrip("/")
    if settings.feed:
        values["feed"] = settings.feed
    if values.get("auth_url") and not values.get("authorize_url"):
        values["authorize_url"] = f"{values['auth_url']}/oauth2/authorize"
    found = Profile.model_validate(values)
    if not found.embedded and not (found.base_url and found.upload_url and found.auth_url):
        raise errors.ConfigError(
            f"Profile {settings.profile!r} needs base_url, upload_url and auth_url in {config_file()}."
        )
    return found


@functools.cache
def _shipped(name: str) -> dict[str, Any]:
    source = resources.files("cmsfs") / "profiles" / f"{name}.toml"
    if "/" in name or not source.is_file():
        known = ", ".join(profile_names())
        raise errors.ConfigError(f"There is no profile {name!r}; known are {known}.")
    return tomllib.loads(source.read_text(encoding="utf-8"))
