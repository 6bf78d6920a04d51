"""File versions with the legal holds and the retention that cover them, one entry per version.

An older form of `files_on_hold` and the like, which clients still use.  An entry has the id of its version;
entries are not stored: coverage is computed on request (protection.py).

Rule: administrators only; versions of another enterprise do not exist.
"""

import json
from collections.abc import Mapping, Sequence
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.models import base, paging
from cmsfs.models.enterprise import retention as models_retention
from cmsfs.models.enterprise import version_policies
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.governance import legal_holds
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

_ACTIONS = ("permanently_delete", "remove_retention")


async def list_held(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    if not (wire_id := params.get("policy_id")):
        raise problems.invalid("policy_id", "is required", reason="missing_parameter")
    # A policy that does not exist, or belongs to another enterprise, holds nothing.
    policy = calls.parse_id(wire_id) or -1
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)

    def run(read: store.Read) -> dict[str, Any]:
        found = protection.held_versions(
            read, call.caller.enterprise, now=call.store.now(), policy=policy, after=after, limit=limit + 1
        )
        rows, marker = marker_pagination.cut_page(found, limit)
        return marker_pagination.envelope(_held(read, call, rows), limit, marker)

    return calls.answer(await call.store.query(run))


async def get_held(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    number = _version_id(call, "file_version_legal_hold")

    def run(read: store.Read) -> list[dict[str, Any]]:
        enterprise, now = call.caller.enterprise, call.store.now()
        return _held(read, call, protection.held_versions(read, enterprise, now=now, version=number))

    if not (found := await call.store.query(run)):
        raise problems.not_found("file_version_legal_hold", call.id)
    return calls.answer(found[0])


def _held(read: store.Read, call: calls.Call, rows: Sequence[Row]) -> list[dict[str, Any]]:
    files = _files(read, rows)
    shown: dict[str, dict[str, Any]] = {}
    for number in {one for row in rows for one in row["assignments"].split(",")}:
        shown[number] = one = legal_holds.ASSIGNMENTS.find(read, call, number)
        # The public API shows no name of the policy here.
        one["legal_hold_policy"] = {
            "type": "legal_hold_policy",
            "id": str(one["legal_hold_policy"]["id"]),
        }
    return [
        _of_version("file_version_legal_hold", row, files)
        | {
            "legal_hold_policy_assignments": [
                shown[one] for one in sorted(row["assignments"].split(","), key=int)
            ],
            "deleted_at": None,
        }
        for row in rows
    ]


async def list_retained(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    wanted = _filter(params)
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)

    def run(read: store.Read) -> dict[str, Any]:
        enterprise, now = call.caller.enterprise, call.store.now()
        found = protection.retained_versions(read, enterprise, wanted, now=now, after=after, limit=limit + 1)
        rows, marker = marker_pagination.cut_page(found, limit)
        return marker_pagination.envelope(_retained(read, rows), limit, marker)

    return calls.answer(await call.store.query(run))


async def get_retained(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wanted = protection.RetentionFilter(version=_version_id(call, "file_version_retention"))

    def run(read: store.Read) -> list[dict[str, Any]]:
        enterprise, now = call.caller.enterprise, call.store.now()
        return _retained(read, protection.retained_versions(read, enterprise, wanted, now=now))

    if not (found := await call.store.query(run)):
        raise problems.not_found("file_version_retention", call.id)
    return calls.answer(found[0])


def _retained(read: store.Read, rows: Sequence[Row]) -> list[dict[str, Any]]:
    files = _files(read, rows)
    return [
        _of_version("file_version_retention", row, files)
        | {
            "applied_at": item_serializer.to_timestamp(max(row["assigned_at"], row["created_at"])),
            "disposition_at": None
            if row["until"] >= protection.FOREVER
            else item_serializer.to_timestamp(row["until"]),
            "winning_retention_policy": {
                "type": "retention_policy",
                "id": str(row["policy"]),
                "policy_name": row["policy_name"],
                "retention_length": models_retention.INDEFINITE if row["days"] is None else str(row["days"]),
                "disposition_action": row["action"],
            },
        }
        for row in rows
    ]


def _filter(params: Mapping[str, str]) -> protection.RetentionFilter:
    numbers = {}
    for name in ("file_id", "file_version_id", "policy_id"):
        if wire_id := params.get(name):
            # An invalid id matches nothing.
            numbers[name] = calls.parse_id(wire_id) or -1
    action = params.get("disposition_action") or None
    if action is not None and action not in _ACTIONS:
        raise problems.invalid("disposition_action", f"must be {' or '.join(_ACTIONS)}")
    return protection.RetentionFilter(
        file=numbers.get("file_id"),
        version=numbers.get("file_version_id"),
        policy=numbers.get("policy_id"),
        action=action,
        ends_after=_moment(params, "disposition_after"),
        ends_before=_moment(params, "disposition_before"),
    )


def _moment(params: Mapping[str, str], name: str) -> int | None:
    if not (text := params.get(name)):
        return None
    try:
        return item_serializer.micros(base.parse_timestamp(text))
    except ValueError as error:
        raise problems.invalid(name, str(error)) from None


def _version_id(call: calls.Call, kind: str) -> int:
    number = calls.parse_id(call.id)
    if number is None:
        raise problems.not_found(kind, call.id)
    return number


def _files(read: store.Read, rows: Sequence[Row]) -> dict[int, dict[str, Any]]:
    numbers = json.dumps([row["file"] for row in rows])
    found = read("SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers)
    shaper = item_serializer.ItemSerializer(read, mini=True)
    return {one["id"]: shaped for one, shaped in zip(found, shaper.items(found), strict=True)}


def _of_version(kind: str, row: Row, files: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": kind,
        "id": str(row["id"]),
        "file_version": {"type": "file_version", "id": str(row["id"]), "sha1": row["sha1"]},
        "file": files[row["file"]],
    }


routes = [
    Operation(
        "GET /file_version_legal_holds",
        list_held,
        "List the versions that a legal hold covers",
        paging.MarkerPage[version_policies.HeldVersion],
        query=(operations.Parameter("policy_id", "The policy.", required=True), *operations.MARKED),
    ),
    Operation(
        "GET /file_version_legal_holds/{id}",
        get_held,
        "Get the legal holds on a version",
        version_policies.HeldVersion,
    ),
    Operation(
        "GET /file_version_retentions",
        list_retained,
        "List the versions that are retained",
        paging.MarkerPage[version_policies.RetainedVersion],
        query=(
            operations.Parameter("file_id", "Of one file."),
            operations.Parameter("file_version_id", "One version."),
            operations.Parameter("policy_id", "Kept longest by this policy."),
            operations.choice("disposition_action", "With this end.", *_ACTIONS),
            operations.Parameter("disposition_before", "Ending before: an RFC 3339 date-time."),
            operations.Parameter("disposition_after", "Ending after: an RFC 3339 date-time."),
            *operations.MARKED,
        ),
    ),
    Operation(
        "GET /file_version_retentions/{id}",
        get_retained,
        "Get the retention of a version",
        version_policies.RetainedVersion,
    ),
]
