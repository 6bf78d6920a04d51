"""The process environment: variables, home, systemd; creates private folders, disables core dumps."""

import ctypes
import os
import resource
import sys
from pathlib import Path

import platformdirs


def variable(name: str) -> str | None:
    """A variable of the environment that a file of the user's names."""
    return os.environ.get(name)


def pass_on(values: dict[str, str]) -> None:
    """Set variables for this process and those that it starts."""
    os.environ.update(values)


def with_values(values: dict[str, str]) -> dict[str, str]:
    """This process's environment with more variables, for a program that is started."""
    return {**os.environ, **values}


def load_less() -> None:
    """Have libraries leave alone what no part of this process uses; to be called before they are loaded."""
    # A command line of httpx's own, with libraries for tables and colours: without it, httpx does without.
    # HTTP/2, which no client or server of ours speaks: httpcore does without, too.
    for name in ("httpx._main", "h2"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    # Pydantic would look for plug-ins in all packages that are installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


# What a process keeps when it becomes another user's: language, time, and where programs are.  All else (a
# session's bus, proxies, certificates, libraries to load) was meant for who started it.
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "PYTHONPATH", "JOURNAL_STREAM")
_PR_SET_DUMPABLE = 4


def move_home(user: str, home: Path) -> None:
    """Have this process, and those that it starts, be another user's: with files where they are for that one,
    and nothing of the surroundings that it was started in."""
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
    """Have the kernel write no image of this process, nor of those that it starts: a token would be in it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    keep_to_itself()


def keep_to_itself() -> None:
    """Have the kernel write no image of this process, and other programs of this user not read its memory: a
    token is in it.  What it starts is as usual."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def user_manager() -> Path:
    """The private socket of this user's systemd, which is there while that runs."""
    return platformdirs.user_runtime_path() / "systemd" / "private"


def user_units() -> Path:
    """The folder of the units that this user wrote."""
    return platformdirs.user_config_path() / "systemd" / "user"
