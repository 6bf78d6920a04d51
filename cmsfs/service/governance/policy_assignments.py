"""Policy assignments, and the files and versions that each covers.

The common part of legal holds and retention; what differs is in `legal_holds.py` and `retention.py`.

Rule: an assignment covers existing and new items; items that leave stay covered (protection.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from sqlite3 import Connection, Row
from typing import Any, ClassVar, Generic, TypeVar

import pydantic
from starlette import responses

from cmsfs.models import paging, wire_names
from cmsfs.models.content import items
from cmsfs.models.enterprise import legal_holds, retention
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation, Parameter
from cmsfs.service.governance import policies
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

New = TypeVar("New", legal_holds.NewHoldAssignment, retention.NewRetentionAssignment)

# Paging parameters of the lists of assignments and of covered files.
PAGE = (*operations.MARKED, operations.FIELDS)


class Assignments(ABC, Generic[New]):
    """The assignments of one kind of policy."""

    path: ClassVar[str]
    listing: ClassVar[str]  # the method and path of the operation that lists them
    filters: ClassVar[tuple[Parameter, ...]]
    select: ClassVar[str]  # SQL: columns beside the assignment's own (a), including its target as `shown`
    join: ClassVar[str] = ""
    mini: ClassVar[tuple[str, ...]]
    shape: ClassVar[type[pydantic.BaseModel]]
    version_shape: ClassVar[type[pydantic.BaseModel]]
    closed: ClassVar[tuple[str, str]]  # the column that closes a policy to assignments, and its word
    version_note: ClassVar[str] = ""
    coverage: ClassVar[tuple[str, str]]  # the word for covered files, and the SQL that finds them
    deleting_errors: ClassVar[tuple[int, ...]] = ()
    new: type[New]

    def __init__(self, of: policies.Policies[Any, Any]) -> None:
        self.of = of

    @abstractmethod
    def policy_id(self, call: calls.Call) -> str:
        """Return the id of the policy whose assignments are requested."""

    @abstractmethod
    def conditions(self, call: calls.Call) -> list[tuple[str, Any]]:
        """Return a listing's filters, as SQL with one placeholder and its value."""

    @abstractmethod
    def target(self, read: store.Read, caller: calls.Caller, wish: New) -> dict[str, Any]:
        """Return the columns that define what is covered; 404 if the enterprise has no such target."""

    @abstractmethod
    def remove(self, conn: Connection, row: Row, now: int) -> None:
        """Delete an assignment; 403 or 409 if it may not be deleted."""

    @abstractmethod
    def details(self, call: calls.Call, row: Row) -> dict[str, Any]:
        """Return the assignment's id and the fields beyond those that every kind has."""

    @abstractmethod
    def versions(
        self, read: store.Read, shaper: item_serializer.ItemSerializer, rows: Sequence[Row]
    ) -> list[dict[str, Any]]:
        """Return the covered earlier versions as JSON."""

    def assign(
        self, conn: Connection, policy: int, kind: str, target: int, *, by: int, now: int, **more: Any
    ) -> int:
        """Cover existing and new items of a target; 409 if it is assigned already."""
        columns = {"policy": policy, "type": kind, "target": target, "assigned_by": by, "assigned_at": now}
        conflict_message = "The policy is assigned to this already."
        return policies.insert_row(conn, self.of.assigned, columns | more, conflict_message=conflict_message)

    async def handle_list(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        wire_id = self.policy_id(call)
        params = call.request.query_params
        limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
        conditions = [
            ("p.enterprise = ?", call.caller.enterprise),
            ("a.policy = ?", self.of.get(call.store.read, call.caller, wire_id)["id"]),
            (f"{self.of.in_force} AND a.id > ?", after),
            *self.conditions(call),
        ]
        rows, marker = policies.page(call, self._select, conditions, "a.id", limit)
        return calls.answer(
            marker_pagination.envelope([self._shown(call, one) for one in rows], limit, marker)
        )

    async def handle_create(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        wish = await call.body(self.new)

        def txn(conn: Connection) -> dict[str, Any]:
            read = store.reader(conn)
            policy = self.of.get(read, call.caller, wish.policy_id)
            column, word = self.closed
            if policy[column] is not None:
                raise problems.Refused(409, "conflict", f"The policy is {word}.")
            number = self.assign(
                conn,
                policy["id"],
                wish.assign_to.type,
                by=call.caller.id,
                now=call.store.now(),
                **self.target(read, call.caller, wish),
            )
            return self._shown(call, self._get(read, call.caller, str(number)))

        return calls.answer(await call.store.write(txn), 201)

    async def handle_get(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)
        return calls.answer(self._shown(call, self._get(call.store.read, call.caller, call.id)))

    async def handle_delete(self, call: calls.Call) -> responses.Response:
        calls.require_admin(call.caller)

        def txn(conn: Connection) -> None:
            self.remove(conn, self._get(store.reader(conn), call.caller, call.id), call.store.now())

        await call.store.write(txn)
        return responses.Response(status_code=self.of.deleting[1])

    async def handle_covered(self, current: bool, call: calls.Call) -> responses.Response:
        """List the files whose current version is covered; not `current`: the covered earlier versions."""
        calls.require_admin(call.caller)
        assignment = self._get(call.store.read, call.caller, call.id)["id"]
        params = call.request.query_params
        limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
        now = call.store.now()

        def run(read: store.Read) -> dict[str, Any]:
            found = protection.covered(
                read, self.coverage[1], assignment, current=current, after=after, limit=limit + 1, now=now
            )
            rows, marker = marker_pagination.cut_page(found, limit)
            shaper = item_serializer.ItemSerializer(read, call.fields, mini=True)
            entries = shaper.items(rows) if current else self.versions(read, shaper, rows)
            return marker_pagination.envelope(entries, limit, marker)

        return calls.answer(await call.store.query(run))

    @property
    def _select(self) -> str:
        return (
            f"SELECT a.*, p.name AS policy_name, u.name, u.login, {self.select}"
            f" FROM {self.of.assigned} AS a JOIN {self.of.name} AS p ON p.id = a.policy"
            f" JOIN account AS u ON u.id = a.assigned_by {self.join}"
        )

    def find(self, read: store.Read, call: calls.Call, wire_id: str) -> dict[str, Any]:
        """Return an assignment as JSON; 404 if the enterprise has none with this id."""
        return self._shown(call, self._get(read, call.caller, wire_id))

    def _get(self, read: store.Read, caller: calls.Caller, wire_id: str) -> Row:
        sql = f"{self._select} WHERE p.enterprise = ? AND a.id = ?"
        found = read(sql, caller.enterprise, calls.parse_id(wire_id))
        if not found:
            raise problems.not_found(f"{self.of.name}_assignment", wire_id)
        return found[0]

    def _shown(self, call: calls.Call, row: Row) -> dict[str, Any]:
        by = {"type": "user", "id": str(row["assigned_by"]), "name": row["name"], "login": row["login"] or ""}
        target = wire_names.ROOT_ID if row["target"] == call.caller.root else str(row["shown"])
        whole = {
            "type": f"{self.of.name}_assignment",
            "assigned_to": {"type": row["type"], "id": target},
            "assigned_by": by,
            "assigned_at": item_serializer.to_timestamp(row["assigned_at"]),
        }
        return marker_pagination.select_fields(whole | self.details(call, row), self.mini, call.fields)

    def routes(self) -> list[Operation]:
        shape: Any = self.shape
        version: Any = self.version_shape
        one, covered = f"{self.path}/{{id}}", self.coverage[0]
        word = covered.replace(" ", "_")
        return [
            Operation(
                self.listing,
                self.handle_list,
                f"List what a {self.of.title} is assigned to",
                paging.MarkerPage[shape],
                query=[*self.filters, *PAGE],
                errors=(404,),
            ),
            Operation(
                f"POST {self.path}",
                self.handle_create,
                f"Assign a {self.of.title}",
                shape,
                status=201,
                query=[operations.FIELDS],
                body=self.new,
                errors=(404, 409),
            ),
            Operation(
                f"GET {one}",
                self.handle_get,
                f"Get an assignment of a {self.of.title}",
                shape,
                query=[operations.FIELDS],
            ),
            Operation(
                f"DELETE {one}",
                self.handle_delete,
                f"Unassign a {self.of.title}",
                status=self.of.deleting[1],
                errors=self.deleting_errors,
            ),
            Operation(
                f"GET {one}/files_{word}",
                partial(self.handle_covered, True),
                f"List the files {covered}",
                paging.MarkerPage[items.File],
                query=PAGE,
                more=f"The files whose current version is {covered}.",
            ),
            Operation(
                f"GET {one}/file_versions_{word}",
                partial(self.handle_covered, False),
                f"List the earlier versions {covered}",
                paging.MarkerPage[version],
                query=PAGE,
                more=self.version_note,
            ),
        ]
