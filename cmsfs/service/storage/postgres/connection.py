"""A PostgreSQL connection with the interface of a SQLite connection.

The service's transaction functions get one of these: `execute` takes SQLite's parameters, rows can be indexed
by name and by position, numbers are Python numbers, and errors are SQLite's exceptions.  Parameters are sent
untyped, so that the server infers each type from the context, whatever the Python type.

Rule: psycopg is not visible outside the modules of this engine.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import adapt, errors, pq

from cmsfs.service.storage import engine
from cmsfs.service.storage.postgres import prepared, statements

# Session options of every connection.  Our statements are short, so JIT compilation does not pay; statements
# that run often are prepared (prepared.py).
_OPTIONS = "-c jit=off -c TimeZone=UTC"
# A server that has vanished from the network sends no reset.  What was sent to it would be repeated for a
# quarter of an hour, and point reads block the event loop meanwhile.
_SILENT_MILLISECONDS = 10_000
# The server function that reports that a cached plan returns other columns than before.  This error has no
# SQLSTATE of its own, and its message is localized.
_STALE_PLAN_FUNCTION = "RevalidateCachedQuery"


class PostgresRow(tuple[Any, ...]):
    """A row like SQLite's, indexed by name and by position.  Created by `_row_class`."""

    __slots__ = ()
    positions: Mapping[str, int] = {}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = self.positions[key]
            except KeyError:
                raise IndexError(f"there is no column {key}") from None
        return tuple.__getitem__(self, key)

    def keys(self) -> list[str]:
        return list(self.positions)


@lru_cache(maxsize=4096)
def _row_class(names: tuple[str, ...]) -> type[PostgresRow]:
    # If two columns have the same name, the first one wins, as in SQLite.
    positions = {name: position for position, name in reversed(list(enumerate(names)))}
    return type(
        "PostgresRow",
        (PostgresRow,),
        {"__slots__": (), "positions": {name: positions[name] for name in names}},
    )


class Result:
    """The result of a statement."""

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
        self._statements = prepared.StatementCache(raw.pgconn)
        self._loaders = adapt.Transformer(raw)
        self._is_listening = False

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status != pq.TransactionStatus.IDLE

    @property
    def pid(self) -> int:
        """The process id of the server backend of this connection."""
        return self.raw.info.backend_pid

    @property
    def is_lost(self) -> bool:
        return self.raw.closed

    def execute(self, sql: str, args: Sequence[Any] | Mapping[str, Any] = ()) -> Result:
        """Run a statement.  Raises `sqlite3.Error`, such as `IntegrityError` or `DatabaseUnavailable`."""
        text, keys = statements.translate(sql)
        parameters: Any = args
        values = [_encode_parameter(parameters[key]) for key in keys]
        formats = [int(type(parameters[key]) is bytes) for key in keys]
        try:
            statement, result = self._statements.run(text, values, formats if any(formats) else None)
            return self._result(statement, result)
        except psycopg.Error as error:
            raise self._translate_error(error) from error
        finally:
            self._dispatch_notifications()

    def executemany(self, sql: str, args_list: Iterable[Sequence[Any]]) -> Result:
        text, keys = statements.translate(sql)
        rows: Any = args_list
        try:
            with self.raw.cursor() as cursor:
                cursor.executemany(
                    text.encode(), [[_to_parameter(args[key]) for key in keys] for args in rows]
                )
                return Result([], cursor.rowcount)
        except psycopg.Error as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: psycopg.Error) -> sqlite3.Error:
        if _is_stale_plan(error):
            # A retry opens a new connection, without stale plans.
            self.close()
        return as_sqlite_error(error)

    def command(self, sql: str) -> None:
        """Run statements without translation or parameters; several are separated by semicolons."""
        try:
            self._statements.command(sql)
        except psycopg.Error as error:
            raise as_sqlite_error(error) from error
        finally:
            self._dispatch_notifications()

    def _result(self, statement: prepared.PreparedStatement, result: pq.abc.PGresult) -> Result:
        if not result.nfields:
            return Result([], result.command_tuples or 0)
        if statement.columns is None:
            names = (result.fname(position) or b"" for position in range(result.nfields))
            statement.columns = tuple(name.decode() for name in names)
        self._loaders.set_pgresult(result)
        rows: list[Any] = self._loaders.load_rows(0, result.ntuples, _row_class(statement.columns))
        return Result(rows, result.command_tuples or 0)

    def listen(self, channel: str, on_notify: Callable[[int, str], None]) -> None:
        """Subscribe to a channel; `on_notify` gets the pid of the notifying backend and the payload."""
        self.raw.add_notify_handler(lambda one: on_notify(one.pid, one.payload))
        self._is_listening = True
        self.command(f"LISTEN {channel}")

    def process_notifications(self) -> None:
        """Read and dispatch notifications when the socket is readable.  Raises `DatabaseUnavailable`."""
        try:
            self.raw.pgconn.consume_input()
        except psycopg.Error as error:
            self.close()
            raise as_sqlite_error(error) from error
        self._dispatch_notifications()

    def _dispatch_notifications(self) -> None:
        """Dispatch received notifications; some arrive together with query results."""
        while self._is_listening and not self.is_lost and (one := self.raw.pgconn.notifies()) is not None:
            if self.raw.pgconn.notify_handler is not None:
                self.raw.pgconn.notify_handler(one)

    def rollback_open_transaction(self) -> None:
        """Roll back the transaction if one is still open."""
        if not self.is_lost and self.in_transaction:
            self.command("ROLLBACK")

    def close(self) -> None:
        self.raw.close()


