"""The environment of a story: temporary folders in memory, and a copy of a prepared service."""

import atexit
import contextlib
import ctypes
import errno
import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trio

from cmsfs import config, disk_reserve, sqlite
from cmsfs.client import offers
from cmsfs.client.content.events import EventsApi
from cmsfs.client.content.folders import FoldersApi
from cmsfs.client.transport.wire import Wire
from cmsfs.journal import early_hashes, sealing
from cmsfs.models.content import entries, events
from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.runtime import threads
from cmsfs.service.access import calls
from cmsfs.service.events import event_watch
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from cmsfs.service.uploads import upload_sessions
from cmsfs.sqlite import Connection
from daemon.fetch import block_download, hydrate
from daemon.listing import folder_lister
from daemon.pull import event_feed
from tests.simulation.machines import OTHER
from tests.simulation.world import World

SINGLE_THREAD, MEMORY_STATISTICS = 1, 9

# A story leaves some megabytes in cycles; a process of a long run ends before that is collected.
COLLECT_EVERY = 100
_stories = 0

_template: dict[str, object] = {}


def create_accounts(conn: Connection) -> int:
    """Create an enterprise with two users and the tests' application; return the first user's id."""
    enterprise = demo.add_enterprise(conn, "Tests", now=1)
    user = demo.add_user(conn, enterprise, "Ada Tester", "ada@example.com", role="admin", now=1)
    demo.add_user(conn, enterprise, "Bob Tester", OTHER, now=1)
    conn.execute(
        "INSERT INTO app (client_id, secret_hash, name, enterprise, service_user) VALUES (?, ?, ?, ?, ?)",
        ("tests", calls.hashed("secret"), "tests", enterprise, user["id"]),
    )
    return int(user["id"])


def copy_template(root: Path) -> int:
    """Copy an empty service with its users to `root` (created once) and return the first user's id."""
    if "folder" not in _template:
        folder = Path(tempfile.mkdtemp(prefix="cmsfs-service-", dir=memory_folder()))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)

        async def make() -> int:
            async with store.open_store(folder / "service") as opened:
                return await opened.write(create_accounts)

        _template["user"] = World("template").run_inside(make)
        _template["folder"] = folder
    shutil.copytree(Path(str(_template["folder"])) / "service", root)
    return int(str(_template["user"]))


