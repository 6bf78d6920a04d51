"""Service profiles: URLs and capabilities of a service, one TOML file each in `cmsfs/profiles`."""

import tomllib
from importlib import resources
from typing import Literal

import pydantic

from cmsfs import errors
from cmsfs.config.paths import config_file
from cmsfs.config.settings import Settings


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Limits(_Model):
    """Requests that the service allows this account; 0 is no limit."""

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
    item_page: str = ""  # where a browser shows an item: its `{type}` and `{id}` are put in
    lister: Literal["search", "folder_items"] = "search"
    folder_items: bool = False  # a single folder can be listed too: used where its tree is very large
    feed: Literal["search", "events"] = "search"
    # From this size on a file is sent in parts, several at once, and goes on after a break; 0: never.
    parts_from_bytes: int = 0
    # It deletes a folder with what is in it on the condition that this is what we know of it.
    known_trees: bool = False
    copies: bool = False  # it copies files by itself, without their bytes coming from here
    # It may lack operations: what it offers is found out at every mount (`cmsfs.client.offers`).
    varies: bool = False
    # The trash has a listing, and files and folders come back out of it; otherwise a search shows what is in
    # it, and web links come back, to where they were.
    trash: bool = False
    limits: Limits = Limits()


def require_service(settings: Settings) -> None:
    """Raise `ConfigError` unless somebody has said which service the account is on."""
    if not settings.names_service:
        option = "" if settings.account == "default" else f"--account {settings.account} "
        raise errors.ConfigError(
            f"Not logged in: `cmsfs {option}login ADDRESS` logs in to a service, "
            "`cmsfs demo` mounts a demo drive."
        )


def profile_names() -> list[str]:
    """The profiles that there are."""
    folder = resources.files("cmsfs") / "profiles"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def profile(settings: Settings) -> Profile:
    """The profile that the settings name, with the addresses that the settings override.

    Raises `ConfigError` for an unknown profile or one whose addresses are missing.
    """
    source = resources.files("cmsfs") / "profiles" / f"{settings.profile}.toml"
    if "/" in settings.profile or not source.is_file():
        known = ", ".join(profile_names())
        raise errors.ConfigError(f"There is no profile {settings.profile!r}; known are {known}.")
    values = tomllib.loads(source.read_text(encoding="utf-8"))
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
