"""All settings, each declared and described once.

The example file (`cmsfs config edit`), `cmsfs.toml(5)` and `cmsfs config show KEY` are made of it
(`descriptions`).  A setting that gets a better name keeps its old one in `old`: files that have it are still
read, and `cmsfs config check` names it.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import time
from pathlib import Path
from typing import Any, Literal, cast

import platformdirs
import pydantic

from cmsfs.config import local_patterns
from cmsfs.config.bandwidth_limits import Bandwidth, Rate
from cmsfs.config.paths import APP, Paths


def _setting(
    default: Any,
    description: str,
    *,
    section: str = "",  # begins here, in the example file
    unit: str = "",
    example: object = None,  # shown in place of a default that says nothing
    remark: str = "",  # what the default is, where it cannot be written
    old: Sequence[str] = (),
    **constraints: Any,
) -> Any:
    about: dict[str, Any] = {"section": section, "unit": unit, "remark": remark, "old_names": list(old)}
    examples = [] if example is None else [example]
    return pydantic.Field(
        default, description=description, examples=examples, json_schema_extra=about, **constraints
    )


class Settings(pydantic.BaseModel):
    """The settings of one account."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    account: str = _setting(
        "default", "The account that is meant when none is named.", section="Account and service"
    )
    profile: str = _setting(
        "embedded",
        "How the service is reached and what it can do: embedded, server, specification or box."
        " `embedded` needs no account anywhere, which is the way to try cmsfs; `cmsfs login` sets it.",
    )
    base_url: str = _setting("", "Base address of the API, where the profile does not say it.")
    upload_url: str = _setting("", "Address for uploads, where the profile does not say it.")
    auth_url: str = _setting("", "Address of the token endpoint, where the profile does not say it.")
    authorize_url: str = _setting(
        "", "Address of the login page; `auth_url` followed by /oauth2/authorize if it is not set."
    )
    ca_file: Path | None = _setting(
        None,
        "Certificates (PEM) to trust beside the system's: for a service with a private CA.",
        example="/etc/ssl/our-ca.pem",
    )
    feed: Literal["", "search", "events"] = _setting(
        "", "How remote changes are found, if not as the profile says: `search` or `events`."
    )

    login: Literal["person", "client_credentials", "jwt", "link"] = _setting(
        "client_credentials",
        "Who speaks to the service: a `person` (`cmsfs login`), an application with its secret"
        " (`client_credentials`) or its key (`jwt`), or nobody, by a shared `link` (`cmsfs mount LINK`).",
        section="Login",
    )
    token_store: Literal["auto", "keyring", "file"] = _setting(
        "auto",
        "Where a person's tokens are kept: in the session's `keyring`, in a `file` that only you can read, or"
        " `auto`, the keyring if there is one. `cmsfs login` writes down which it was.",
    )
    app_file: Path | None = _setting(
        None,
        "The application, a JSON file as the service's console exports it; in place of the four settings"
        " below.",
        example="~/app.json",
    )
    client_id: str = _setting("", "The application's client id.")
    client_secret_file: Path | None = _setting(
        None,
        "A file with the application's secret; never the secret itself, since this file may be seen.",
        example="~/secret",
    )
    subject_type: Literal["user", "enterprise"] = _setting(
        "user", "Whether the application acts for a `user` or for the `enterprise`."
    )
    subject_id: str = _setting("", "The id of that user or enterprise.")

    link_file: Path | None = _setting(
        None,
        "With the login `link`: the file with the shared link and its password, which only you can read."
        " `cmsfs mount LINK` writes it.",
        example="~/.local/state/cmsfs/link-1a2b3c4d/link",
    )

    mountpoint: Path = _setting(
        Path("~/cmsfs"), "Where the drive is mounted; created if it is missing.", section="Drive"
    )
    # A folder and a reader have a tree and a cache of their own, beside those of the whole drive.
    folder: str = _setting(
        "",
        "Mount only this folder of the service. Like the next two settings it is enforced by the service,"
        " with a token that can do no more.",
    )
    read_only: bool = _setting(False, "Mount the drive read-only.")
    ttl_seconds: float = _setting(
        0.0, "How long the drive may use the account; 0: for as long as the login is valid.", unit="seconds"
    )
    keep_mounted: bool = _setting(
        False,
        "Keep the drive mounted when its daemon is killed or crashes: programs wait for the next one and keep"
        " their open files. Writes are recorded one by one for that, which slows them down; needs Linux 6.16,"
        " and for a systemd unit systemd 254. Takes effect at the next mount.",
    )
    shared: Literal["folder", "root", "ask"] = _setting(
        "folder",
        "Where what others share appears: in the folder `Shared with me`; in the `root`, as the service"
        " shows it, where names of one's own come first; with `ask` in the folder, but only what you"
        " accept (`cmsfs shared`).",
    )
    noexec: bool = _setting(False, "Nothing on the drive can be executed, whoever wrote it.")
    allow_other: bool = _setting(
        False, "Other users of this machine see the drive, too; /etc/fuse.conf must say user_allow_other."
    )
    umask: str = _setting(
        "",
        "Permission bits that are taken from everything on the drive, as octal digits. Not set, it is 077"
        " with `allow_other`, else nothing is taken; 022 lets others read, 027 the group alone.",
        pattern="^[0-7]{0,4}$",
    )
    uid: int | None = _setting(
        None, "The user id that owns everything on the drive.", example=1000, remark="who mounts it", ge=0
    )
    gid: int | None = _setting(
        None, "The group id of everything on the drive.", example=1000, remark="who mounts it", ge=0
    )
    fsync: Literal["local", "remote"] = _setting(
        "local",
        "`remote`: fsync returns when the service has the file, or fails after `fsync_seconds`. Survives"
        " the loss of this machine, and is as slow as the network.",
    )
    fsync_seconds: float = _setting(60.0, "The timeout of fsync with `remote`.", unit="seconds")
    local_names: tuple[str, ...] = _setting(
        local_patterns.DEFAULT,
        "Names that stay on this machine, as shell patterns: what programs put beside a document for"
        " themselves (locks, backups, partial downloads). The list replaces the built-in one, so that it"
        " can be shortened.",
        example=["*.tmp", ".~lock.*#"],
        remark=f"{len(local_patterns.DEFAULT)} patterns; `cmsfs config show --all` lists them",
    )
    exclude: tuple[str, ...] = _setting(
        (),
        "Folders that this machine does not want, as paths on the drive. They are neither shown nor"
        " downloaded, and nothing can be made in their place; at the service they stay as they are.",
        example=["/Archive", "/Projects/Old"],
    )
    local_days: int = _setting(
        30,
        "Local-only files that nobody has touched for so long are moved to the recovered files; 0: never.",
        unit="days",
    )
    attribute_retention_days: int = _setting(
        365,
        "How long permission bits and extended attributes of deleted items are kept: an item that is"
        " restored or shared again gets them back.",
        unit="days",
        old=["attributes_days"],
    )
    trash: str = _setting(
        ".trash",
        "Name of the folder with the service's trash at the root of the drive; empty: there is none.",
        pattern=r"^[^/]*$",
    )
    list_trash: bool = _setting(
        False,
        "`ls -a` shows the trash folder; programs that walk the drive then walk the trash, too.",
        old=["trash_listed"],
    )

    cache_bytes: int = _setting(
        20 * 1024**3,
        "Size of the cache, at most a fifth of a small disk; what was least used is evicted first.",
        section="Cache",
        unit="bytes",
    )
    keep_free_bytes: int = _setting(
        1024**3, "Free disk space to leave; with less than this nothing is cached.", unit="bytes"
    )

    settle_seconds: float = _setting(
        2.0,
        "How long a file must rest before it is uploaded: an editor's burst of saves becomes one upload.",
        section="Sync",
        unit="seconds",
    )
    poll_seconds: float = _setting(
        5.0, "Poll interval for remote changes while the drive is in use.", unit="seconds"
    )
    idle_poll_seconds: float = _setting(
        30.0, "Poll interval for remote changes while the drive is idle.", unit="seconds"
    )
    full_compare_hours: float = _setting(
        24.0,
        "How often everything is compared with the service, in the background, for what no event told; one"
        " request for 200 items, or for each folder where folders are listed one by one: then of more than"
        " 1,000 less often. 0: only after a gap, and when it is asked for.",
        unit="hours",
        old=["sweep_hours"],
    )
    upload_limit: Rate = _setting(
        0, 'Upload bandwidth limit, as "2MB/s" or a number; 0: no limit.', unit="bytes per second"
    )
    download_limit: Rate = _setting(
        0, 'Download bandwidth limit, as "2MB/s" or a number; 0: no limit.', unit="bytes per second"
    )
    bandwidth: list[Bandwidth] = _setting(
        [],
        "Bandwidth limits by time of day, in place of the two above; the first that matches counts. A table"
        ' each: { from = "08:00", to = "18:00", up = "1MB/s", down = "4MB/s" }.',
    )
    drain_seconds: float = _setting(
        30.0, "How long unmounting waits for uploads; the rest goes after the next mount.", unit="seconds"
    )
    network_seconds: float = _setting(
        30.0, "Network timeout of a read, which then fails with ETIMEDOUT.", unit="seconds"
    )
    # More of large files fill no line, and take turns from those who read.
    upload_workers: int = _setting(
        4,
        "How many files are uploaded at once. Beside them go up to 16 of at most 64 KiB, unless this is 1 or"
        " the service is embedded.",
    )
    lock_open_documents: bool = _setting(
        False,
        "Lock a document at the service while an office application has it open here, so that nobody else"
        " changes it meanwhile. Each lock is a change of the file's properties that everybody sees.",
    )
    mirror_program_locks: bool = _setting(
        False,
        "Lock a file at the service while a program here holds a write lock on it (flock, fcntl) for more"
        " than some seconds. Each lock is a change of the file's properties that everybody sees.",
    )
    guard_files: int = _setting(
        30,
        "Hold uploads and deletions, and ask (`cmsfs guard`), when programs have encrypted so many files"
        " within two minutes, or given them one strange suffix; 0: never. Programs known for changing many"
        " files (git, rsync, tar, package managers, compilers) may change ten times as many.",
        ge=0,
    )
    guard_deletions: int = _setting(
        1000,
        "Hold them, too, when programs other than those have deleted so many files of the service within two"
        " minutes; 0: never.",
        ge=0,
    )
    guard_ignores: list[str] = _setting(
        [], "Programs that the guard leaves alone, by their names (15 characters).", example=["my-backup"]
    )
    web_links: Literal["plain", "all", "never"] = _setting(
        "plain",
        "Which new .url files become web links at the service: `plain` (those with nothing but an address"
        " and a description, so that nothing is lost), `all` that have a web address (icons and hot keys"
        " stay on this machine), or `never`.",
    )
    thumbnails: bool = _setting(
        True,
        "Fill the desktop's thumbnail cache from the service when a file manager opens a folder with"
        " pictures, so that it does not read every photo. Opening such a folder may take a moment.",
    )
    background_downloads: bool = _setting(
        False,
        "Let thumbnailers and indexers (tumblerd, ffmpegthumbnailer, localsearch, baloo and others) download"
        " files. Without, they can open only what is on this disk.",
    )
    crawl: bool = _setting(
        True, "List the whole tree in the background after mounting, so that `find` needs no network."
    )
    notifications: bool = _setting(True, "Desktop notifications of conflicts and of changes that are held.")

    service_data: Path | None = _setting(
        None,
        "The folder of its data.",
        section="Embedded service",
        example="~/.local/share/cmsfs/service",
        remark="the user's data folder",
    )

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = _setting(
        "INFO",
        "Lowest level that is logged. DEBUG names every file, the others those that need attention.",
        section="Logs",
    )
    log_format: Literal["text", "json"] = _setting(
        "text", "`json`: one object a line, for log collectors; `text` is for people and the journal."
    )
    metrics: str = _setting(
        "",
        "Address of the Prometheus metrics: a port of this machine (127.0.0.1:9464) or the path of a Unix"
        " socket. Empty: none, since every user of the machine can ask a port.",
    )

    @property
    def names_service(self) -> bool:
        """Whether somebody has said which service is meant; the embedded one is never meant unasked."""
        return "profile" in self.model_fields_set

    @property
    def is_narrowed(self) -> bool:
        """Whether the drive can do less than the account."""
        narrow = bool(self.folder.strip("/")) or self.read_only or self.ttl_seconds > 0
        return narrow or self.is_link

    @property
    def is_link(self) -> bool:
        """Whether the drive is what a shared link shows, without an account."""
        return self.login == "link"

    @property
    def taken_bits(self) -> int:
        """Permission bits that nothing on the drive shows."""
        return int(self.umask, 8) if self.umask else 0o077 if self.allow_other else 0

    @property
    def place(self) -> str:
        """The account, or the part of it that this drive is: whose daemon and whose state."""
        folder = self.folder.strip("/")
        if not folder and (self.is_link or not self.read_only):
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

    @pydantic.field_validator("exclude", mode="before")
    @classmethod
    def _split_paths(cls, value: object) -> object:
        # In the environment, as in PATH.
        return tuple(filter(None, value.split(":"))) if isinstance(value, str) else value

    @pydantic.field_validator("exclude")
    @classmethod
    def _absolute(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if not path.startswith("/") or not path.strip("/"):
                raise ValueError(f"{path!r} is not the path of a folder, such as /Archive")
        return value

    @property
    def paths(self) -> Paths:
        return Paths(self.place)


def about(name: str) -> Mapping[str, Any]:
    """What a setting's model does not hold by itself: section, unit, remark, old names."""
    return cast("dict[str, Any]", Settings.model_fields[name].json_schema_extra)


# Names that settings had, to the ones that they have.
OLD_NAMES: dict[str, str] = {old: name for name in Settings.model_fields for old in about(name)["old_names"]}


def service_data(settings: Settings) -> Path:
    """The folder of the embedded service's data."""
    return (settings.service_data or platformdirs.user_data_path(APP) / "service").expanduser()