def _encode_parameter(value: Any) -> bytes | None:
    value = _to_parameter(value)
    return value.encode() if type(value) is str else value


def _to_parameter(value: Any) -> Any:
    """Convert a value to untyped text; a bool becomes 0 or 1, which is valid as a number and as a boolean."""
    if isinstance(value, str):
        # PostgreSQL's text type cannot store NUL.
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, int):
        return f"{value:d}"
    if isinstance(value, float):
        return repr(value)
    return value


def _is_stale_plan(error: psycopg.Error) -> bool:
    """Whether a prepared plan is stale because a newer version added a column to its table."""
    return (
        isinstance(error, errors.FeatureNotSupported) and error.diag.source_function == _STALE_PLAN_FUNCTION
    )


def as_sqlite_error(error: psycopg.Error) -> sqlite3.Error:
    """Convert a psycopg error to the exception that SQLite would have raised."""
    text = str(error).partition("\n")[0]
    match error:
        case errors.IntegrityError():
            return sqlite3.IntegrityError(text)
        case errors.NumericValueOutOfRange():
            return sqlite3.DataError(text)
        case _ if _is_stale_plan(error):
            return engine.DatabaseUnavailable("the database was just upgraded")
        # Unreachable, shutting down, out of resources, or a lock timeout.
        case psycopg.OperationalError() | errors.InFailedSqlTransaction():
            return engine.DatabaseUnavailable(text)
        case _:
            return sqlite3.DatabaseError(f"{type(error).__name__}: {error}")


class _NumericLoader(adapt.Loader):
    """Loads `numeric`, the type of an integer sum, as int if possible, else as float."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        try:
            return int(text)
        except ValueError:
            return float(text)


class _BoolLoader(adapt.Loader):
    """Loads booleans as 0 and 1, as in SQLite."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


def connect(url: str, *, read_only: bool = False, name: str = "cmsfs") -> PostgresConnection:
    """Open a connection in autocommit mode; blocking, so call it in a thread.

    With `read_only`, transactions are read-only and see one snapshot of the data (repeatable read).
    Raises `DatabaseUnavailable`.
    """
    options = _OPTIONS
    if read_only:
        options += " -c default_transaction_read_only=on"
        options += " -c default_transaction_isolation=repeatable\\ read"
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
        defaults: dict[str, Any] = {
            "options": f"{known.get('options', '')} {options}".strip(),
            "connect_timeout": known.get("connect_timeout", 5),
            "keepalives_idle": known.get("keepalives_idle", 30),
            "tcp_user_timeout": known.get("tcp_user_timeout", _SILENT_MILLISECONDS),
            "application_name": known.get("application_name", name),
        }
        raw = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor, **defaults)
    except psycopg.Error as error:
        raise as_sqlite_error(error) from error
    raw.adapters.register_loader("numeric", _NumericLoader)
    raw.adapters.register_loader("bool", _BoolLoader)
    return PostgresConnection(raw)
