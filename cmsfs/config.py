"""Settings, profiles and the folders that cmsfs uses.

One TOML file (`$XDG_CONFIG_HOME/cmsfs/config.toml`) with a table for each account, overridden by
`CMSFS_*` in the environment, read into one `Settings`.  A profile says how a service is reached and
what it can do.

Rule: no other module but environment.py reads the environment or knows where a file lives.
"""

import difflib
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import time
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import platformdirs
import pydantic

from cmsfs import environment, errors, rates
from cmsfs import local_names as names

APP = "cmsfs"

# Variables of the environment that are no settings.
_VARIABLES = ("CMSFS_CONFIG", "CMSFS_DEBUG", "CMSFS_CRASH_PLAN", "CMSFS_PYTHON")


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
    lister: Literal["search", "folder_items"] = "search"
    folder_items: bool = False  # a single folder can be listed too: used where its tree is very large
    feed: Literal["search", "events"] = "search"
    # From this size on a file is sent in parts, several at once, and goes on after a break; 0: never.
    parts_from_bytes: int = 0
    copies: bool = False  # it copies files by itself, without their bytes coming from here
    # The trash has a listing, and files and folders come back out of it; otherwise a search shows what is in
    # it, and web links come back, to where they were.
    trash: bool = False
    limits: Limits = Limits()


