"""A PostgreSQL server for tests: the system's programs, in a temporary folder, on a Unix socket only.

Its data does not outlive it, so nothing waits for the disk.  The server refuses to be run by root: then it is
nobody's.  It ends with whoever uses it, also if that is killed: a guard, which is this file run as a program,
waits for the end of a pipe.
"""

import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
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

# How often one database is reused: it is never vacuumed.
_LENT = 100
_OF_KIND = """
  SELECT quote_ident(relname) FROM pg_class WHERE relkind = ? AND relnamespace = 'public'::regnamespace
"""
_ALONE = """
  SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid != pg_backend_pid()
"""


def programs() -> Path | None:
    """Return the folder of the server's programs; None if it is not installed."""
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place.lstrip("/")), reverse=True):
            if (folder / "initdb").exists() and (folder / "postgres").exists():
                return folder
    return None


def lacks() -> str | None:
    """Return why no server can run here; None if it can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed"
    return None if programs() is not None else "no PostgreSQL server is installed"


class PostgresServer:
    """Create it with `running`.  `stop` and `start` keep the databases."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self._folder = folder
        self._settings = _SETTINGS | dict(settings or {})
        self._numbers = count(1)
        self._user = "nobody" if os.geteuid() == 0 else None
        self._templates: set[str] = set()
        self._emptied: str = ""
        self._lent: dict[str, int] = {}  # how often
        self._idle: list[str] = []

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
        """Stop the server; `immediate` is like a crash."""
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
        """The server's main process, the parent of all others."""
        return int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def url(self, database: str) -> str:
        return f"postgresql://cmsfs@/{database}?host={self._folder}"

    def database(self) -> str:
        """Return the URL of a new service database, copied from one that the service has created."""
        if not self._templates:
            from cmsfs.service.storage.postgres import format

            self._execute("CREATE DATABASE made")
            format.prepare(self.url("made"))
            self._templates.add("made")
        return self.empty("made")

    def lend(self) -> str:
        """Return the URL of a service database in its initial state; return it with `take_back`.

        A new one costs a hundred times as much as removing what a test has written.
        """
        url = self._idle.pop() if self._idle else self._lendable()
        self._lent[url] = self._lent.get(url, 0) + 1
        return url

    def _lendable(self) -> str:
        if "lent" not in self._templates:
            self.database()
            self._execute("CREATE DATABASE lent TEMPLATE made")
            self._emptied = _keep_first_rows(self.url("lent"))
            self._templates.add("lent")
        return self.empty("lent")

    def take_back(self, url: str) -> None:
        from cmsfs.service.storage.postgres import connection

        if self._lent[url] >= _LENT:
            self.drop(url)
            return
        with closing(connection.connect(url)) as conn:
            conn.execute(_ALONE)
            conn.command(self._emptied)
        self._idle.append(url)

    def empty(self, template: str = "template1") -> str:
        """Return the URL of a new database."""
        return self.create(f"test_{next(self._numbers)}", template)

    def create(self, name: str, template: str = "template1") -> str:
        """Create a database of this name and return its URL."""
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        name = url.partition("@/")[2].partition("?")[0]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _execute(self, sql: str) -> None:
        from cmsfs.service.storage.postgres import connection

        with closing(connection.connect(self.url("postgres"))) as conn:
            conn.command(sql)


def _keep_first_rows(url: str) -> str:
    """Copy the initial rows of a database; return the statements that reset a used one to them."""
    from cmsfs.service.storage.postgres import connection

    with closing(connection.connect(url)) as conn:
        tables = [row[0] for row in conn.execute(_OF_KIND, ("r",)).fetchall()]
        sequences = [row[0] for row in conn.execute(_OF_KIND, ("S",)).fetchall()]
        filled = [name for name in tables if conn.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()]
        conn.command("CREATE SCHEMA first")
        parts = ["BEGIN; SET LOCAL session_replication_role = replica"]
        parts += [f"DELETE FROM {name}" for name in tables]
        for name in filled:
            conn.command(f"CREATE TABLE first.{name} AS TABLE public.{name}")
            parts.append(f"INSERT INTO {name} TABLE first.{name}")
        for name in sequences:
            last, is_called = conn.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
            parts.append(f"SELECT setval('{name}', {last}, {bool(is_called)})")
    return "; ".join([*parts, "COMMIT"])


@contextmanager
def running() -> Iterator[PostgresServer]:
    # A Unix socket's path must be short, and its folders accessible to other users than root.
    folder = Path(tempfile.mkdtemp(prefix="cmsfs-pg-", dir="/tmp"))
    folder.chmod(0o755)
    with _guarded(folder):
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """Stop the server and remove the folder at the end of the block, or of this process."""
    command = [sys.executable, "-I", "-S", __file__, str(folder)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


def _guard(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError):
        pid = int((folder / "data" / "postmaster.pid").read_text().partition("\n")[0])
        server = os.pidfd_open(pid)
        # The process id may have been reused.
        if Path(f"/proc/{pid}/cwd").readlink() == folder / "data":
            signal.pidfd_send_signal(server, signal.SIGQUIT)
            select.select([server], [], [], _STOP_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
