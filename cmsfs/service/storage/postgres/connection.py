"""A connection to PostgreSQL that answers as one of SQLite's does.

What is handed to the service's transaction functions: `execute` with SQLite's parameters, rows by name and by
place, numbers as numbers, and SQLite's exceptions.  Values are sent without a type, so that the server takes
each as what stands beside it, whatever its type in Python.

Rule: nothing of psycopg is seen outside of the modules of this engine.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import adapt, errors, pq

from cmsfs.service.storage import engine
from cmsfs.service.storage.postgres import prepared, statements

# What the service says to the server about each of its connections.  Statements here are short, and not worth
# being compiled; a statement that was asked for often is planned once.
_OPTIONS = "-c jit=off -c TimeZone=UTC"
# The function of the server that finds that a statement gives other columns than when it was planned.  There
# is no code for that, and its words are in the server's language.
_STALE = "RevalidateCachedQuery"


class PostgresRow(tuple[Any, ...]):
    """A row as SQLite's: by name and by place.  Made by `_row_class`."""

    __slots__ = ()
    places: Mapping[str, int] = {}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = self.places[key]
            except KeyError:
                raise IndexError(f"no column is called {key}") from None
        return tuple.__getitem__(self, key)

    def keys(self) -> list[str]:
        return list(self.places)


@lru_cache(maxsize=4096)
def _row_class(names: tuple[str, ...]) -> type[PostgresRow]:
    # Of two columns of one name the first is meant, as in SQLite.
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    return type(
        "PostgresRow", (PostgresRow,), {"__slots__": (), "places": {name: places[name] for name in names}}
    )


class Result:
    """What a statement gave."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self.rowcount = rowcount
        self._rows = iter(rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows


class PostgresConnection:
    """One connection, for one thread at a time.  Construct with `connect`."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        self._statements = prepared.Statements(raw.pgconn)
        self._loaders = adapt.Transformer(raw)
        self._listens = False

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status != pq.TransactionStatus.IDLE

    @property
    def pid(self) -> int:
        """The process of the server that answers here."""
        return self.raw.info.backend_pid

    @property
    def is_lost(self) -> bool:
        return self.raw.closed

    def execute(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = ()) -> Result:
        """Run a statement.  Raises `sqlite3.IntegrityError`, `DatabaseUnavailable`, and others of it."""
        text, keys = statements.translate(sql)
        given: Any = args
        values = [_sent(given[key]) for key in keys]
        formats = [int(type(given[key]) is bytes) for key in keys]
        try:
            statement, found = self._statements.run(text, values, formats if any(formats) else None)
            return self._result(statement, found)
        except psycopg.Error as error:
            raise self._failed(error) from error
        finally:
            self._hear()

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> Result:
        text, keys = statements.translate(sql)
        rows: Any = many
        try:
            with self.raw.cursor() as cursor:
                cursor.executemany(text.encode(), [[_value(args[key]) for key in keys] for args in rows])
                return Result([], cursor.rowcount)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: psycopg.Error) -> sqlite3.Error:
        if _is_stale_plan(error):
            # Whoever asks again gets another connection.
            self.close()
        return said(error)

    def command(self, sql: str) -> None:
        """Run statements as they are, several with semicolons between."""
        try:
            self._statements.command(sql)
        except psycopg.Error as error:
            raise said(error) from error
        finally:
            self._hear()

    def _result(self, statement: prepared.Statement, found: pq.abc.PGresult) -> Result:
        if not found.nfields:
            return Result([], found.command_tuples or 0)
        if statement.columns is None:
            names = (found.fname(place) or b"" for place in range(found.nfields))
            statement.columns = tuple(name.decode() for name in names)
        self._loaders.set_pgresult(found)
        rows: list[Any] = self._loaders.load_rows(0, found.ntuples, _row_class(statement.columns))
        return Result(rows, found.command_tuples or 0)

    def listen(self, channel: str, heard: Callable[[int, str], None]) -> None:
        """Have it called for what is told there: the server's process that told it, and what."""
        self.raw.add_notify_handler(lambda one: heard(one.pid, one.payload))
        self._listens = True
        self.command(f"LISTEN {channel}")

    def take_in(self) -> None:
        """Take what the server sent by itself; the socket is readable.  Raises `DatabaseUnavailable`."""
        try:
            self.raw.pgconn.consume_input()
        except psycopg.Error as error:
            self.close()
            raise said(error) from error
        self._hear()

    def _hear(self) -> None:
        """What was told may have come with an answer."""
        while self._listens and not self.is_lost and (one := self.raw.pgconn.notifies()) is not None:
            if self.raw.pgconn.notify_handler is not None:
                self.raw.pgconn.notify_handler(one)

    def settle(self) -> None:
        """End what a transaction left open."""
        if not self.is_lost and self.in_transaction:
            self.command("ROLLBACK")

    def close(self) -> None:
        self.raw.close()


def _sent(value: Any) -> bytes | None:
    value = _value(value)
    return value.encode() if type(value) is str else value


def _value(value: Any) -> Any:
    """As text without a type; that of a truth is understood as a number and as a truth."""
    if isinstance(value, str):
        # The one character that text has not there.
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, int):
        return f"{value:d}"
    if isinstance(value, float):
        return repr(value)
    return value


def _is_stale_plan(error: psycopg.Error) -> bool:
    """Whether a newer version added a column to a table, which what was planned before does not know."""
    return isinstance(error, errors.FeatureNotSupported) and error.diag.source_function == _STALE


def said(error: psycopg.Error) -> sqlite3.Error:
    """The exception that SQLite would have raised."""
    text = str(error).partition("\n")[0]
    match error:
        case errors.IntegrityError():
            return sqlite3.IntegrityError(text)
        case errors.NumericValueOutOfRange():
            return sqlite3.DataError(text)
        case _ if _is_stale_plan(error):
            return engine.DatabaseUnavailable("the database was just upgraded")
        # Away, going, full, or busy for too long.
        case psycopg.OperationalError() | errors.InFailedSqlTransaction():
            return engine.DatabaseUnavailable(text)
        case _:
            return sqlite3.DatabaseError(f"{type(error).__name__}: {error}")


class _Number(adapt.Loader):
    """A sum of whole numbers, which has no end there."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        try:
            return int(text)
        except ValueError:
            return float(text)


class _Truth(adapt.Loader):
    """A truth is a number in SQLite."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


def connect(url: str, *, reads_only: bool = False, name: str = "cmsfs") -> PostgresConnection:
    """A connection; each statement is a transaction of its own until one is begun.  For a thread.

    With `reads_only`, a transaction that is begun sees one moment of the data.
    Raises `DatabaseUnavailable`.
    """
    options = _OPTIONS
    if reads_only:
        options += " -c default_transaction_read_only=on"
        options += " -c default_transaction_isolation=repeatable\\ read"
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
        more: dict[str, Any] = {
            "options": f"{known.get('options', '')} {options}".strip(),
            "connect_timeout": known.get("connect_timeout", 5),
            "keepalives_idle": known.get("keepalives_idle", 30),
            "application_name": known.get("application_name", name),
        }
        raw = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor, **more)
    except psycopg.Error as error:
        raise said(error) from error
    raw.adapters.register_loader("numeric", _Number)
    raw.adapters.register_loader("bool", _Truth)
    return PostgresConnection(raw)
