"""The process environment: variables, home, systemd; creates private folders, disables core dumps."""

import ctypes
import os
import resource
import sys
from pathlib import Path

import platformdirs


def variable(name: str) -> str | None:
    """Return an environment variable that a user's file names."""
    return os.environ.get(name)


def pass_on(values: dict[str, str]) -> None:
    """Set variables for this process and those that it starts."""
    os.environ.update(values)


def with_values(values: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with more variables, for a child process."""
    return {**os.environ, **values}


def load_less() -> None:
    """Keep libraries from loading what this process does not use; call it before they are imported."""
    # httpx's own command line, with libraries for tables and colours, which httpx does not need.
    # HTTP/2, which none of our clients and servers use, and httpcore does not need.
    for name in ("httpx._main", "h2"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    # Pydantic would search all installed packages for plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


# Variables kept when a process switches to another user: language, time, and where programs are.  All others
# (session bus, proxies, certificates, libraries to load) were meant for the user who started it.
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "PYTHONPATH", "JOURNAL_STREAM")
_PR_SET_DUMPABLE = 4


def move_home(user: str, home: Path) -> None:
    """Set the environment of this process and its children for another user: that user's file locations, and
    nothing else of the environment that it was started in."""
    for name in [name for name in os.environ if name not in _KEPT and not name.startswith("LC_")]:
        del os.environ[name]
    os.environ.update(HOME=str(home), USER=user, LOGNAME=user)
    session = Path(f"/run/user/{os.getuid()}")
    if session.is_dir():
        os.environ["XDG_RUNTIME_DIR"] = str(session)


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user only.

    `mkdir(parents=True)` gives its mode to the last one alone; the XDG specification wants it for all.
    """
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def leave_no_core() -> None:
    """Disable core dumps of this process and its children, because they would contain a token."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    keep_to_itself()


def keep_to_itself() -> None:
    """Disable core dumps of this process, and keep this user's other programs from reading its memory, which
    contains a token.  Its children are not affected."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def user_manager() -> Path:
    """Return the private socket of this user's systemd, which exists while it runs."""
    return platformdirs.user_runtime_path() / "systemd" / "private"


def user_units() -> Path:
    """Return the folder of this user's own systemd units."""
    return platformdirs.user_config_path() / "systemd" / "user"
