"""Loads `Settings` from the configuration file and the environment, and reports what is invalid.

Rule: a renamed setting is also read under its old names, in every source.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from cmsfs import errors
from cmsfs.config.paths import Paths, config_file
from cmsfs.config.settings import OLD_NAMES, Settings

# Environment variables that are not settings.
_VARIABLES = ("CMSFS_CONFIG", "CMSFS_DEBUG", "CMSFS_CRASH_PLAN", "CMSFS_PYTHON")


def load(account: str | None = None, **overrides: Any) -> Settings:
    """Load the settings of an account: defaults, the file's top level, its `[accounts.NAME]` table, `CMSFS_*`
    of the environment, and `overrides` (None means not given); later ones take precedence.

    Raises `ConfigError`, naming the file and the key.
    """
    path = config_file()
    text = _text(path)
    return resolved(_parsed(path, text), account, text, **overrides)


def resolved(
    document: Mapping[str, Any], account: str | None = None, text: str = "", **overrides: Any
) -> Settings:
    """As `load`, from a parsed document; `text` is its source."""
    path = config_file()
    values = renamed(document)
    accounts = values.pop("accounts", {})
    name = account or os.environ.get("CMSFS_ACCOUNT") or values.get("account") or "default"
    if not isinstance(accounts, dict) or not isinstance(accounts.get(name, {}), dict):
        raise errors.ConfigError(f"{path}: `accounts` must be a table of tables.")
    values |= renamed(accounts.get(name, {}))
    values |= {field: os.environ[variable] for variable, field in _given_variables().items()}
    values |= {key: value for key, value in overrides.items() if value is not None}
    values["account"] = name
    if not name or "/" in name or name.startswith("."):
        raise errors.ConfigError(f"{name!r} cannot be the name of an account.")

    def where(key: str) -> str:
        from cmsfs.config import mistakes  # loaded when there is one

        variables = {field: variable for variable, field in _given_variables().items()}
        return variables.get(key) or mistakes.place(path, text, name, key)

    return _validated(values, where)


def origins(account: str) -> dict[str, str]:
    """Return the origin of each setting of an account that is not a default."""
    values = renamed(_read(config_file()))
    tables = values.pop("accounts", {})
    found = dict.fromkeys(values, "file")
    found |= dict.fromkeys(renamed(tables.get(account, {})), f"[accounts.{account}]")
    return found | {field: variable for variable, field in _given_variables().items()}


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table under their current names; a new name takes precedence over an old
    one."""
    found = {OLD_NAMES[key]: value for key, value in values.items() if key in OLD_NAMES}
    return found | {key: value for key, value in values.items() if key not in OLD_NAMES}


def _given_variables() -> dict[str, str]:
    """Return the settings in the environment, by variable; new names after old ones."""
    fields = [*OLD_NAMES.items(), *((field, field) for field in Settings.model_fields)]
    return {variable: field for name, field in fields if (variable := f"CMSFS_{name.upper()}") in os.environ}


def unknown_variables() -> list[str]:
    """Return a sentence for each unknown `CMSFS_*` variable of the environment."""
    known = {f"CMSFS_{field.upper()}" for field in Settings.model_fields} | set(_VARIABLES)
    known |= {f"CMSFS_{old.upper()}" for old in OLD_NAMES}
    return [
        f"There is no setting {name}{hint(name, known) or '.'}"
        for name in sorted(os.environ)
        if name.startswith("CMSFS_") and name not in known
    ]


def old_variables() -> list[str]:
    """Return a sentence for each environment variable whose setting was renamed."""
    return [
        f"{variable} is now called CMSFS_{field.upper()}; the old name is still read."
        for variable, field in _given_variables().items()
        if variable != f"CMSFS_{field.upper()}"
    ]


def complaints(values: Mapping[str, Any]) -> list[str]:
    """Return the problems of settings, each with its key."""
    try:
        Settings.model_validate(renamed(values))
    except pydantic.ValidationError as error:
        return [_said(one) for one in error.errors()]
    return []


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate single settings; return their parsed values.  Raises `ConfigError`."""
    found = _validated(renamed(values), lambda _: "")
    return {key: getattr(found, OLD_NAMES.get(key, key)) for key in values}


def _validated(values: dict[str, Any], where: Callable[[str], str]) -> Settings:
    try:
        return Settings.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = where(str(first["loc"][0]))
        raise errors.ConfigError(f"{place}: {_said(first)}" if place else _said(first)) from None


def _said(first: Any) -> str:
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = hint(key, Settings.model_fields)
        return f"there is no setting {key}{near or '.'}"
    from cmsfs.config import mistakes  # loaded when there is one

    return f"{key}: {mistakes.sentence(first)}"


def hint(given: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the most similar known word, if there is one."""
    near = difflib.get_close_matches(given, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def default_account() -> str:
    """Return the name of the default account."""
    named = os.environ.get("CMSFS_ACCOUNT") or _read(config_file()).get("account") or "default"
    return str(named)


def accounts() -> list[str]:
    """Return the accounts that have a table in the configuration file."""
    found = _read(config_file()).get("accounts", {})
    return list(found) if isinstance(found, dict) else []


def require_account(name: str) -> None:
    """Raise `ConfigError` for an account that is neither configured nor has local state."""
    # An account that the environment configures, or a part of one (`work@ro`), has no table of its own.
    known = {*accounts(), default_account(), "default"}
    if name.partition("@")[0] in known or _given_variables() or Paths(name).state.exists():
        return
    near = hint(name, known) or ";"
    raise errors.ConfigError(
        f"There is no account {name!r}{near} `cmsfs --account {name} login ADDRESS` makes it."
    )


def named_in_environment() -> list[str]:
    """Return the `CMSFS_*` variables of this process that another one would not see.

    Without the account, which the caller passes explicitly.
    """
    ours = {*_given_variables(), "CMSFS_CONFIG"}
    return sorted(ours.intersection(os.environ) - {"CMSFS_ACCOUNT"})


def _read(path: Path) -> dict[str, Any]:
    return _parsed(path, _text(path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if "CMSFS_CONFIG" in os.environ:
            raise errors.ConfigError(f"The configuration file {path} does not exist.") from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The configuration file {path} cannot be read: {error}.") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise errors.ConfigError(f"The configuration file {path} cannot be read: {error}.") from None
