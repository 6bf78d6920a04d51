"""Simulates what survives on a machine's disk after a power cut.

    bytes    the contents at the last fsync of the file; each page written since may or may not survive
    names    the directory as of its last fsync, or as it is now

SQLite's own syncs are derived from its rules: a durable commit and a checkpoint sync the WAL.
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

# https://www.sqlite.org/fileformat2.html#walformat
WAL_HEADER = 32


def copy_tree(source: Path, target: Path) -> None:
    """Copy a tree, preserving hard links."""
    links: dict[int, Path] = {}
    target.mkdir(parents=True)
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        for name in folders:
            (here / name).mkdir()
        for name in files:
            path = Path(folder, name)
            number = path.stat().st_ino
            if number in links:
                os.link(links[number], here / name)
            else:
                links[number] = here / name
                shutil.copyfile(path, here / name)
                shutil.copymode(path, here / name)
    shutil.copymode(source, target)


class Disks:
    """Records what was fsynced below the watched folders."""

    def __init__(self) -> None:
        self._folders: tuple[str, ...] = ()  # each without and with a slash at its end
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        # Open descriptors by inode number: a removed name may come back with its contents.
        self._held: dict[int, int] = {}

    def add(self, folder: Path) -> None:
        self._folders += (str(folder), f"{folder}/")

    def _is_ours(self, path: str) -> bool:
        return path.startswith(self._folders[1::2]) or path in self._folders

    # ---- what is synced ----

    def record_synced(self, path: Path) -> None:
        """Record the current state of a file or folder as durable."""
        if not self._is_ours(str(path)):
            return
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode):
                self._bytes[found.st_ino] = os.pread(fd, found.st_size, 0)
                return
        finally:
            os.close(fd)
        self._names[path] = {}
        for entry in sorted(os.scandir(path), key=lambda one: one.name):
            if entry.is_file():
                self._names[path][entry.name] = self._hold(entry)

    def on_fsync(self, path: Path) -> None:
        """Called at each sync of the product; planted bugs override it to drop some."""
        if self._folders:
            self.record_synced(path)

    def _hold(self, entry: os.DirEntry[str]) -> int:
        number = entry.inode()
        if number not in self._held:
            self._held[number] = os.open(entry.path, os.O_RDONLY)
        return number

    def record_all_synced(self, folders: list[Path]) -> None:
        """Record everything below these folders as durable: called when a process starts."""
        for top in folders if self._folders else ():
            for folder, _, files in os.walk(top):
                for name in files:
                    self.record_synced(Path(folder, name))
                self.record_synced(Path(folder))

    # ---- the power cut ----

    def copy_survivors(self, source: Path, target: Path, chance: random.Random) -> None:
        """Copy to `target` what survives of `source` after a power cut."""
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
                there.write_bytes(self._surviving_bytes(number, here / name, chance))
                there.chmod(0o600)
        shutil.copymode(source, target)

    def _files_in(self, folder: Path, names: list[str]) -> list[str]:
        return [name for name in names if not (folder / name).is_dir()]

    def _surviving_bytes(self, number: int, path: Path, chance: random.Random) -> bytes:
        if number in self._held:
            size = os.fstat(self._held[number]).st_size
            now = os.pread(self._held[number], size, 0)
        else:
            now = path.read_bytes()
        kept = self._bytes.get(number, b"")
        if path.name.endswith("-wal"):
            # SQLite syncs the header of a log that starts anew before it writes anything behind it.
            kept = now[:WAL_HEADER] + kept[WAL_HEADER:]
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

    # ---- hooks ----

    @contextlib.contextmanager
    def intercepting_fsync(self) -> Iterator[None]:
        """Intercept every fsync, ours and SQLite's."""
        fsync, run = os.fsync, sqlite.Database._run
        trim, close = sqlite.Database._checkpoint, sqlite.Database.close
        write_back = sqlite.Database._write_back

        def on_fsync(fd: int) -> None:
            fsync(fd)
            if self._folders:
                self.on_fsync(Path(f"/proc/self/fd/{fd}").readlink())

        def synced_run(db: Any, txn: Callable[[Any], Any], durable: bool = False, *how: Any) -> Any:
            try:
                return run(db, txn, durable, *how)
            finally:
                if durable:
                    self.on_fsync(db._log.path)

        def synced_trim(db: Any) -> None:
            trim(db)
            self.on_fsync(db._log.path)
            self.on_fsync(db.path)

        def synced_write_back(db: Any) -> bool:
            found = write_back(db)
            self.on_fsync(db._log.path)
            self.on_fsync(db.path)
            return found

        def synced_close(db: Any) -> None:
            close(db)
            self.on_fsync(db.path)

        os.fsync = on_fsync  # type: ignore[assignment]
        database: Any = sqlite.Database
        database._run, database._checkpoint, database.close = synced_run, synced_trim, synced_close
        database._write_back = synced_write_back
        try:
            yield
        finally:
            os.fsync = fsync
            database._run, database._checkpoint, database.close = run, trim, close
            database._write_back = write_back
            self.close()
