"""Runs statements on a libpq connection and prepares those that repeat.

A statement costs 10 microseconds of CPU with libpq, and 130 to 200 with psycopg's cursors, which wait for the
result in Python and create an object for each column.  Here libpq waits: the caller is a thread, or the event
loop for a point read, and blocks anyway.

Rule: only repeated statements are prepared, and the least recently used are deallocated.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, pq

# How many statements a connection keeps prepared, and at which execution a statement is prepared.
MAX_PREPARED = 1000
_PREPARE_AFTER = 3

_SUCCESS = frozenset({pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY})


class PreparedStatement:
    """State of one statement on one connection."""

    __slots__ = ("columns", "name", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.name = b""  # of the prepared statement; empty: not prepared
        self.columns: tuple[str, ...] | None = None


class StatementCache:
    """The statements of one connection; not thread-safe."""

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self._pgconn = pgconn
        self._known: OrderedDict[str, PreparedStatement] = OrderedDict()
        self._count = 0

    def run(
        self, text: str, values: Sequence[Any], formats: Sequence[int] | None
    ) -> tuple[PreparedStatement, pq.abc.PGresult]:
        """Run a statement with `values` as its parameters.  Raises `psycopg.Error`."""
        statement = self._known.get(text)
        if statement is None:
            statement = self._known[text] = PreparedStatement()
            if len(self._known) > MAX_PREPARED:
                self._evict_oldest()
        else:
            self._known.move_to_end(text)
        statement.uses += 1
        if not statement.name and statement.uses >= _PREPARE_AFTER:
            self._count += 1
            name = b"s%d" % self._count
            self.check_result(self._pgconn.prepare(name, text.encode()))
            statement.name = name
        if statement.name:
            result = self._pgconn.exec_prepared(statement.name, values, formats)
        else:
            result = self._pgconn.exec_params(text.encode(), values, param_formats=formats)
        return statement, self.check_result(result)

    def command(self, sql: str) -> None:
        """Run statements without parameters; several are separated by semicolons.  Raises `psycopg.Error`."""
        self.check_result(self._pgconn.exec_(sql.encode()))

    def check_result(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _SUCCESS:
            return result
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
            # An error without SQLSTATE is libpq's own: the server is unreachable.
            message = result.error_message.decode("utf-8", "replace").strip()
            self._pgconn.finish()
            raise psycopg.OperationalError(message)
        raise errors.error_from_result(result)

    def _evict_oldest(self) -> None:
        _, oldest = self._known.popitem(last=False)
        # A failed transaction accepts no DEALLOCATE: the statement stays, under a name that is never reused.
        if oldest.name and self._pgconn.transaction_status != pq.TransactionStatus.INERROR:
            self.check_result(self._pgconn.exec_(b"DEALLOCATE " + oldest.name))