class Settings(_Model):
    """Everything that can be set, each default with its reason."""

    account: str = "default"  # whose drive is meant when no command says it
    profile: str = "embedded"  # works without an account anywhere: the way to try cmsfs
    mountpoint: Path = Path("~/cmsfs")  # made when it is missing
    # A drive that can do less than the account: one folder of the service, only reading, only for a time.
    # A folder and a reader have a tree and a cache of their own, beside those of the whole drive.
    folder: str = ""
    read_only: bool = False
    ttl_seconds: float = 0  # 0: for as long as the login holds
    service_data: Path | None = None  # of the embedded service; None: the user's data folder

    # Addresses, when the profile does not say them or another host is meant.
    base_url: str = ""
    upload_url: str = ""
    auth_url: str = ""
    authorize_url: str = ""
    ca_file: Path | None = None

    feed: Literal["", "search", "events"] = ""  # how remote changes are found, if not as the profile says

    # Who speaks to the service: a person who consented with `cmsfs login`, or an application by itself with
    # its secret or its key.
    login: Literal["person", "client_credentials", "jwt"] = "client_credentials"
    # Where a person's tokens are; `auto`: in the keyring of the session if there is one, else in a file.
    token_store: Literal["auto", "keyring", "file"] = "auto"
    # The application as the service's console gives it out, a JSON file; in place of the four below.
    app_file: Path | None = None
    # Client credentials; the secret comes from a file so that it is on no command line.
    client_id: str = ""
    client_secret_file: Path | None = None
    subject_type: Literal["user", "enterprise"] = "user"
    subject_id: str = ""

    cache_bytes: int = 20 * 1024**3  # a fifth of a small disk; eviction keeps it below
    keep_free_bytes: int = 1024**3  # the rest of the machine needs room to work
    settle_seconds: float = 2.0  # an editor's flurry of saves becomes one upload
    poll_seconds: float = 5.0  # remote changes show within this while the drive is in use
    idle_poll_seconds: float = 30.0  # and within this when nobody looks
    # Everything is compared with the service this often, in the background, for what no feed tells of; a
    # request for each 200 items.  0: only after a gap, and when it is asked for.
    sweep_hours: float = 24.0
    drain_seconds: float = 30.0  # how long a stop waits for uploads; the journal keeps the rest
    network_seconds: float = 30.0  # after this a read that waits for the network fails with ETIMEDOUT
    upload_workers: int = 4  # uploads at a time; more fill no line, and take turns from those who read
    upload_limit: rates.Rate = 0  # bytes a second, written as "2MB/s"; 0: as fast as the line is
    download_limit: rates.Rate = 0
    bandwidth: list[rates.Bandwidth] = []  # limits by time of day instead; the first that holds counts
    local_names: tuple[str, ...] = names.DEFAULT  # instead of these, not beside them: a list can be shortened
    local_days: int = 30  # local files untouched for so long are somebody's leftovers; 0 keeps them for ever
    attributes_days: int = (
        365  # bits and attributes of what went at the service are kept so long, should it return
    )
    lock_open_documents: bool = False  # at the service, while an office application has one open here
    # Which new `.url` files become web links at the service: "plain" ones, which say nothing but an address
    # and a description, so that nothing is lost; "all" with an address of the web, whose icons and hot keys
    # stay on this machine; "never": they are files.
    web_links: Literal["plain", "all", "never"] = "plain"
    trash: str = pydantic.Field(".trash", pattern=r"^[^/]*$")  # its name at the root; "": none is shown
    trash_listed: bool = False  # `ls -a` shows it too; whoever walks the drive then walks the trash
    crawl: bool = True  # list the whole tree in the background after mounting, so that `find` asks nobody
    # Small pictures of the photos in a folder that is opened come from the service into the desktop's cache,
    # so that a file manager does not read every photo.  Whoever opens a folder may wait a moment for them.
    thumbnails: bool = False
    # "remote": fsync returns when the service has the file, or fails after this long.  Safe against the loss
    # of this machine, and as slow as the network.
    fsync: Literal["local", "remote"] = "local"
    fsync_seconds: float = 60.0
    # What others share arrives in a folder of its own, `Shared with me`; or in the root, as the service shows
    # it, where it gives way to what is one's own; or in the folder, once the person has said yes.
    shared: Literal["folder", "root", "ask"] = "folder"
    noexec: bool = False  # nothing on the drive can be run, whoever wrote it
    allow_other: bool = False  # other users see the drive, too; wants user_allow_other in /etc/fuse.conf
    # Bits that nobody gets, as octal digits; "": 077 with allow_other, else none are taken away.
    umask: str = pydantic.Field("", pattern="^[0-7]{0,4}$")
    uid: int | None = pydantic.Field(None, ge=0)  # whose everything shows as; who mounts, if not said
    gid: int | None = pydantic.Field(None, ge=0)
    notifications: bool = True  # on the desktop, of what needs a person; nothing where there is none
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"  # what stands in the log, and worse
    log_format: Literal["text", "json"] = "text"
    metrics: str = ""  # where Prometheus may ask, HOST:PORT of this machine or a socket's path; nowhere

    @property
    def is_narrowed(self) -> bool:
        """Whether the drive can do less than the account."""
        return bool(self.folder.strip("/")) or self.read_only or self.ttl_seconds > 0

    @property
    def taken_bits(self) -> int:
        """Permission bits that nothing on the drive shows."""
        return int(self.umask, 8) if self.umask else 0o077 if self.allow_other else 0

    @property
    def place(self) -> str:
        """The account, or the part of it that this drive is: whose daemon and whose state."""
        folder = self.folder.strip("/")
        if not folder and not self.read_only:
            return self.account
        # Two folders must never share a tree, however alike their names are once they are put into one word.
        word = re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")[:40]
        mark = hashlib.sha256(folder.encode()).hexdigest()[:6] if folder else ""
        return "@".join([self.account, "-".join(filter(None, [word, mark, "ro" if self.read_only else ""]))])

    def limits_at(self, now: time) -> tuple[int, int]:
        """Bytes a second up and down at a time of the day; 0 is no limit."""
        found = next((one for one in self.bandwidth if one.holds(now)), None)
        return (found.up, found.down) if found else (self.upload_limit, self.download_limit)

    @pydantic.field_validator("local_names", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        # In the environment a list is one string.
        return tuple(value.split()) if isinstance(value, str) else value

    @property
    def paths(self) -> "Paths":
        return Paths(self.place)


class Paths:
    """Where the files of one account are.  `ensure` makes the folders, readable by this user only."""

    def __init__(self, account: str) -> None:
        self.state = platformdirs.user_state_path(APP) / account
        self.cache = platformdirs.user_cache_path(APP) / account
        self.runtime = _runtime_path()
        self.replica_db = self.state / "replica.db"
        self.drafts = self.state / "drafts"
        self.recovered = self.state / "recovered"
        self.lock = self.state / "lock"
        self.token = self.state / "token"
        self.token_lock = self.state / "token.lock"
        self.log = self.state / "cmsfsd.log"
        self.mountpoint = self.state / "mountpoint"
        self.searches = config_file().with_name("searches.toml")
        self.blocks = self.cache / "blocks"
        self.socket = self.runtime / f"{account}.sock"

    def ensure(self) -> None:
        for folder in (self.state, self.cache, self.runtime, self.drafts, self.recovered, self.blocks):
            environment.private_folder(folder)


def _runtime_path() -> Path:
    """Where sockets are: the session's own folder, or beside the state where there is no session.

    Never a folder in /tmp, which another user could have made first.
    """
    if os.environ.get("XDG_RUNTIME_DIR") or Path(f"/run/user/{os.getuid()}").is_dir():
        return platformdirs.user_runtime_path(APP)
    return platformdirs.user_state_path(APP) / "run"


def thumbnails_folder() -> Path:
    """Where the desktop keeps small pictures of files."""
    return platformdirs.user_cache_path() / "thumbnails"


def session_bus() -> str | None:
    """The address of the desktop session's message bus, if there is one."""
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    # A daemon that systemd has started knows the session by its folder only.
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return f"unix:path={folder}/bus" if folder and Path(folder, "bus").is_socket() else None


def service_data(settings: Settings) -> Path:
    """The folder of the embedded service's data."""
    return (settings.service_data or platformdirs.user_data_path(APP) / "service").expanduser()


def crash_plan() -> Path | None:
    """The file in which a test says where the process is to end (`crashpoints`)."""
    return Path(named) if (named := os.environ.get("CMSFS_CRASH_PLAN")) else None


def config_file() -> Path:
    """The configuration file: `CMSFS_CONFIG`, or `config.toml` in the user's configuration folder."""
    if named := os.environ.get("CMSFS_CONFIG"):
        return Path(named)
    return platformdirs.user_config_path(APP) / "config.toml"


def load(account: str | None = None, **overrides: Any) -> Settings:
    """The settings of an account: defaults, the file's top level, its `[accounts.NAME]` table, `CMSFS_*`
    of the environment, and `overrides` (None means not given), the later winning.

    Raises `ConfigError`, naming the file and the key.
    """
    return resolved(_read(config_file()), account, **overrides)


def resolved(document: Mapping[str, Any], account: str | None = None, **overrides: Any) -> Settings:
    """As `load`, of a file that was read."""
    path = config_file()
    values = dict(document)
    accounts = values.pop("accounts", {})
    name = account or os.environ.get("CMSFS_ACCOUNT") or values.get("account") or "default"
    if not isinstance(accounts, dict) or not isinstance(accounts.get(name, {}), dict):
        raise errors.ConfigError(f"{path}: `accounts` must be a table of tables.")
    values |= accounts.get(name, {})
    for field in Settings.model_fields:
        if (value := os.environ.get(f"CMSFS_{field.upper()}")) is not None:
            values[field] = value
    values |= {key: value for key, value in overrides.items() if value is not None}
    values["account"] = name
    if not name or "/" in name or name.startswith("."):
        raise errors.ConfigError(f"{name!r} cannot be the name of an account.")
    return _validated(values, f"{path}: ")


def origins(account: str) -> dict[str, str]:
    """Where the settings of an account come from that are not defaults."""
    values = _read(config_file())
    tables = values.pop("accounts", {})
    found = dict.fromkeys(values, "file")
    found |= dict.fromkeys(tables.get(account, {}), f"[accounts.{account}]")
    for field in Settings.model_fields:
        if (name := f"CMSFS_{field.upper()}") in os.environ:
            found[field] = name
    return found


def unknown_variables() -> list[str]:
    """A sentence for each `CMSFS_*` of the environment that means nothing."""
    known = {f"CMSFS_{field.upper()}" for field in Settings.model_fields} | set(_VARIABLES)
    return [
        f"There is no setting {name}{hint(name, known) or '.'}"
        for name in sorted(os.environ)
        if name.startswith("CMSFS_") and name not in known
    ]


def complaints(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings, each by its key."""
    try:
        Settings.model_validate(dict(values))
    except pydantic.ValidationError as error:
        return [_said(one) for one in error.errors()]
    return []


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Single settings, as they would be read.  Raises `ConfigError`."""
    found = _validated(dict(values), "")
    return {key: getattr(found, key) for key in values}


def _validated(values: dict[str, Any], where: str) -> Settings:
    try:
        return Settings.model_validate(values)
    except pydantic.ValidationError as error:
        raise errors.ConfigError(where + _said(error.errors()[0])) from None


def _said(first: Any) -> str:
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = hint(key, Settings.model_fields)
        return f"there is no setting {key}{near or '.'}"
    return f"{key}: {first['msg']}."


def hint(given: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: the nearest one that is known, if any is near."""
    near = difflib.get_close_matches(given, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def default_account() -> str:
    """The name of the account that is meant when none is named."""
    named = os.environ.get("CMSFS_ACCOUNT") or _read(config_file()).get("account") or "default"
    return str(named)


def accounts() -> list[str]:
    """The accounts that the configuration file has a table for."""
    found = _read(config_file()).get("accounts", {})
    return list(found) if isinstance(found, dict) else []


def profile_names() -> list[str]:
    """The profiles that there are."""
    folder = resources.files("cmsfs") / "profiles"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def named_in_environment() -> list[str]:
    """The `CMSFS_*` variables that are set here and that another process would not see.

    The account is not among them: who asks has named it.
    """
    ours = {f"CMSFS_{field.upper()}" for field in Settings.model_fields} | {"CMSFS_CONFIG"}
    return sorted(ours.intersection(os.environ) - {"CMSFS_ACCOUNT"})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if "CMSFS_CONFIG" in os.environ:
            raise errors.ConfigError(f"The configuration file {path} does not exist.") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise errors.ConfigError(f"The configuration file {path} cannot be read: {error}.") from None


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
