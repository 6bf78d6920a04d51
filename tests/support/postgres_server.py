"""A PostgreSQL server for tests: the system's programs, in a folder of its own, on a Unix socket alone.

Its data does not outlive it, so nothing waits for the disk.  The server refuses to be run by root: then it is
nobody's.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/bin", "/usr/local/bin")
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
_STOP_SECONDS = 30


def programs() -> Path | None:
    """The folder of the server's programs; None: it is not installed."""
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place.lstrip("/")), reverse=True):
            if (folder / "initdb").exists() and (folder / "postgres").exists():
                return folder
    return None


def lacks() -> str | None:
    """Why there can be no server here; None: there can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    return None if programs() is not None else "no PostgreSQL server is installed"


class PostgresServer:
    """Construct with `running`.  `stop` and `start` keep the databases."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self._folder = folder
        self._settings = _SETTINGS | dict(settings or {})
        self._numbers = count(1)
        self._user = "nobody" if os.geteuid() == 0 else None
        self._templates: set[str] = set()

    def make(self) -> None:
        if self._user is not None:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "-U", "cmsfs", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            for name, value in {**self._settings, "unix_socket_directories": str(self._folder)}.items():
                file.write(f"{name} = '{value}'\n")

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "start")

    def stop(self, how: str = "immediate") -> None:
        """`immediate` is as a crash of it."""
        self._run("pg_ctl", "-w", "-m", how, "stop")

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *args]
        done = subprocess.run(
            command,
            user=self._user,
            extra_groups=None if self._user is None else [],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=120,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stderr.decode()

    @property
    def pid(self) -> int:
        """The server's first process, whose children are all others."""
        return int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def url(self, database: str) -> str:
        return f"postgresql://cmsfs@/{database}?host={self._folder}"

    def database(self) -> str:
        """The URL of a new database of the service, which is a copy of one that it has made."""
        if not self._templates:
            from cmsfs.service.storage.postgres import format

            self._execute("CREATE DATABASE made")
            format.prepare(self.url("made"))
            self._templates.add("made")
        return self.empty("made")

    def empty(self, template: str = "template1") -> str:
        """The URL of a new database."""
        return self.create(f"test_{next(self._numbers)}", template)

    def create(self, name: str, template: str = "template1") -> str:
        """The URL of a new database of this name."""
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.partition("@/")[2].partition("?")[0]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _execute(self, sql: str) -> None:
        from cmsfs.service.storage.postgres import connection

        with closing(connection.connect(self.url("postgres"))) as conn:
            conn.command(sql)


@contextmanager
def running() -> Iterator[PostgresServer]:
    # A Unix socket's path is short, and the folders above are not for root alone.
    folder = Path(tempfile.mkdtemp(prefix="cmsfs-pg-", dir="/tmp"))
    folder.chmod(0o755)
    server = PostgresServer(folder)
    try:
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
