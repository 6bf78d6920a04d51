"""What a process was started with beyond its settings (variables, another home, the user's systemd), and what
it leaves on the machine: folders that are nobody else's, no core dump.
"""

import os
import resource
from pathlib import Path

import platformdirs


def variable(name: str) -> str | None:
    """A variable of the environment that a file of the user's names."""
    return os.environ.get(name)


def pass_on(values: dict[str, str]) -> None:
    """Set variables for this process and those that it starts."""
    os.environ.update(values)


def move_home(user: str, home: Path) -> None:
    """Have this process, and those that it starts, look for files where they are for another user."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "CMSFS_"))]:
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


def user_manager() -> Path:
    """The private socket of this user's systemd, which is there while that runs."""
    return platformdirs.user_runtime_path() / "systemd" / "private"


def user_units() -> Path:
    """The folder of the units that this user wrote."""
    return platformdirs.user_config_path() / "systemd" / "user"
