"""Runs statements on a connection of libpq, and lets the server remember those that come again.

A statement takes libpq 10 microseconds of the processor, and psycopg's cursors 130 to 200: they wait for the
answer in Python, and make an object of each column.  Nobody waits here but a thread, or the loop for a point
read, so libpq waits.

Rule: a statement that is prepared is planned once; so only what comes again is, and the oldest are forgotten.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors, pq

# How many the server remembers of each connection, and from which time on.
MOST = 1000
_TIMES = 3

_DONE = frozenset({pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY})


class Statement:
    """What is known of a statement on one connection."""

    __slots__ = ("columns", "name", "times")

    def __init__(self) -> None:
        self.times = 0
        self.name = b""  # prepared by
        self.columns: tuple[str, ...] | None = None


class Statements:
    """Those of one connection, for one thread at a time."""

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self._pgconn = pgconn
        self._known: OrderedDict[str, Statement] = OrderedDict()
        self._count = 0

    def run(
        self, text: str, values: Sequence[Any], formats: Sequence[int] | None
    ) -> tuple[Statement, pq.abc.PGresult]:
        """Run a statement of which `values` are the parameters.  Raises `psycopg.Error`."""
        statement = self._known.get(text)
        if statement is None:
            statement = self._known[text] = Statement()
            if len(self._known) > MOST:
                self._forget()
        else:
            self._known.move_to_end(text)
        statement.times += 1
        if not statement.name and statement.times >= _TIMES:
            self._count += 1
            name = b"s%d" % self._count
            self.checked(self._pgconn.prepare(name, text.encode()))
            statement.name = name
        if statement.name:
            result = self._pgconn.exec_prepared(statement.name, values, formats)
        else:
            result = self._pgconn.exec_params(text.encode(), values, param_formats=formats)
        return statement, self.checked(result)

    def command(self, sql: str) -> None:
        """Run statements as they are, several with semicolons between.  Raises `psycopg.Error`."""
        self.checked(self._pgconn.exec_(sql.encode()))

    def checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in _DONE:
            return result
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
            # Said by libpq, not by the server: that is out of reach.
            said = result.error_message.decode("utf-8", "replace").strip()
            self._pgconn.finish()
            raise psycopg.OperationalError(said)
        raise errors.error_from_result(result)

    def _forget(self) -> None:
        _, oldest = self._known.popitem(last=False)
        # In a transaction that has failed the server keeps it, under a name that is not used again.
        if oldest.name and self._pgconn.transaction_status != pq.TransactionStatus.INERROR:
            self.checked(self._pgconn.exec_(b"DEALLOCATE " + oldest.name))
