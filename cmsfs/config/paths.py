"""Paths of the files that cmsfs uses: configuration, state, cache, sockets.

Rule: no other module but environment.py knows where a file lives.
"""

import os
from pathlib import Path

import platformdirs

from cmsfs import process_env

APP = "cmsfs"


class Paths:
    """The paths of one account's files.  `ensure` creates the folders, readable by this user only."""

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
        self.history = self.state / "history.json"
        self.mountpoint = self.state / "mountpoint"
        self.searches = config_file().with_name("searches.toml")
        self.blocks = self.cache / "blocks"
        self.socket = self.runtime / f"{account}.sock"
        self.notify = self.runtime / f"{account}.notify"

    def ensure(self) -> None:
        for folder in (self.state, self.cache, self.runtime, self.drafts, self.recovered, self.blocks):
            process_env.private_folder(folder)


def _runtime_path() -> Path:
    """Return the folder for sockets: the session's runtime folder, or beside the state without a session.

    Never a folder in /tmp, which another user could have created first.
    """
    if os.environ.get("XDG_RUNTIME_DIR") or Path(f"/run/user/{os.getuid()}").is_dir():
        return platformdirs.user_runtime_path(APP)
    return platformdirs.user_state_path(APP) / "run"


def states() -> Path:
    """Return the folder with the local state of all drives, each in a subfolder."""
    return platformdirs.user_state_path(APP)


def thumbnails_folder() -> Path:
    """Return the desktop's thumbnail cache."""
    return platformdirs.user_cache_path() / "thumbnails"


def autostart_entry(name: str) -> Path:
    """Return the path of this user's autostart entry for a program."""
    return platformdirs.user_config_path() / "autostart" / f"{name}.desktop"


def session_bus() -> str | None:
    """Return the address of the session's D-Bus, if there is one."""
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    # A daemon started by systemd knows the session only by its runtime folder.
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return f"unix:path={folder}/bus" if folder and Path(folder, "bus").is_socket() else None


def crash_plan() -> Path | None:
    """Return the file in which a test names the crash points (`crashpoints`)."""
    return Path(named) if (named := os.environ.get("CMSFS_CRASH_PLAN")) else None


def config_file() -> Path:
    """Return the configuration file: `CMSFS_CONFIG`, or `config.toml` in the user's configuration folder."""
    if named := os.environ.get("CMSFS_CONFIG"):
        return Path(named)
    return platformdirs.user_config_path(APP) / "config.toml"
