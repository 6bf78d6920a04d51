"""Edits the configuration file in place, preserving comments, order and formatting.

`update` is used by `login`; `config` shows and checks the file without changing it.

Rule: the file is replaced atomically, and only by contents that `config.load` accepts.
"""

import os
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import tomlkit
import tomlkit.exceptions
from tomlkit import items

from cmsfs import config, errors, process_env

Value = str | int | float | bool | list[str] | None


def update(account: str | None, values: Mapping[str, Value]) -> Path:
    """Set keys of an account's table, or of the top level; None removes a key.  Returns the file, which is
    created if necessary.

    Raises `ConfigError`; then the file is unchanged.
    """
    path = config.config_file()
    # A symbolic link to a file elsewhere stays a link.
    real = path.resolve()
    try:
        text = real.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The configuration file {path} cannot be read: {error}.") from None
    changed = _changed(text, account, values, path)
    if changed != text:
        replace(real, changed)
    return path


def _changed(text: str, account: str | None, values: Mapping[str, Value], path: Path) -> str:
    try:
        document = tomlkit.parse(text)
        table: object = document
        if account is not None:
            accounts = document.setdefault("accounts", tomlkit.table(is_super_table=True))
            table = accounts.setdefault(account, tomlkit.table())
    except (tomlkit.exceptions.TOMLKitError, AttributeError) as error:
        raise errors.ConfigError(f"The configuration file {path} cannot be changed: {error}.") from None
    if not isinstance(table, tomlkit.TOMLDocument | items.Table | items.InlineTable):
        raise errors.ConfigError(f"{path}: `accounts` must be a table of tables.")
    for old in config.OLD_NAMES.keys() & table.keys():
        if config.OLD_NAMES[old] in values:
            del table[old]
    for key, value in values.items():
        if value is None:
            table.pop(key, None)
        elif table.get(key) != value:
            table[key] = value
    return tomlkit.dumps(document)


def problems(text: str) -> list[str]:
    """Return the problems of a configuration, a sentence each: invalid TOML, unknown keys, values,
    profiles."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [f"This is no TOML: {error}."]
    accounts = document.get("accounts", {})
    if not isinstance(accounts, dict) or not all(isinstance(table, dict) for table in accounts.values()):
        return ["`accounts` must be a table of tables."]
    tables = {"": {key: value for key, value in document.items() if key != "accounts"}}
    tables |= {f"[accounts.{name}] ": table for name, table in accounts.items()}
    found = []
    for where, table in tables.items():
        found += [where + said for said in config.complaints(table)]
    if not found:
        for name in accounts or [None]:
            try:
                config.profile(config.resolved(document, name))
            except errors.ConfigError as error:
                found.append(error.message)
    return found


def old_names(text: str) -> list[str]:
    """Return a sentence for each setting that has been renamed; the old name is still valid."""
    document = tomllib.loads(text)
    tables = {"": document} | {
        f"[accounts.{name}] ": table for name, table in document.get("accounts", {}).items()
    }
    return [
        f"{where}{old} is now called {config.OLD_NAMES[old]}; the old name is still read."
        for where, table in tables.items()
        for old in table
        if old in config.OLD_NAMES
    ]


def replace(path: Path, text: str) -> None:
    """Replace the file's contents atomically, keeping its mode; a new file is private."""
    process_env.private_folder(path.parent)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