def memory_folder() -> Path | None:
    if "TMPDIR" in os.environ:
        return None  # a folder of the whole run, which is removed at its end in any case
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable the garbage collector during a story; collect after every hundredth.

    In a process that runs stories only, it is disabled all the time (`disable_gc`): enabling it in between
    would have it look at everything that the story has left.
    """
    global _stories
    _stories += 1
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not _stories % COLLECT_EVERY:
            gc.collect()
        if was_on:
            gc.enable()


def warm_up(run_story: Callable[[int], object]) -> None:
    """Run a story: the processes forked from this one find all modules loaded, and the template made."""
    run_story(0)
    disable_gc()


def disable_gc() -> None:
    """Disable the garbage collector in a process that runs stories only."""
    gc.collect()
    gc.freeze()
    gc.disable()


def quick_sqlite() -> None:
    """Let SQLite work without locks between threads, and without counting its memory, in a process that runs
    stories only: the work of their threads is done one after the other.

    https://www.sqlite.org/c3ref/c_config_covering_index_scan.html
    """
    try:
        library = ctypes.CDLL("libsqlite3.so.0")
    except OSError:  # it is part of Python
        return
    library.sqlite3_shutdown()
    library.sqlite3_config(SINGLE_THREAD)
    library.sqlite3_config(MEMORY_STATISTICS, 0)
    library.sqlite3_initialize()


# Files from this size use multipart uploads: most of those that programs write.
PARTS_FROM = 200
PART_BYTES = 128
MOST_PARTS = 4

# Larger files are read while they download, and their downloads can resume.
PIECEWISE_FROM = 20_000


@contextmanager
def page_cache(*, is_warm: bool) -> Iterator[None]:
    """Let all reads that must not wait for the disk succeed, or none: what the machine has in its memory, and
    whether its file system can tell, is no part of a story."""
    preadv = os.preadv

    def read(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags & os.RWF_NOWAIT and not is_warm:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return preadv(fd, buffers, offset, flags & ~os.RWF_NOWAIT)

    os.preadv = read
    try:
        yield
    finally:
        os.preadv = preadv


@contextmanager
def small_parts() -> Iterator[None]:
    """Let drives and service treat small files as large: hashed early, sealed one by one, uploaded in parts.
    Larger ones are downloaded in ranges."""
    shipped = config.profile

    def profile(settings: config.Settings) -> config.Profile:
        return shipped(settings).model_copy(update={"parts_from_bytes": PARTS_FROM})

    with contextlib.ExitStack() as stack:
        for holder, name, value in (
            (config, "profile", profile),
            (early_hashes, "LARGE", PARTS_FROM),
            (sealing, "SMALL", PARTS_FROM - 1),
            (models_upload_sessions, "MIN_FILE_SIZE", PARTS_FROM),
            (upload_sessions, "PART_SIZE", PART_BYTES),
            (upload_sessions, "MAX_PARTS", MOST_PARTS),
            (block_download, "WHOLE_BYTES", PIECEWISE_FROM),
            (hydrate, "WHOLE_BYTES", PIECEWISE_FROM),
        ):
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        yield


# Items in a page of a folder's listing, and events in one of the stream.
PAGE_ITEMS = 2
PAGE_EVENTS = 8


@contextmanager
def small_pages() -> Iterator[None]:
    """Let drives list folders and read events in small pages."""
    page, since = FoldersApi.page, EventsApi.since

    async def small(self: FoldersApi, folder_id: str, *, offset: int = 0) -> entries.EntryPage:
        return await page(self, folder_id, offset=offset, limit=PAGE_ITEMS)

    async def few(
        self: EventsApi, position: events.Position, *, limit: int = PAGE_EVENTS
    ) -> events.EventPage:
        return await since(self, position, limit=limit)

    with contextlib.ExitStack() as stack:
        for holder, name, value in (
            (FoldersApi, "page", small),
            (folder_lister, "PAGE", PAGE_ITEMS),
            (EventsApi, "since", few),
            (event_feed, "PAGE", PAGE_EVENTS),
        ):
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        yield


@contextmanager
def known_abilities() -> Iterator[None]:
    """Let drives know that the service has every operation: asking takes 18 requests at each start."""

    async def find_out(wire: Wire, base_url: str, upload_url: str) -> offers.Findings:
        await trio.lowlevel.checkpoint()
        return offers.Findings(frozenset(), frozenset())

    asked, offers.find_out = offers.find_out, find_out
    try:
        yield
    finally:
        offers.find_out = asked


@contextmanager
def private_databases() -> Iterator[None]:
    """Open databases with few connections, as files of this process alone.

    SQLite then needs no locks of files, of which there are 10,000 a story.  The work of a story's threads is
    atomic, so that the loop can go on to read with the connection that they write with, and long reads and
    checkpoints share one; every connection parses all statements anew.
    """
    shipped, in_thread, init = sqlite3.connect, sqlite.Database._in_thread, sqlite.Database.__init__

    def connect(path: Any, *args: Any, **kwargs: Any) -> sqlite3.Connection:
        if not isinstance(path, Path):
            return shipped(path, *args, **kwargs)
        return shipped(f"file:{quote(str(path))}?vfs=unix-excl", *args, uri=True, **kwargs)

    async def write(self: sqlite.Database, work: Callable[[], Any]) -> Any:
        self.settle()
        return await threads.run_sync(work)

    def open_database(self: sqlite.Database, path: Path, reader: Connection, writer: Connection) -> None:
        init(self, path, reader, writer)
        self._idle_readers.append(reader)
        self._backfiller = reader

    database: Any = sqlite.Database
    sqlite3.connect = connect  # type: ignore[assignment]
    database._in_thread, database.__init__ = write, open_database
    try:
        yield
    finally:
        sqlite3.connect = shipped
        database._in_thread, database.__init__ = in_thread, init


# The disks of a story, whatever room the machine has: 32 of 64 GiB are free.
ROOMY = os.statvfs_result((4096, 4096, 2**24, 2**23, 2**23, 2**20, 2**19, 2**19, 0, 255))


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="cmsfs-story-", dir=memory_folder()))
    before = dict(os.environ)
    for variable in ("CONFIG", "DATA", "STATE", "CACHE"):
        os.environ[f"XDG_{variable}_HOME"] = str(home / variable.lower())
    os.environ["XDG_RUNTIME_DIR"] = str(home / "run")
    for name in ("config", "data", "state", "cache", "run"):
        (home / name).mkdir(mode=0o700)
    for variable in ("NOTIFY_SOCKET", "DBUS_SESSION_BUS_ADDRESS", "CMSFS_CONFIG", "CMSFS_ACCOUNT"):
        os.environ.pop(variable, None)
    # The environment stays the same meanwhile, and every object of a drive asks for its paths.
    places: dict[str, config.Paths] = {}
    settings: Any = config.Settings
    shipped, paths = config.Paths, settings.paths

    def cached(place: str) -> config.Paths:
        return places.get(place) or places.setdefault(place, shipped(place))

    config.Paths = cached  # type: ignore[assignment, misc]
    settings.paths = property(lambda of: cached(of.place))
    size, disk_reserve.SIZE_BYTES = disk_reserve.SIZE_BYTES, 64 * 1024
    statvfs: Any = os.statvfs
    os.statvfs = lambda path: ROOMY
    # No other process writes to the service's data, and events of expiry may be late.
    look, event_watch.POLL_SECONDS = event_watch.POLL_SECONDS, 60.0
    try:
        yield home
    finally:
        config.Paths, settings.paths = shipped, paths  # type: ignore[misc]
        os.statvfs = statvfs
        disk_reserve.SIZE_BYTES, event_watch.POLL_SECONDS = size, look
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(home, ignore_errors=True)
