"""Saved searches: named queries in an editable file beside the configuration.

    [default]                                   # the account
    "Budget of this year" = "budget type:file modified:2026"

The drive shows each as `.search/NAME`; `cmsfs search` saves, lists and removes them.

Rule: the file is replaced atomically, so that readers always see a consistent state.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cmsfs import errors

if TYPE_CHECKING:
    import tomlkit  # imported only for writing, so that a daemon starts faster

# The longest file name.
MAX_BYTES = 255

# Names that file managers, shells and version control look up in every folder: never searches.
NEVER = frozenset(
    (
        *("desktop.ini", "autorun.inf", "autorun.sh", "thumbs.db", "ehthumbs.db", "folder.jpg", "folder.png"),
        *("cover.jpg", "cover.png", "album.jpg", "front.jpg", "cvs", "rcs", "sccs", "_darcs", "head", "bin"),
        *("lost+found", "system volume information", "$recycle.bin"),
    )
)


def is_ordinary(name: str) -> bool:
    """Whether a name below `.search` can be a search: it is not in `NEVER`, and does not begin with a dot, as
    most names that programs look up by themselves do."""
    return not name.startswith(".") and name.lower() not in NEVER


class SavedSearches:
    """The saved searches of one account."""

    def __init__(self, path: Path, account: str) -> None:
        self._path = path
        self._account = account
        self._known: dict[str, str] = {}
        self._stamp: tuple[int, ...] = ()

    def all(self) -> Mapping[str, str]:
        """Return the queries by name; reads the file again if it has changed.  Raises `ConfigError`."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._known, self._stamp = {}, ()
            return self._known
        except OSError as error:
            raise self._unreadable(error) from None
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp != self._stamp:
            self._known, self._stamp = self._read(), stamp
        return self._known

    def save(self, name: str, query: str) -> None:
        """Save a query under a name, replacing an existing one.  Raises `UserError`, `ConfigError`."""
        if "/" in name or not name.strip() or not name.isprintable() or not is_ordinary(name):
            raise errors.UserError(
                f"{name!r} cannot name a search: it becomes a folder's name, without / and not beginning with"
                " a dot.",
                exit_code=2,
            )
        if len(name.encode()) > MAX_BYTES:
            raise errors.UserError(f"The name of a search has {MAX_BYTES} bytes at the most.", exit_code=2)
        import tomlkit

        document = self._document()
        table = document.setdefault(self._account, tomlkit.table())
        table[name] = query
        self._write(document)

    def remove(self, name: str) -> bool:
        """Remove a search; whether there was one.  Raises `ConfigError`."""
        from tomlkit.items import Table

        document = self._document()
        table = document.get(self._account)
        if not isinstance(table, Table) or name not in table:
            return False
        del table[name]
        self._write(document)
        return True

    def _read(self) -> dict[str, str]:
        try:
            tables = tomllib.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise self._unreadable(error) from None
        table = tables.get(self._account, {})
        if not isinstance(table, dict) or not all(isinstance(one, str) for one in table.values()):
            raise errors.ConfigError(f"{self._path}: [{self._account}] must be names with texts.")
        return {name: query for name, query in table.items() if "/" not in name and is_ordinary(name)}

    def _document(self) -> "tomlkit.TOMLDocument":
        import tomlkit

        self.all()  # raises if the file is invalid
        try:
            return tomlkit.parse(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return tomlkit.document()
        except OSError as error:
            raise self._unreadable(error) from None

    def _write(self, document: "tomlkit.TOMLDocument") -> None:
        import tomlkit

        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_text(tomlkit.dumps(document), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise errors.ConfigError(f"{self._path} cannot be written: {error.strerror}.") from None

    def _unreadable(self, error: Exception) -> errors.ConfigError:
        return errors.ConfigError(f"The saved searches in {self._path} cannot be read: {error}.")
