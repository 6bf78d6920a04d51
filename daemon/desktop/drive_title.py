"""The title of a drive: its account, its service, and which part of the account it shows."""

from pathlib import Path
from urllib.parse import urlsplit

from cmsfs import config, process_env
from cmsfs.auth import link_file

# The name of an account to which the user has given none.
_UNNAMED = "default"

ICON = "cmsfs"
# An icon of all themes.
_USUAL_ICON = "folder-remote"


def title(settings: config.Settings, login: str | None) -> str:
    """Return the title, as in "ada@example.com, Box"; `login`: the user's login at the service, if known."""
    account = settings.account if settings.account != _UNNAMED else login or ""
    part = settings.folder.strip("/").rpartition("/")[2]
    if settings.is_link:
        # A shared link has no account, and its name in the configuration is meaningless.
        account, part = "", link_file.read(settings.link_file).name
    mode = "read-only" if settings.read_only else ""
    return ", ".join(filter(None, [part, account, _service(settings), mode]))


def _service(settings: config.Settings) -> str:
    profile = config.profile(settings)
    # The profile's own address belongs to the service in its title.
    host = urlsplit(settings.base_url).hostname if settings.base_url else None
    return host or profile.title


def icon() -> str:
    """Return the icon's name: ours if the desktop has it."""
    home = process_env.variable("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    shared = process_env.variable("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    picture = Path("icons", "hicolor", "scalable", "apps", f"{ICON}.svg")
    is_there = any((Path(folder) / picture).is_file() for folder in [home, *shared.split(":")] if folder)
    return ICON if is_there else _USUAL_ICON
