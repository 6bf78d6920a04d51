"""Policies of an enterprise: list, create, change, delete.

Legal holds and retention are policies with assignments (`policy_assignments.py`); this module has what they
share, `legal_holds.py` and `retention.py` what differs.

Rule: administrators only; a policy of another enterprise does not exist.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from sqlite3 import Connection, IntegrityError, Row
from typing import Any, ClassVar, Generic, TypeVar

import pydantic
from starlette import responses

from cmsfs.models import paging
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation, Parameter
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

New = TypeVar("New", bound=pydantic.BaseModel)
Update = TypeVar("Update", bound=pydantic.BaseModel)


class Policies(ABC, Generic[New, Update]):
    """A kind of policy."""

    name: ClassVar[str]  # of its table, and its type in the API
    path: ClassVar[str]
    assigned: ClassVar[str]  # the table of its assignments
    in_force: ClassVar[str] = "true"  # SQL condition for assignments (a) that count
    mini: ClassVar[tuple[str, ...]]
    shape: ClassVar[type[pydantic.BaseModel]]
    counts: ClassVar[type[pydantic.BaseModel]]
    filters: ClassVar[tuple[Parameter, ...]]  # besides the limit and the marker
    deleting: ClassVar[tuple[str, int]]  # the verb for it, and the status of the response
    new: type[New]
    update: type[Update]

    @abstractmethod
    def conditions(self, params: Mapping[str, str]) -> list[tuple[str, Any]]:
        """Return a listing's filters, as SQL with one placeholder and its value."""

    @abstractmethod
    def columns(self, wish: New) -> dict[str, Any]:
        """Return the values of a new policy's own columns."""

    @abstractmethod
    def changes(self, row: Row, wish: Update, now: int) -> dict[str, Any]:
        """Return the columns that a request changes; 403 for changes that this policy does not allow."""

    @abstractmethod
    def remove(self, conn: Connection, row: Row, now: int) -> None:
        """Delete a policy; 403 if it may not be deleted."""

    @abstractmethod
    def details(self, row: Row, now: int) -> dict[str, Any]:
        """Return the policy's fields beyond those that every kind has."""

    def wire_id(self, call: calls.Call, number: int) -> int | str:
        """Return a policy's id as the specification shows it."""
        return str(number)

    def get(self, read: store.Read, caller: calls.Caller, wire_id: str) -> Row:
        """Return a policy of the caller's enterprise; 404 if there is none with this id."""
        sql = f"SELECT * FROM {self.name} WHERE id = ? AND enterprise = ?"
        found = read(sql, calls.parse_id(wire_id), caller.enterprise)
        if not found:
            raise problems.not_found(self.name, wire_id)
        return found[0]

    def insert(self, conn: Connection, enterprise: int, wish: New, *, by: int, now: int) -> int:
        """Create a policy without assignments; 409 if its name is in use."""
        made = {"enterprise": enterprise, "created_by": by, "created_at": now, "modified_at": now}
        return insert_row(conn, self.name, made | self.columns(wish), conflict_message=self._name_in_use)

    async def handle_list(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        params = call.request.query_params
        limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
        conditions = [("enterprise = ?", call.caller.enterprise), ("id > ?", after), *self.conditions(params)]
        rows, marker = page(call, f"SELECT * FROM {self.name}", conditions, "id", limit)
        entries = [self._shown(call, call.store.read, one) for one in rows]
        return calls.answer(marker_pagination.envelope(entries, limit, marker))

    async def handle_create(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        wish = await call.body(self.new)

        def txn(conn: Connection) -> dict[str, Any]:
            read = store.reader(conn)
            number = self.insert(conn, call.caller.enterprise, wish, by=call.caller.id, now=call.store.now())
            return self._shown(call, read, self.get(read, call.caller, str(number)))

        return calls.answer(await call.store.write(txn), 201)

    async def handle_get(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        read = call.store.read
        return calls.answer(self._shown(call, read, self.get(read, call.caller, call.id)))

    async def handle_update(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        wish = await call.body(self.update)

        def txn(conn: Connection) -> dict[str, Any]:
            read = store.reader(conn)
            row = self.get(read, call.caller, call.id)
            now = call.store.now()
            columns = self.changes(row, wish, now) | {"modified_at": now}
            parts = ", ".join(f"{name} = ?" for name in columns)
            try:
                conn.execute(f"UPDATE {self.name} SET {parts} WHERE id = ?", (*columns.values(), row["id"]))
            except IntegrityError:
                raise problems.Refused(409, "conflict", self._name_in_use) from None
            return self._shown(call, read, self.get(read, call.caller, call.id))

        return calls.answer(await call.store.write(txn))

    async def handle_delete(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)

        def txn(conn: Connection) -> None:
            self.remove(conn, self.get(store.reader(conn), call.caller, call.id), call.store.now())

        await call.store.write(txn)
        return responses.Response(status_code=self.deleting[1])

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    @property
    def _name_in_use(self) -> str:
        return f"A {self.title} with this name exists already."

    def _shown(self, call: calls.Call, read: store.Read, row: Row) -> dict[str, Any]:
        sql = f"SELECT type, count(*) AS n FROM {self.assigned} AS a WHERE policy = ? AND {self.in_force}"
        counts = dict.fromkeys(self.counts.model_fields, 0)
        counts |= {one["type"]: one["n"] for one in read(f"{sql} GROUP BY type", row["id"])}
        user = read("SELECT * FROM account WHERE id = ?", row["created_by"])[0]
        whole = {
            "type": self.name,
            "id": self.wire_id(call, row["id"]),
            "policy_name": row["name"],
            "description": row["description"],
            "assignment_counts": counts,
            "created_by": item_serializer.user_mini(user),
            "created_at": item_serializer.to_timestamp(row["created_at"]),
            "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        }
        return marker_pagination.select_fields(
            whole | self.details(row, call.store.now()), self.mini, call.fields
        )

    def routes(self) -> list[Operation]:
        shape: Any = self.shape
        one, word = f"{self.path}/{{id}}", self.deleting[0]
        return [
            Operation(
                f"GET {self.path}",
                self.handle_list,
                f"List {self.title.removesuffix('y')}ies",
                paging.MarkerPage[shape],
                query=[*self.filters, *operations.MARKED, operations.FIELDS],
            ),
            Operation(
                f"POST {self.path}",
                self.handle_create,
                f"Create a {self.title}",
                shape,
                status=201,
                query=[operations.FIELDS],
                body=self.new,
                errors=(409,),
            ),
            Operation(f"GET {one}", self.handle_get, f"Get a {self.title}", shape, query=[operations.FIELDS]),
            Operation(
                f"PUT {one}",
                self.handle_update,
                f"Change a {self.title}",
                shape,
                query=[operations.FIELDS],
                body=self.update,
                errors=(409,),
            ),
            Operation(f"DELETE {one}", self.handle_delete, f"{word} a {self.title}", status=self.deleting[1]),
        ]


def begins(column: str, text: str) -> tuple[str, Any]:
    """Return the condition that a column begins with a text."""
    return f"substr({column}, 1, {len(text)}) = ?", text


def page(
    call: calls.Call, select: str, conditions: Sequence[tuple[str, Any]], key: str, limit: int
) -> tuple[Sequence[Row], str | None]:
    """Return the rows of one page under all of these conditions, and the marker of the next page."""
    where = " AND ".join(condition for condition, _ in conditions)
    args = [value for _, value in conditions]
    sql = f"{select} WHERE {where} ORDER BY {key} LIMIT ?"
    return marker_pagination.cut_page(call.store.read(sql, *args, limit + 1), limit)


def insert_row(conn: Connection, table: str, columns: Mapping[str, Any], *, conflict_message: str) -> int:
    """Insert a row and return its id; 409 with the message `conflict_message` if it exists already."""
    marks = ", ".join("?" for _ in columns)
    try:
        made = conn.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) RETURNING id", (*columns.values(),)
        ).fetchone()
    except IntegrityError:
        raise problems.Refused(409, "conflict", conflict_message) from None
    return int(made["id"])
