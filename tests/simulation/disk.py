"""What the disk of a machine would still have after a power cut.

    bytes    what was there at the last fsync of the file, and of each page written since, perhaps
    names    what was there at the last fsync of the folder, or what is there now

What SQLite does to its files is known by its rules: a durable commit and a checkpoint sync the log.
"""

import contextlib
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cmsfs import sqlite

PAGE = 4096


class Disks:
    """Notes what is brought to the disk, below any of these folders."""

    def __init__(self) -> None:
        self._folders: tuple[str, ...] = ()
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        # What a name that is gone may come back with.
        self._held: dict[int, int] = {}

    def add(self, folder: Path) -> None:
        self._folders += (str(folder), f"{folder}/")

    def _is_ours(self, path: Path) -> bool:
        return str(path).startswith(self._folders[1::2]) or str(path) in self._folders

    # ---- what is synced ----

    def synced(self, path: Path) -> None:
        """A file or a folder was brought to the disk."""
        if not self._is_ours(path):
            return
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = {}
            for entry in sorted(os.scandir(path), key=lambda one: one.name):
                if entry.is_file():
                    self._names[path][entry.name] = self._hold(entry)
            return
        self._bytes[found.st_ino] = path.read_bytes()

    def heard(self, path: Path) -> None:
        """The product has brought it to the disk."""
        self.synced(path)

    def _hold(self, entry: os.DirEntry[str]) -> int:
        number = entry.inode()
        if number not in self._held:
            self._held[number] = os.open(entry.path, os.O_RDONLY)
        return number

    def all_synced(self, folders: list[Path]) -> None:
        """A start finds what there is, and what there is then is on the disk."""
        for top in folders if self._folders else ():
            for folder, _, files in os.walk(top):
                for name in files:
                    self.synced(Path(folder, name))
                self.synced(Path(folder))

    # ---- the power cut ----

    def left(self, source: Path, target: Path, chance: random.Random) -> None:
        """Put into `target` what there is of `source` when the power comes back."""
        with_names = chance.random() < 0.5
        shutil.copytree(source, target, ignore=lambda folder, names: self._files_in(Path(folder), names))
        links: dict[int, Path] = {}
        for folder, _, files in os.walk(source):
            here = Path(folder)
            numbers = {name: (here / name).stat().st_ino for name in sorted(files)}
            if with_names and here in self._names:
                kept = {name: one for name, one in numbers.items() if name.startswith("replica.db")}
                numbers = self._names[here] | kept
            for name, number in sorted(numbers.items()):
                if name.endswith("-shm"):
                    continue
                there = target / here.relative_to(source) / name
                if number in links:
                    os.link(links[number], there)
                    continue
                links[number] = there
                there.write_bytes(self._survived(number, here / name, chance))
                there.chmod(0o600)
        shutil.copymode(source, target)

    def _files_in(self, folder: Path, names: list[str]) -> list[str]:
        return [name for name in names if not (folder / name).is_dir()]

    def _survived(self, number: int, path: Path, chance: random.Random) -> bytes:
        if number in self._held:
            size = os.fstat(self._held[number]).st_size
            now = os.pread(self._held[number], size, 0)
        else:
            now = path.read_bytes()
        kept = self._bytes.get(number, b"")
        if now == kept:
            return now
        mode = chance.choice(["nothing", "all", "some"])
        if mode == "all":
            return now
        if mode == "nothing":
            return kept
        size = chance.choice([len(now), len(kept)])
        pages = []
        for at in range(0, size, PAGE):
            one = chance.choice([now, kept])[at : at + PAGE]
            pages.append(one.ljust(min(PAGE, size - at), b"\0"))
        return b"".join(pages)

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()

    # ---- how it hears of that ----

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of every fsync, ours and SQLite's."""
        fsync, run, trim, close = os.fsync, sqlite.Database._run, sqlite.Database._trim, sqlite.Database.close

        def heard(fd: int) -> None:
            fsync(fd)
            if not self._folders:
                return
            self.heard(Path(f"/proc/self/fd/{fd}").readlink())

        def heard_run(db: Any, txn: Callable[[Any], Any], durable: bool = False, *how: Any) -> Any:
            try:
                return run(db, txn, durable, *how)
            finally:
                if durable:
                    self.heard(db._log)

        def heard_trim(db: Any) -> None:
            trim(db)
            self.heard(db._log)
            self.heard(db.path)

        def heard_close(db: Any) -> None:
            close(db)
            self.heard(db.path)

        os.fsync = heard  # type: ignore[assignment]
        database: Any = sqlite.Database
        database._run, database._trim, database.close = heard_run, heard_trim, heard_close
        try:
            yield
        finally:
            os.fsync = fsync
            database._run, database._trim, database.close = run, trim, close
            self.close()
