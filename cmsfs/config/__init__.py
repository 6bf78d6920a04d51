"""Settings, profiles and the folders that cmsfs uses.

One TOML file (`$XDG_CONFIG_HOME/cmsfs/config.toml`) with a table for each account, overridden by
`CMSFS_*` in the environment, read into one `Settings`.  A profile says how a service is reached and
what it can do.

Rule: no other package reads the environment for a setting or knows where a file lives.
"""

from cmsfs.config.loading import (
    accounts,
    checked,
    complaints,
    default_account,
    hint,
    load,
    named_in_environment,
    old_variables,
    origins,
    renamed,
    require_account,
    resolved,
    unknown_variables,
)
from cmsfs.config.paths import (
    Paths,
    autostart_entry,
    config_file,
    crash_plan,
    session_bus,
    states,
    thumbnails_folder,
)
from cmsfs.config.profiles import Limits, Profile, profile, profile_names, require_service
from cmsfs.config.settings import OLD_NAMES, Settings, service_data

__all__ = [
    "OLD_NAMES",
    "Limits",
    "Paths",
    "Profile",
    "Settings",
    "accounts",
    "autostart_entry",
    "checked",
    "complaints",
    "config_file",
    "crash_plan",
    "default_account",
    "hint",
    "load",
    "named_in_environment",
    "old_variables",
    "origins",
    "profile",
    "profile_names",
    "renamed",
    "require_account",
    "require_service",
    "resolved",
    "service_data",
    "session_bus",
    "states",
    "thumbnails_folder",
    "unknown_variables",
]
