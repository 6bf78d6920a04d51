"""Paths of the files that cmsfs uses: configuration, state, cache, sockets.

Rule: no other module but environment.py knows where a file lives.
"""

import os
from pathlib import Path

import platformdirs

from cmsfs import process_env

APP = "cmsfs"


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
    """Where sockets are: the session's own folder, or beside the state where there is no session.

    Never a folder in /tmp, which another user could have made first.
    """
    if os.environ.get("XDG_RUNTIME_DIR") or Path(f"/run/user/{os.getuid()}").is_dir():
        return platformdirs.user_runtime_path(APP)
    return platformdirs.user_state_path(APP) / "run"


def states() -> Path:
    """The folder that has a folder for each drive: its tree, and what the service does not have."""
    return platformdirs.user_state_path(APP)


def thumbnails_folder() -> Path:
    """Where the desktop keeps thumbnails of files."""
    return platformdirs.user_cache_path() / "thumbnails"


def autostart_entry(name: str) -> Path:
    """The entry that has the desktop start a program at login, of this user's own."""
    return platformdirs.user_config_path() / "autostart" / f"{name}.desktop"


def session_bus() -> str | None:
    """The address of the desktop session's message bus, if there is one."""
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return address
    # A daemon that systemd has started knows the session by its folder only.
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return f"unix:path={folder}/bus" if folder and Path(folder, "bus").is_socket() else None


def crash_plan() -> Path | None:
    """The file in which a test says where the process is to end (`crashpoints`)."""
    return Path(named) if (named := os.environ.get("CMSFS_CRASH_PLAN")) else None


def config_file() -> Path:
    """The configuration file: `CMSFS_CONFIG`, or `config.toml` in the user's configuration folder."""
    if named := os.environ.get("CMSFS_CONFIG"):
        return Path(named)
    return platformdirs.user_config_path(APP) / "config.toml"
