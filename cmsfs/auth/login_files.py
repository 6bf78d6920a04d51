"""The files that a new login changes."""

from pathlib import Path

from cmsfs import config


def login_files(settings: config.Settings) -> list[Path]:
    """Return the files to watch for a new login of the account; one of them changes, wherever its tokens
    are."""
    paths = config.Paths(settings.account)
    named = (settings.app_file, settings.client_secret_file, settings.link_file)
    kept = (config.config_file(), paths.token, paths.token_lock)
    return [*kept, *(path.expanduser() for path in named if path is not None)]
